"""What must be seen of the papers' experiments, with fixed seeds: minutes each."""

import pytest

from gossamer.lab.experiments import registry

SEEN: dict[str, tuple[dict[str, registry.Value], tuple[str, ...]]] = {
    "convergence": ({"seeds": 300}, ()),
    "load-distribution": ({"seeds": 1}, ()),
    "latency-vs-rate": (
        {"rates": "180,720,1440,2160", "service_limit": 200.0, "seeds": 1},
        (
            "LBRM is not behind at low rates",  # its logger is far, and peers are near
            "pbcast leaves packets undelivered at high rates, rpbcast none, with loss at receivers",  # but in few runs
        ),
    ),
    "overhead-vs-senders": ({"seeds": 1}, ()),
    "overhead-vs-loss": ({"seeds": 1}, ()),
    "selection-bias": (
        {"seeds": 2},
        (
            "uniform < linear < quadratic in latency, with loss at receivers",  # nobody near lacks the same there
            "uniform < linear < quadratic in latency, with loss at links",  # the core's own bias is too gentle for that
        ),
    ),
    "switching": ({"seeds": 1}, ()),
    "repair-order": ({"members": "10,100", "seeds": 1}, ()),
    "psrm-naive": ({"seeds": 1}, ()),
    "psrm-throughput": ({"rates": "10,50,100,150", "policies": "random,lazy,eager", "seeds": 1}, ()),
    "psrm-parameters": (
        {"nodes": 20, "network_mbps": 2.0, "rate_max": 125.0, "duration_s": 24.0, "margin_s": 6.0, "seeds": 1},
        (),
    ),
    "slow-receiver": ({"seeds": 1}, ()),
    "purging-details": ({"seeds": 1}, ()),
    "tolerated-stall": (
        {"buffers": "20,24", "seeds": 1},
        ("quake traffic, N = 24: by the rate that a receiver needs, purging tolerates a longer stall",),
    ),
    "quake": ({"buffers": "24", "duration_s": 30.0, "seeds": 1}, ()),
    "scale": (
        {"members": "50,100,200,400,1000", "streams_max": 200, "streams": 20, "messages": 20, "seeds": 1},
        (),
    ),
}
"""Parameters that show it in minutes, and what is known not to hold with them (docs/experiments.md says why)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_what_the_paper_says_is_seen(name: str) -> None:
    parameters, excepted = SEEN[name]
    known = registry.find(name).parameters
    one = {"processes": 1} if "processes" in known else {}
    claims = registry.find(name).run(**parameters, **one).claims
    assert claims
    assert {claim.claim for claim in claims} >= set(excepted)
    assert [claim for claim in claims if not claim.holds and claim.claim not in excepted] == []
