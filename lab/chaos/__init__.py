"""Chaos: a mesh of real processes under faults drawn from a seed, and a checker of the recorded histories."""
