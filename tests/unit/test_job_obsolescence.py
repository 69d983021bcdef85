"""How far apart related events are, against tables counted by hand and against the model's own measure."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gossamer.analytics.jobs import obsolescence
from gossamer.lab import traffic
from gossamer.logger.rows import annotation
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.purging_model import distances, rates
from tables import event, inputs, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def profile(spark: "SparkSession", told: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[int, int]]:
    """How many events there are of each distance, by group and scope."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for group, scope, distance, events in rows(
        obsolescence.run(inputs(spark, told))["obsolescence"], "group", "scope", "distance", "events"
    ):
        found.setdefault((group, scope), {})[distance] = events
    return found


def test_keys_names_commits_and_keys_of_the_group(spark: "SparkSession") -> None:
    x = {"key": "x"}
    named: dict[str, Any] = {"annotation": {"obsoletes": [["g/names", 1], ["other/stream", 3], ["g/names", 0]]}}
    parts = [{"annotation": {"part": [at, 2]}, "key": key} for at, key in enumerate("xy")]
    commit: dict[str, Any] = {"annotation": {"commit": {"parts": 2, "keys": ["x", "y"]}}}
    whole: dict[str, Any] = {"annotation": {"scope": "group"}, "key": "x"}
    told = [event("g/keys", seq, **said) for seq, said in enumerate(({}, x, {}, x, {"key": "y"}, x, x))]  # 2, 2, 1
    told += [event("g/names", seq, **said) for seq, said in enumerate(({}, {}, {}, {}, named))]  # 3
    told += [event("g/holes", seq, **x) for seq in (0, 300)]  # 300, which is told as 304
    # A commit obsoletes what was set before its own parts, and the commit before it; a key of its own no part.
    commits = (x, {}, *parts, commit, x, *parts, commit)  # 4: x at 0; x at 5: x at 0; 8: x at 5, commit at 4
    told += [event("t/commits", seq, **said) for seq, said in enumerate(commits)]
    # By time in the group: m is 3 after its like, which a stream of its own published, and what is late counts as well.
    told += [event("w/a", 0, at_s=0.1, **whole), event("w/b", 0, at_s=0.2), event("w/b", 1, at_s=1.3)]
    told += [event("w/b", 2, at_s=1.4, **whole), event("w/a", 1, at_s=1.5, rank=-1.0, **whole)]

    found = profile(spark, told)

    assert found["g", "stream"] == {0: 9, 1: 1, 2: 2, 3: 1, 304: 1}
    assert found["t", "stream"] == {0: 6, 3: 1, 4: 1, 5: 1}
    assert found["w", "stream"] == {0: 5}
    assert found["w", "group"] == {0: 3, 1: 1, 3: 1}


def test_it_agrees_with_the_model_s_own_measure_of_a_stream(spark: "SparkSession") -> None:
    """Keys, names and transactions in a mess, as a publisher annotates them."""
    random = Random(7)
    annotator = Annotator("g/mess")
    contents: list[Content] = []
    while len(contents) < 400:
        keys = [random.choice("abcdefgh") for _ in range(3)]
        near = range(max(0, len(contents) - 30), len(contents))
        plain = [seq for seq in near if (said := contents[seq].relation) is None or not (said.part or said.commit)]
        match random.randrange(8):
            case 0:
                contents += annotator.transaction([Part({}, key=key) for key in keys])
            case 1 if plain:
                contents.append(annotator.event({}, obsoletes=[EventId("g/mess", random.choice(plain))]))
            case 2 | 3:
                contents.append(annotator.event({}))
            case _:
                contents.append(annotator.event({}, key=keys[0]))
    told = [
        event("g/mess", seq, key=content.key)
        | {"annotation": None if content.relation is None else annotation("g/mess", seq, content.relation)}
        for seq, content in enumerate(contents)
    ]
    assert profile(spark, told)["g", "stream"] == dict(sorted(Counter(distances(contents)).items()))


def test_buffers_and_the_prediction_are_those_of_the_model(spark: "SparkSession") -> None:
    r, d = 0.8, 10
    contents = list(islice(traffic.overwrites(Random(1), r, d), 3_000))
    told = [event("g/a", seq, at_s=seq / 100, key=content.key) for seq, content in enumerate(contents)]
    told += [event("plain/a", seq, at_s=seq) for seq in range(30)]
    tables = obsolescence.run(inputs(spark, told))

    measured = dict(rows(tables["obsolescence"].where("group = 'g'"), "distance", "r"))
    for n in (1, 5, 20, 50):
        assert measured[n] == pytest.approx(traffic.R_N(n, r, d), abs=0.03)  # of 3,000 events
    most = max(measured.values())
    buffers = rows(tables["buffers"], "group", "target", "buffer", "k", "streams", "queue", "sender_rate", "r")
    assert [row[:2] for row in buffers] == [("g", target) for target in obsolescence.TARGETS]
    for _, target, buffer, k, streams, queue, rate, share in buffers:
        assert measured[buffer] == share >= target * most > measured[buffer - 1]
        assert (k, streams, queue, rate) == (min(256, -(-buffer // 8) * 8), 1.0, buffer, 100.0)
    (_, _, buffer, *_, share) = buffers[2]
    for told_buffer, receiver_share, sender_rate, receiver_rate, predicted in rows(
        tables["prediction"], "buffer", "receiver_share", "sender_rate", "receiver_rate", "predicted_rate"
    ):
        assert (told_buffer, sender_rate, receiver_rate) == (buffer, 100.0, 100 * receiver_share)
        assert predicted == pytest.approx(rates(100.0, receiver_rate, share).sender, abs=1e-3)
    fitting, keys = obsolescence.advise(tables)
    assert f"g: buffer={buffer}" in fitting.why
    assert keys.title.startswith("Give the events of plain keys")
