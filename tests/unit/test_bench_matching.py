"""The matching bench measures what it says: the same subscriptions for everybody, and an answer without the peers."""

import pytest

from gossamer.bench import matching
from gossamer.bench.matching_workloads import Workload, as_selector, workloads
from gossamer.matching import Index


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.name)
def test_the_index_and_the_scan_agree_on_every_workload(workload: Workload) -> None:
    subscriptions = list(workload.subscriptions(300))
    index: Index[int] = Index()
    for key, subscription in enumerate(subscriptions):
        index.add(key, as_selector(subscription))
    scan = matching.scan(subscriptions)
    for event in workload.events(30):
        assert sorted(index.match(event)) == scan(event)


def test_the_selective_workload_matches_at_most_ten() -> None:
    workload = matching.fresh("selective")
    index: Index[int] = Index()
    for key, subscription in enumerate(workload.subscriptions(3_000)):
        index.add(key, as_selector(subscription))
    found = [len(index.match(event)) for event in workload.events(500)]
    assert 0 < max(found) <= 10


def test_a_peer_that_is_missing_is_said_so_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matching, "optional", lambda _module: None)
    (row,) = matching.against_peers("range", matching.QUICK)
    assert "linear scan" in row.what
    assert "rule-engine is not installed: pip install 'gossamer[bench]'" in capsys.readouterr().err


def test_a_target_is_at_the_size_it_was_named_for() -> None:
    found = matching.Figures(61.0, 70.0, 999.0, 11e-6, 2e-6, 10e-6, 3.0)
    million = {row.what: row.verdict for row in matching.told("selective", 1_000_000, found)}
    assert [million[f"selective, 1,000,000: {what}"] for what in ("add all", "memory", "match")] == [
        "MISSED",
        "holds",
        "MISSED",
    ]
    assert not any(row.verdict for row in matching.told("selective", 100_000, found))
    assert [row.verdict for row in matching.told("range", 100_000, found) if row.unit == "×"] == ["MISSED", ""]
