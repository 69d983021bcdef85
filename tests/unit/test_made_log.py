"""The log with known answers has them: what its truth tells is what is in it."""

import json
from collections import Counter

import pytest

from gossamer.cli.main import main
from gossamer.lab.made_log import AHEAD_NS, BEGIN_NS, MadeLog, quotes_model
from gossamer.logger.store import Store
from gossamer.matching import Selector

EVENTS = 20_000


@pytest.fixture(scope="module")
def made():
    log = MadeLog(EVENTS, seed=7)
    commits = list(log)
    events = [
        (logged_ns, event)
        for logged_ns, packets in commits
        for packet in packets
        for event in packet.events()
        if not packet.stream.startswith("$sys/")
    ]
    told = [event for _, packets in commits for p in packets if p.stream.startswith("$sys/") for event in p.events()]
    return log, events, told, log.truth()


def test_the_same_seed_makes_the_same_log():
    first, again, other = (list(MadeLog(500, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_events_bytes_and_publishers(made):
    _, events, told, truth = made
    assert len(events) == truth["events"] == EVENTS
    assert len(told) == truth["telemetry"]
    of_stream = Counter(event.id.stream for _, event in events)
    assert of_stream == {each["stream"]: each["events"] for each in truth["publishers"].values()}
    assert sum(each["bytes"] for each in truth["groups"].values()) == truth["bytes"]
    ids = [event.id for _, event in events]
    assert len(set(ids)) == EVENTS
    times = [(event.id.stream, event.time_ns) for _, event in events]
    assert len(set(times)) == EVENTS, "a hybrid clock gives no time twice"


def test_distances_are_those_of_the_model(made):
    _, events, _, truth = made
    newest, counted, keyed = {}, Counter(), 0
    for _, event in events:
        if event.key is not None:
            keyed += 1
            before = newest.get((event.id.stream, event.key))
            if before is not None:
                counted[min(event.id.seq - before, truth["distances"]["max"])] += 1
            newest[event.id.stream, event.key] = event.id.seq
    assert {str(x): count for x, count in counted.items()} == truth["distances"]["counts"]
    assert truth["distances"]["keyed"] == keyed
    # Of the largest stream of quotes, whose symbols are independent draws: within five standard deviations.
    largest = max(truth["publishers"].values(), key=lambda each: each["events"] * (each["group"] == "default"))
    keys = [event.key for _, event in events if event.id.stream == largest["stream"]]
    for x in (1, 2, 5, 20):
        pairs = [keys[at] == keys[at + x] and keys[at] not in keys[at + 1 : at + x] for at in range(len(keys) - x)]
        expected = quotes_model(x)
        assert abs(sum(pairs) / len(pairs) - expected) < 5 * (expected * (1 - expected) / len(pairs)) ** 0.5 * 2


def test_what_is_planted_is_there(made):
    _, events, _, truth = made
    planted = truth["anomalies"]
    seqs = {}
    for _, event in events:
        seqs.setdefault(event.id.stream, []).append(event.id.seq)
    (gap,) = planted["gaps"]
    for stream, found in seqs.items():
        missing = sorted(set(range(max(found) + 1)) - set(found))
        assert missing == (list(range(gap["first"], gap["last"] + 1)) if stream == gap["stream"] else [])
    (silent,) = planted["silent"]
    last_ns = max(event.time_ns for _, event in events if event.id.stream == silent["stream"])
    assert last_ns == silent["last_ns"] < BEGIN_NS + 0.61 * (truth["end_ns"] - BEGIN_NS)
    (ahead,) = planted["clock_offset"]
    delays = {True: [], False: []}
    for logged_ns, event in events:
        delays[event.id.stream == ahead["stream"]].append(logged_ns - event.time_ns)
    assert max(delays[True]) < 0 < min(delays[False])
    bounds = truth["logged_after_ns"]
    assert bounds["min"] - 10_000 <= min(delays[False]) <= max(delays[False]) <= bounds["max"]
    assert bounds["min"] - 10_000 <= min(delays[True]) + AHEAD_NS
    orders = Counter(event.key for _, event in events if event.id.stream.startswith("orders/"))
    assert 0.45 < orders["ORD-HOT"] / orders.total() < 0.55


def test_subscriptions_match_what_the_truth_says(made):
    _, events, told, truth = made
    attributes = [event.attributes for _, event in events if event.id.stream.startswith("default/")]
    for each in truth["subscriptions"]:
        assert sum(Selector(each["selector"]).matches_each(attributes)) == each["matches"], each
    added = [event for event in told if event.attributes["type"] == "subscription" and not event.deleted]
    assert [event.attributes["selector"] for event in added] == [
        each["selector"] for node in ("b1", "b2", "b3") for each in truth["subscriptions"] if each["node"] == node
    ]
    over = {event.attributes["client"] for event in told if event.deleted}
    assert over == {each["client"] for each in truth["subscriptions"] if each["removed"]}
    assert {each["cluster"] for each in truth["subscriptions"]} == {0, 1, 2, 3, None}


def test_members_have_told_the_totals_by_the_end(made):
    _, _, told, truth = made
    newest = {event.key: event.attributes for event in told}
    repaired = Counter()
    for attributes in newest.values():
        if attributes["type"] == "repair":
            repaired[attributes["way"], attributes["rounds"]] += attributes["events"]
    assert repaired == {(each["way"], each["rounds"]): each["events"] for each in truth["repaired"]}
    purged = {
        hop: sum(newest[f"sample/{node}"][f"purged_{hop}_obsolete"] for node in ("b1", "b2", "b3"))
        for hop in truth["purged"]
    }
    assert purged == truth["purged"]
    assert {node: newest[f"sample/{node}"]["packets_repaired"] for node in truth["repair_load"]} == truth["repair_load"]


@pytest.fixture
def run(capsys):
    def command(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["lab", "run", "make-log", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return command


def test_the_command_writes_a_store_and_the_truth_beside_it(run, tmp_path):
    url = f"sqlite:///{tmp_path / 'log.db'}"
    code, out, _ = run("--events", 1_000, "--store", url, "--json")
    assert (code, out.count("\n")) == (0, 1)
    document = json.loads(out)
    assert document["truth"] == json.loads((tmp_path / "log.db.truth.json").read_text())
    assert sum(row["events"] for row in document["rows"]) == document["truth"]["events"] == 1_000
    with Store(url) as store:
        assert store.node == "made"
        assert store.derived() == store.number > 0
    code, _, err = run("--events", 1_000, "--store", url)
    assert code == 2
    assert "is not empty" in err


def test_the_command_writes_an_archive(run, tmp_path):
    import pyarrow.parquet

    assert run("--events", 1_000, "--archive", tmp_path / "archive")[0] == 0
    truth = json.loads((tmp_path / "archive.truth.json").read_text())
    assert pyarrow.parquet.read_table(tmp_path / "archive").num_rows == truth["events"] + truth["telemetry"]


@pytest.mark.parametrize("arguments", [(), ("--store", "sqlite:///x.db", "--archive", "x")])
def test_it_is_one_or_the_other(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert "--store URL or --archive DIR" in err
