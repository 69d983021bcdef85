"""One Hypothesis profile for all: a busy machine is no failure, so nothing is judged by the clock."""

from hypothesis import HealthCheck, settings

settings.register_profile("gossamer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gossamer")
