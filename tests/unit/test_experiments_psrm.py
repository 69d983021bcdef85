"""The experiments of 003 on a small network: the order of the curves, in seconds."""

import pytest

from gossamer.lab.experiments import registry, scale
from gossamer.messages.errors import UsageError

SMALL = {"nodes": 12, "network_mbps": 0.24, "duration_s": 14.0, "margin_s": 4.0, "seeds": 1, "processes": 1}
"""Five messages a second fill it."""


def test_semantic_purging_keeps_what_random_purging_loses() -> None:
    result = registry.find("psrm-throughput").run(rates="2,20", policies="random,lazy,eager,plain", **SMALL)
    assert [(row["rate"], row["policy"]) for row in result.rows] == [
        (rate, policy) for policy in ("random", "lazy", "eager", "plain") for rate in (2.0, 20.0)
    ]
    share, latency_ms = (
        {(row["policy"], row["rate"]): row[name] for row in result.rows} for name in ("share", "latency_ms")
    )
    assert all(share[policy, 2.0] > 0.8 for policy in ("random", "lazy", "eager", "plain"))
    for weak in ("random", "plain"):
        assert share[weak, 20.0] < 0.3
    assert share["eager", 20.0] > 0.5
    assert latency_ms["eager", 20.0] < latency_ms["lazy", 20.0] < latency_ms["random", 20.0]


def test_ours_delivers_everything_that_is_not_obsolete_while_there_is_room() -> None:
    result = registry.find("psrm-throughput").run(rates="2", policies="ours", **SMALL)
    (row,) = result.rows
    assert row["share"] == 1.0


def test_a_longer_period_costs_the_naive_composition_delivery_and_latency() -> None:
    result = registry.find("psrm-naive").run(periods_s="0.1,1", rate=2.0, **SMALL)
    assert [claim.holds for claim in result.claims] == [True, True], result.claims


def test_the_highest_rate_is_found_by_halving() -> None:
    result = registry.find("psrm-parameters").run(
        buffers="", diversities="", lengths="1,5", ratios="", goal=0.6, rate_max=20.0, step=8.0, **SMALL
    )
    assert [row["parameter"] for row in result.rows] == ["l", "l"]
    alone, chained = (row["max_rate"] for row in result.rows)
    assert alone < chained


def test_a_member_of_a_larger_mesh_pays_little_more_and_everybody_is_reached() -> None:
    result = registry.find("scale").run(members="16,32,64", messages=8, streams=4, view=12, seeds=1, processes=1)
    assert {claim.holds for claim in result.claims} == {True}, result.claims
    assert {row["reached"] for row in result.rows if row["curve"] != "push"} == {1.0}
    sent = {(row["curve"], row["members"]): row["kbytes"] for row in result.rows}
    for curve in ("repair", "push", "partial"):
        assert sent[curve, 16] < sent[curve, 64] < 2.5 * sent[curve, 16]


def test_a_mesh_of_more_streams_than_members_has_them_all() -> None:
    outcome = scale.measure(("partial", 10), 1, streams=30, messages=40, view=4, loss=0.05)
    assert outcome.reached == 1.0
    assert outcome.kbytes > 0


def test_large_meshes_are_seen_once() -> None:
    assert [scale._runs(("partial", size), seeds=3) for size in (100, 10_000)] == [3, 1]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("psrm-throughput", {"policies": "greedy"}),
        ("psrm-throughput", {"rates": "0"}),
        ("psrm-throughput", {"margin_s": 20.0}),
        ("psrm-throughput", {"senders": 51}),
        ("psrm-throughput", {"seeds": 0}),
        ("psrm-naive", {"nodes": 1}),
        ("psrm-parameters", {"policies": "greedy"}),
        ("psrm-parameters", {"goal": 0.0}),
        ("scale", {"members": "1"}),
        ("scale", {"curves": "wide"}),
    ],
)
def test_what_cannot_be_is_refused(name: str, parameters: dict[str, registry.Value]) -> None:
    with pytest.raises(UsageError):
        registry.find(name).run(**parameters)
