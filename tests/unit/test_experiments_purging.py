"""The experiments of 000 with little time: the order of the curves."""

import pytest

from gossamer.lab.experiments import quake, registry, sweep
from gossamer.lab.experiments.tolerated_stall import Point, estimate_ms, fill_s
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content


def held(result: registry.Result) -> dict[str, bool]:
    return {claim.claim: claim.holds for claim in result.claims}


def test_a_slow_receiver_by_model_simulation_and_core() -> None:
    result = registry.find("slow-receiver").run(figures="5.3", duration_s=10.0, seeds=1, processes=1)
    assert list(held(result).values()) == [True, True], result.claims
    for row in result.rows:
        assert row["simulation"] == pytest.approx(row["analytical"], rel=0.2)
        assert row["real"] == pytest.approx(row["simulation"], rel=0.05)


def test_how_purging_is_done() -> None:
    result = registry.find("purging-details").run(delays_ms="15,20", duration_s=60.0, seeds=1)
    assert set(held(result).values()) == {True}, result.claims


def test_a_stalled_receiver_is_tolerated_for_longer_with_purging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.lab.experiments.tolerated_stall.estimate_ms", lambda _: 1.0)
    result = registry.find("tolerated-stall").run(buffers="20,24", stalls=2, seeds=1, processes=1)
    assert [holds for claim, holds in held(result).items() if "stops" in claim] == [True, True], result.claims
    strict = next(row for row in result.rows if (row["traffic"], row["curve"]) == ("model", "reliable"))
    assert 190 < strict["buffer_ms"] < strict["core_ms"] < 225


def test_by_the_rate_that_a_receiver_needs_a_stall_is_the_papers() -> None:
    """000 §5.4.3: 212 and 377 ms."""
    assert estimate_ms(Point("model", "reliable", 20)) == pytest.approx(212, rel=0.05)
    assert estimate_ms(Point("model", "semantic", 20)) == pytest.approx(377, rel=0.05)


def test_a_buffer_is_full_when_nothing_in_it_is_obsolete() -> None:
    said = [(at / 10, Content(key=key)) for at, key in enumerate("xyxyz")]
    assert fill_s(said, 2, purging=True) == 0.4
    assert fill_s(said, 2, purging=False) == 0.2


def test_the_game_is_accommodated_with_half_of_it_purged() -> None:
    result = registry.find("quake").run(delays_ms="10,30", buffers="", duration_s=20.0, processes=1)
    assert set(held(result).values()) == {True}, result.claims


def test_the_largest_that_holds_is_found_by_halving() -> None:
    asked: list[float] = []

    def holds(x: float) -> bool:
        asked.append(x)
        return x <= 37

    assert sweep.largest(holds, 0.0, 100.0, 1.0) == pytest.approx(37, abs=1)
    assert len(asked) == 8
    assert sweep.largest(lambda _: True, 0.0, 100.0, 1.0) == 100.0


def test_intervals_are_students() -> None:
    assert sweep.interval([5.0]) == 0.0
    assert sweep.interval([1.0, 2.0, 3.0]) == pytest.approx(4.30 / 3**0.5)
    assert sweep.summary("x", [1.0, 3.0]) == {"x": 2.0, "x_ci": pytest.approx(12.71, abs=0.01)}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("slow-receiver", {"duration_s": 0.0}),
        ("purging-details", {"delays_ms": "0"}),
        ("tolerated-stall", {"stalls": 0}),
        ("quake", {"delays_ms": "x"}),
    ],
)
def test_what_cannot_be_is_refused(name: str, parameters: dict[str, registry.Value]) -> None:
    with pytest.raises(UsageError):
        registry.find(name).run(**parameters)


def test_an_update_is_fresh_once_it_or_a_newer_one_has_come() -> None:
    measured = quake.measure_point(("6.3", "semantic", 1.0, 40), 1, duration_s=5.0)
    assert measured["within 0"] == 1.0
    assert measured["purged"] == 0.0
