"""The experiments of 003 on a small network: the order of the curves, in seconds."""

from random import Random

import pytest

from gossamer.lab.experiments import registry, scale
from gossamer.messages.errors import UsageError
from gossamer.messages.wire import Member

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
    small = {"messages": 8, "streams": 4, "view": 12, "streams_max": 32, "seeds": 1}
    result = registry.find("scale").run(members="16,32,64", **small, processes=1)
    assert {claim.holds for claim in result.claims} == {True}, result.claims
    assert {row["reached"] for row in result.rows if row["curve"] != "push"} == {1.0}
    sent = {(row["curve"], row["members"]): row["kbytes"] for row in result.rows}
    for curve in ("repair", "push", "partial"):
        assert sent[curve, 16] < sent[curve, 64] < 2.5 * sent[curve, 16]
    assert [(row["members"], row["streams"]) for row in result.rows if row["curve"] == "streams"] == [
        (16, 160),
        (32, 320),
    ]
    assert {row["kbytes_held"] for row in result.rows} == {None}


def test_what_a_member_holds_is_seen_in_a_process_of_its_own() -> None:
    result = registry.find("scale").run(members="64", curves="partial", messages=8, streams=4, view=12, seeds=2)
    assert 10 < result.rows[0]["kbytes_held"] < 1_000


def test_who_knows_somebody_is_known_to_it() -> None:
    records = [Member(f"n{number}", "member", 1) for number in range(50)]
    known = scale.acquaint(records, 8, Random(1))
    for place, record in enumerate(records):
        assert record in known[place]
        assert 3 <= len(known[place]) - 1 < 20
        assert all(record in known[int(other.node[1:])] for other in known[place])


def test_a_mesh_of_more_streams_than_members_has_them_all() -> None:
    outcome = scale.measure(scale.Point("partial", 10, 30, 40, 4), 1, loss=0.05)
    assert outcome.reached == 1.0
    assert outcome.kbytes > 0


def test_large_meshes_are_seen_once() -> None:
    points = [scale.Point("partial", size, 1, 1, 4) for size in (100, 10_000)]
    assert [scale._runs(point, seeds=3) for point in points] == [3, 1]


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
