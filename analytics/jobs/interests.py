"""Which interests belong together: a proposal of multicast groups (thesis §1.4 leaves that mapping open).

What a selector matches of a sample of the events of its group is its *match vector*. Selectors whose vectors point the
same way are put together (bisecting k-means by cosine, MLlib); each such cluster's selectors are merged into one, the
interest of a group. An event is then published in the first group whose interest it matches, and a subscriber listens
to the groups in which something it wants may be (`matching.routing`). Clusters are put together, or given up, as long
as that costs less than a group is worth.

    one group       every subscriber's broker takes every event
    by interest     it takes those of the groups that it listens to
    ideal           it takes what it wants

The difference between the first and the second is what is *saved*, that between the second and the third is *waste*.

| table | a row for each | columns |
|---|---|---|
| `interests` | group that is proposed | of, place, name, selector, subscriptions, events, deliveries, wanted |
| `listening` | selector that was tested | of, selector, subscriptions, cluster, listens, wanted, received |
| `traffic` | group there is, and plan | of, plan, groups, deliveries, share |

`of` is the group that is split. Of a proposed group, `place` is its place in the order, `events` the share of the
events that it gets, `wanted` the share of its deliveries that are wanted. Of a selector, `wanted` and `received` are
shares of all events. `deliveries` count each sampled event once for each subscription that takes it; `share` is of
those with one group.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml.clustering import BisectingKMeans
from pyspark.ml.feature import CountVectorizer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gossamer.analytics import asked, local
from gossamer.analytics.asked import Chosen
from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.plot import Plot
from gossamer.matching import Selector, SelectorError, merge, tree
from gossamer.matching.routing import Routes

NAME = "interests"
TITLE = "Interests as groups"

SPLIT_MAX = 4
"""Groups that are split: those with the most subscriptions."""
CLUSTERS_MAX = 16
WORTH = 0.01
"""A group has to save this share of the deliveries, or it is not worth its protocol's overhead (thesis §1.4)."""
BROAD = 0.5
"""Who takes this share of everything is no interest: it listens to all groups, and shapes none."""
SAVING = 0.1
"""A proposal that saves less is not advised."""

PLOTS = (
    Plot(
        "traffic", "bar", "plan", "share", "of", "Traffic with groups by interest",
        "The lower the middle bar, the more is saved; what it is above the right one is taken for nothing."
        " groups.toml has the groups: gossamer broker --groups groups.toml.",
    ),
    Plot(
        "interests", "bar", "name", ("events", "wanted"), None, "Proposed groups",
        "How much of the traffic each group takes, and how much of that a subscriber who listens to it wants.",
    ),
)  # fmt: skip

GROUPS = (
    "of STRING, place INT, name STRING, selector STRING, subscriptions LONG, events DOUBLE, deliveries LONG,"
    " wanted DOUBLE"
)
LISTENING = (
    "of STRING, selector STRING, subscriptions LONG, cluster STRING, listens ARRAY<STRING>, wanted DOUBLE,"
    " received DOUBLE"
)
TRAFFIC = "of STRING, plan STRING, groups INT, deliveries LONG, share DOUBLE"


def run(inputs: Inputs) -> dict[str, DataFrame]:
    chosen = asked.choose(inputs)
    by_group: dict[str, list[Chosen]] = {}
    for each in chosen:
        by_group.setdefault(each.group, []).append(each)
    split = sorted(by_group, key=lambda name: -sum(each.subscriptions for each in by_group[name]))[:SPLIT_MAX]
    sizes = {row["group"]: row["count"] for row in _sizes(inputs, split)}
    matched = asked.matches(inputs)
    groups: list[tuple[Any, ...]] = []
    listening: list[tuple[Any, ...]] = []
    traffic: list[tuple[Any, ...]] = []
    for name in split:
        if name in sizes:
            proposal = _propose(name, by_group[name], sizes[name], matched, inputs)
            for table, rows in zip((groups, listening, traffic), proposal, strict=True):
                table += rows
    return {
        "interests": local.table(inputs.spark, groups, GROUPS),
        "listening": local.table(inputs.spark, listening, LISTENING),
        "traffic": local.table(inputs.spark, traffic, TRAFFIC),
    }


def _sizes(inputs: Inputs, groups: list[str]) -> list[Any]:
    return asked.sample(inputs).where(F.col("group").isin(groups)).groupBy("group").count().collect()


def _propose(
    of: str, chosen: list[Chosen], events: int, matched: DataFrame, inputs: Inputs
) -> tuple[list[Any], list[Any], list[Any]]:
    """All of this is bounded by what is chosen and sampled, so it may be here; the selectors are compared elsewhere."""
    numbers = [each.number for each in chosen]
    clusters = _clusters(matched.where(F.col("number").isin(numbers)), chosen, events)
    weights = np.array([each.subscriptions for each in chosen], np.int64)
    wants = np.zeros((len(chosen), events), bool)
    places = {each.number: place for place, each in enumerate(chosen)}
    for row in matched.where(F.col("number").isin(numbers)).toLocalIterator():
        wants[places[row["number"]], row["events"]] = True
    cluster = np.array([clusters.get(each.number, -1) for each in chosen])
    interests, kept = _interests(inputs, chosen, _settle(wants, weights, cluster), of)
    routes = list(interests.items())
    heard = _listen(inputs, chosen, routes, of)
    # The events of each group: those of the first interest that matches them.
    place = np.full(events, len(routes))
    for number in reversed(range(len(routes))):
        members = [at for at, each in enumerate(kept) if each == number]
        place[wants[members].any(axis=0)] = number
    sizes = np.bincount(place, minlength=len(routes) + 1)
    order = [*interests, of]
    hears = np.array([[name in names for name in order] for names in heard], bool).reshape(len(chosen), len(order))
    received = hears @ sizes
    wanted = wants.sum(axis=1)
    groups = []
    for number, (name, selector) in enumerate(routes):
        listeners = hears[:, number]
        taken = int(weights[listeners].sum() * sizes[number])
        used = int((wants[listeners][:, place == number].sum(axis=1) * weights[listeners]).sum())
        groups.append((of, number, name, selector, int(weights[np.array(kept) == number].sum()),
                       float(sizes[number] / events), taken, used / taken if taken else 0.0))  # fmt: skip
    listening = [
        (of, each.selector, each.subscriptions, order[kept[at]] if kept[at] >= 0 else None, heard[at],
         float(wanted[at] / events), float(received[at] / events))
        for at, each in enumerate(chosen)
    ]  # fmt: skip
    everything = int(weights.sum() * events)
    plans = [
        ("one group", 1, everything), ("by interest", len(order), int((received * weights).sum())),
        ("ideal", len(chosen), int((wanted * weights).sum())),
    ]  # fmt: skip
    traffic = [(of, plan, count, taken, taken / everything) for plan, count, taken in plans]
    return groups, listening, traffic


def _clusters(matched: DataFrame, chosen: list[Chosen], events: int) -> dict[int, int]:
    """The cluster of each selector that has an interest: that matches something, and not nearly everything."""
    some = matched.where(F.size("events") <= BROAD * events)
    if some.count() < 2:
        return {row["number"]: 0 for row in some.collect()}
    weights = local.table(
        matched.sparkSession, [(each.number, float(each.subscriptions)) for each in chosen], "number INT, weight DOUBLE"
    )
    words = some.join(F.broadcast(weights), "number").withColumn("words", F.col("events").cast("array<string>"))
    # The events are the words, a selector is the text of those it matches: MLlib makes the vectors, sparse, in the JVM.
    vectorizer = CountVectorizer(inputCol="words", outputCol="features", binary=True, vocabSize=asked.EVENTS_MAX)
    vectors = vectorizer.fit(words).transform(words).select("number", "weight", "features").persist()
    means = BisectingKMeans(
        k=CLUSTERS_MAX, maxIter=10, seed=1, distanceMeasure="cosine", weightCol="weight", featuresCol="features"
    )
    found = means.fit(vectors).transform(vectors).select("number", "prediction").collect()
    vectors.unpersist()
    return {row["number"]: row["prediction"] for row in found}


def _settle(wants: Any, weights: Any, cluster: Any) -> list[int]:
    """Put clusters together, or give them up, while that loses less than a group is worth; the group of each selector,
    or -1. The groups are in the order that costs least of two: the smallest first, or the most subscribed first."""
    names = [name for name in np.unique(cluster) if name >= 0]
    if not names:
        return [-1] * len(wants)
    interest = np.array([wants[cluster == name].any(axis=0) for name in names], bool)
    # Events that the same clusters want are alike: a few kinds stand for thousands of events.
    kinds, kind = np.unique(interest, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    sizes = np.bincount(kind, minlength=kinds.shape[1])
    wanted = np.zeros((len(wants), len(sizes)), bool)
    for each in range(len(sizes)):
        wanted[:, each] = wants[:, kind == each].any(axis=1)
    parts: list[list[int]] = [[at] for at in range(len(names))]

    def ordered(parts: Sequence[list[int]]) -> tuple[float, list[list[int]]]:
        orders = (
            sorted(parts, key=lambda part: sizes[kinds[part].any(axis=0)].sum()),
            sorted(parts, key=lambda part: -weights[np.isin(cluster, [names[at] for at in part])].sum()),
        )
        return min(((_cost(order, kinds, sizes, wanted, weights), order) for order in orders), key=lambda each: each[0])

    worth = WORTH * float(weights.sum() * sizes.sum())
    cost, parts = ordered(parts)
    while parts:
        fewer = [[*parts[:at], *parts[at + 1 :]] for at in range(len(parts))]
        fewer += [
            [[*parts[one], *parts[other]], *(part for at, part in enumerate(parts) if at not in (one, other))]
            for one in range(len(parts)) for other in range(one)
        ]  # fmt: skip
        best, candidate = min((ordered(each) for each in fewer), key=lambda each: each[0])
        if best - cost > worth:
            break
        cost, parts = best, candidate
    group = {names[at]: place for place, part in enumerate(parts) for at in part}
    return [group.get(each, -1) for each in cluster]


def _cost(parts: Sequence[list[int]], kinds: Any, sizes: Any, wanted: Any, weights: Any) -> float:
    """The deliveries, if these are the groups, in this order."""
    free = np.ones(len(sizes), bool)
    total = 0.0
    for mine in [*(kinds[part].any(axis=0) for part in parts), free.copy()]:
        here = mine & free
        free &= ~mine
        total += float(sizes[here].sum() * weights[wanted[:, here].any(axis=1)].sum())
    return total


# On the executors ---------------------------------------------------------------------------------------------------


def _interests(inputs: Inputs, chosen: list[Chosen], kept: list[int], of: str) -> tuple[dict[str, str], list[int]]:
    """The name and the selector of each group: its members' selectors, merged. And again the group of each selector:
    one whose interest would be more than a selector may be is given up."""
    rows = [(place, each.selector) for each, place in zip(chosen, kept, strict=True) if place >= 0]
    frame = local.table(inputs.spark, rows, "place INT, selector STRING")
    gathered = frame.groupBy("place").agg(F.sort_array(F.collect_list("selector")).alias("selectors"))
    merged = gathered.mapInArrow(_merge, "place INT, selector STRING").where("selector IS NOT NULL").collect()
    found = {row["place"]: row["selector"] for row in merged}
    place = {old: new for new, old in enumerate(sorted(found))}
    return {f"{of}-{place[old] + 1}": found[old] for old in place}, [place.get(old, -1) for old in kept]


def _merge(batches: asked.Batches) -> asked.Batches:
    for batch in batches:
        texts = [_merged(selectors) for selectors in batch.column("selectors").to_pylist()]
        yield pa.RecordBatch.from_arrays([batch.column("place"), pa.array(texts, pa.string())], ["place", "selector"])


def _merged(selectors: list[str]) -> str | None:
    text = str(Selector.of(tree.either([each.tree for each in merge(selectors)])))
    try:
        return str(Selector(text))
    except SelectorError:
        return None


def _listen(inputs: Inputs, chosen: list[Chosen], interests: list[tuple[str, str]], of: str) -> list[list[str]]:
    """The groups that each selector has to listen to."""
    rows = [(place, each.selector) for place, each in enumerate(chosen)]
    frame = local.table(inputs.spark, rows, "place INT, selector STRING")
    found = frame.mapInArrow(_listener(interests, of), "place INT, listens ARRAY<STRING>").orderBy("place").collect()
    return [row["listens"] for row in found]


def _listener(interests: list[tuple[str, str]], of: str) -> Callable[[asked.Batches], asked.Batches]:
    def listen(batches: asked.Batches) -> asked.Batches:
        routes = Routes(dict(interests), of)
        for batch in batches:
            heard = [routes.groups_of(selector) for selector in batch.column("selector").to_pylist()]
            yield pa.RecordBatch.from_arrays(
                [batch.column("place"), pa.array(heard, pa.list_(pa.string()))], ["place", "listens"]
            )

    return listen


# What to do with it -------------------------------------------------------------------------------------------------


def groups_toml(groups: Iterable[Any]) -> str:
    """The rows of `interests` as the file that `gossamer broker --groups` loads."""
    lines = ["# An event is published in the first of these groups that it matches, or else in the one they split."]
    for row in groups:
        lines += ["", f"[groups.{_quoted(row['name'])}]", f"of = {_quoted(row['of'])}"]
        lines.append(f"selector = {_quoted(row['selector'])}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # a basic string of TOML


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    found = []
    plans: dict[str, dict[str, Any]] = {}
    for row in tables["traffic"].collect():
        plans.setdefault(row["of"], {})[row["plan"]] = row
    for of, plan in plans.items():
        saved = 1 - plan["by interest"]["share"]
        groups = tables["interests"].where(F.col("of") == of).orderBy("place").collect()
        if saved >= SAVING and groups:
            wasted = plan["by interest"]["share"] - plan["ideal"]["share"]
            found.append(
                Advice(
                    f"Split the group {of} into {len(groups) + 1} by interest: {saved:.0%} less to take",
                    f"{plan['ideal']['share']:.0%} of what a subscriber's broker takes with one group is wanted. With"
                    f" these groups it takes {plan['by interest']['share']:.0%}: {wasted:.0%} of all for nothing."
                    " gossamer broker --groups groups.toml loads them.",
                    groups_toml(groups),
                )
            )
    return found
