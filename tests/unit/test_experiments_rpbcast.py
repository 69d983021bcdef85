"""The experiments of 004 §7 in a second or two of virtual time: the order of the curves."""

from random import Random
from typing import Any

import pytest

from gossamer.lab.baselines.lbrm import Lbrm, Service
from gossamer.lab.baselines.pbcast import Pbcast
from gossamer.lab.experiments import (
    latency_vs_rate,
    load_distribution,
    overhead_vs_senders,
    registry,
    selection_bias,
    switching,
)
from gossamer.lab.experiments.latency_vs_rate import _runs, untold_share
from gossamer.lab.names import stream_of
from gossamer.lab.transit import CORE, LOGGER, Setting, _config, run
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.wire import Data, Gossip, Idle, Recover, Repair, Request, Span
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Send
from gossamer.protocol.inputs import Publish, Received, Start, Wake

QUICK: dict[str, Any] = {"duration_s": 2.0, "seeds": 1, "processes": 1}
STREAM = stream_of("a", 1)


def test_the_logger_of_lbrm_carries_a_multiple() -> None:
    result = registry.find("load-distribution").run(**QUICK)
    assert [claim.holds for claim in result.claims] == [True, True], result.claims
    assert sum(row["kind"] == "member" for row in result.rows) == 3 * 19
    assert sum(row["kind"] == "link" for row in result.rows) >= 3 * 2 * 29


def test_lbrm_explodes_when_its_logger_is_overloaded_and_the_switch_does_not() -> None:
    calm, congested = 200.0, 1_200.0
    latency_s = {
        (protocol, rate): run(Setting(protocol, rate=rate, service_limit=50.0, duration_s=3.0), 1).latency_s
        for protocol in ("lbrm", "rpbcast", "ours", "auto", "pbcast")
        for rate in (calm, congested)
    }
    assert latency_s["lbrm", calm] < 1.1 * latency_s["rpbcast", calm]
    assert latency_s["lbrm", congested] > 1.5 * latency_s["rpbcast", congested]
    for protocol in ("ours", "auto"):
        assert latency_s[protocol, congested] < 1.2 * latency_s["rpbcast", congested]
    for rate in (calm, congested):
        assert latency_s["rpbcast", rate] < latency_s["pbcast", rate]


def test_gossip_first_spares_the_logger_that_logger_first_overloads() -> None:
    result = registry.find("repair-order").run(members="10,40", settings="calm,lossy", service_limit=30.0, **QUICK)
    assert [claim.holds for claim in result.claims] == [True] * 4, result.claims
    served = {
        (row["setting"], row["order"]): float(row["logger_kb_s"] or 0) for row in result.rows if row["members"] == 40
    }
    for setting in ("calm", "lossy"):
        assert served[setting, "gossip"] < 0.5 * min(served[setting, "logger"], served[setting, "auto"])
    assert all(row["repairs"] for row in result.rows if row["setting"] == "lossy")


def test_nobody_lacks_anything_in_the_end() -> None:
    lossy = {
        protocol: run(Setting(protocol, loss=0.05, duration_s=2.0), 1)
        for protocol in ("lbrm", "rpbcast", "ours", "auto")
    }
    assert {outcome.undelivered for outcome in lossy.values()} == {0}
    assert sum(lossy["lbrm"].repairs.values()) < 2 * lossy["lbrm"].repairs[LOGGER]


def test_overhead_of_pbcast_grows_with_the_senders() -> None:
    result = registry.find("overhead-vs-senders").run(senders="1,18", **QUICK)
    assert [claim.holds for claim in result.claims] == [True, True], result.claims
    result = registry.find("overhead-vs-loss").run(losses="0.001,0.05", **QUICK)
    assert {claim.holds for claim in result.claims} == {True}, result.claims


@pytest.mark.parametrize(
    "curves",
    [
        load_distribution.PROTOCOLS,
        latency_vs_rate.PROTOCOLS,
        latency_vs_rate.UNRELIABLE,
        overhead_vs_senders.PROTOCOLS,
        [protocol for protocol, _ in selection_bias.CURVES],
        switching.CURVES,
    ],
)
def test_figures_of_the_thesis_are_measured_with_its_setting_and_with_the_default(curves: Any) -> None:
    assert {"rpbcast", "ours"} <= set(curves)


def test_ours_is_the_default_setting_and_rpbcast_the_papers() -> None:
    paper, default = (_config(Setting(protocol)) for protocol in CORE)
    changed = ("repair_first", "round_interval_max_s", "remulticast_requesters")
    assert [getattr(default, name) for name in changed] == [getattr(Config(), name) for name in changed]
    assert [getattr(paper, name) for name in changed] == ["gossip", paper.round_interval_s, 0]


def test_a_steep_bias_costs_latency_where_neighbours_lack_the_same() -> None:
    """Table 7.2 of 004: the order of the means, and of the deviations."""
    uniform, quadratic = (
        run(Setting("rpbcast", selection=selection, steep=steep, duration_s=4.0, measured=True, lossy_links=True), 1)
        for selection, steep in (("uniform", False), ("quadratic", True))
    )
    assert uniform.undelivered == quadratic.undelivered == 0
    assert uniform.latency_s < quadratic.latency_s
    assert uniform.deviation_s < quadratic.deviation_s
    assert uniform.hub_bytes > quadratic.hub_bytes


def test_acknowledging_less_often_is_cheaper() -> None:
    often, seldom = (run(Setting("rpbcast", positions_rounds=rounds, duration_s=4.0), 1) for rounds in (4, 16))
    assert seldom.overhead_bytes < 0.85 * often.overhead_bytes
    assert often.undelivered == seldom.undelivered == 0


def test_what_pbcast_never_delivers_was_told_nobody_in_time() -> None:
    """A chance that falls with the rounds that it is kept: computed, and seen with few of them."""
    assert untold_share(0.01, 10) < untold_share(0.01, 2) < 17 * 0.01
    outcome = run(Setting("pbcast", gclimit_rounds=2, rate=720.0, duration_s=3.0), 1)
    assert outcome.undelivered == pytest.approx(untold_share(0.01, 2) * outcome.packets, rel=0.5)


def test_low_rates_are_run_more_often() -> None:
    assert [_runs(Setting("lbrm", rate=rate), seeds=3) for rate in (18.0, 360.0, 7200.0)] == [30, 15, 3]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("load-distribution", {"rate": 0.0}),
        ("latency-vs-rate", {"rates": "1,-1"}),
        ("overhead-vs-senders", {"senders": "19"}),
        ("overhead-vs-loss", {"losses": "1"}),
        ("selection-bias", {"seeds": 0}),
        ("switching", {"service_limit": 0.0}),
        ("repair-order", {"settings": "stormy"}),
        ("repair-order", {"members": "2"}),
    ],
)
def test_what_cannot_be_is_refused(name: str, parameters: dict[str, registry.Value]) -> None:
    with pytest.raises(UsageError):
        registry.find(name).run(**parameters)


# The baselines by themselves ------------------------------------------------------------------------------------------


def packet(seq: int) -> Data:
    return Data("a", pack(STREAM, seq, [Content()]))


def sends(effects: list[Any]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def test_lbrm_asks_the_logger_at_once_and_again() -> None:
    node = Lbrm("b", Config(), Random(1), peers=("a", "b", LOGGER), loggers=(LOGGER,))
    node.handle(Start(), 0.0)
    node.handle(Received("a", packet(0)), 0.0)
    (asked,) = sends(node.handle(Received("a", packet(2)), 0.1))
    assert asked == Send((LOGGER,), Recover((Span(STREAM, ((1, 1),)),)))
    assert node.next_deadline() == pytest.approx(0.35)
    assert sends(node.handle(Wake(), 0.35)) == [asked]
    node.handle(Received(LOGGER, Repair((packet(1).packet,))), 0.4)
    assert sends(node.handle(Wake(), 0.6)) == []


def test_lbrm_heartbeats_back_off() -> None:
    node = Lbrm("a", Config(), Random(1), peers=("a", "b", LOGGER), loggers=(LOGGER,))
    node.handle(Publish(STREAM, (Content(),)), 0.0)
    node.handle(Received(LOGGER, next(_acks())), 0.01)
    beats = []
    while len(beats) < 4:
        now = node.next_deadline()
        beats += [now for send in sends(node.handle(Wake(), now)) if isinstance(send.message, Idle)]
    assert beats == [0.25, 0.75, 1.75, 3.75]


def _acks() -> Any:
    logger = Lbrm(LOGGER, Config(), Random(1), peers=("a", "b", LOGGER), logger=True)
    for send in sends(logger.handle(Received("a", packet(0)), 0.0)):
        yield send.message


def test_a_node_repairs_no_more_than_its_limit() -> None:
    service = Service(100.0)
    assert sum(service.takes(0.0) for _ in range(200)) == 25
    assert sum(service.takes(1.0) for _ in range(200)) == 25
    assert sum(service.takes(1.0 + at / 1_000) for at in range(1_000)) == pytest.approx(100, abs=2)


def test_pbcast_asks_for_what_a_digest_tells_and_forgets_after_some_rounds() -> None:
    a, b = (Pbcast(name, Config(gclimit_rounds=2), Random(1), peers=("a", "b")) for name in "ab")
    a.handle(Publish(STREAM, (Content(),)), 0.0)
    digest = sends(a.handle(Wake(), 0.25))[0].message
    assert digest == Gossip(1, (Span(STREAM, ((0, 0),)),), 0, 0)
    (request,) = sends(b.handle(Received("a", digest), 0.3))
    assert request.message == Request((Span(STREAM, ((0, 0),)),))
    (repair,) = sends(a.handle(Received("b", request.message), 0.3))
    b.handle(Received("a", repair.message), 0.3)
    assert sends(b.handle(Received("a", digest), 0.4)) == []
    digests = [sends(a.handle(Wake(), 0.5 + 0.25 * turn))[0].message for turn in range(3)]
    assert [bool(each.lacks) for each in digests] == [True, False, False]
    assert sends(a.handle(Received("b", request.message), 2.0)) == []
