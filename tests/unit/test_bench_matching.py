"""The matching bench measures what it says: the same subscriptions for everybody, and an answer without the peers."""

import json

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


def test_one_line_of_json_and_a_clear_word_about_peers_that_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matching, "QUICK_SIZES", (50,))
    monkeypatch.setattr(matching, "PASS_S", 0.0)
    monkeypatch.setattr(matching, "PEERS_SIZE", 50)
    monkeypatch.setattr(matching, "optional", lambda _module: None)
    monkeypatch.setattr(matching, "apart", lambda workload, size: matching.measure(workload.name, size))
    assert matching.main(["--quick", "--only", "range", "--json"]) == 0
    out = capsys.readouterr().out
    report = json.loads(out)
    assert (out.count("\n"), len(report["rows"]), len(report["peers"])) == (1, 1, 4)
    assert report["peers"][2]["us/event"] == "not installed: pip install 'gossamer[bench]'"
    assert matching.main(["--quick", "--only", "range"]) == 0
    assert "rule-engine" in capsys.readouterr().out
