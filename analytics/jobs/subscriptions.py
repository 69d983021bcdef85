"""Who asks for what: the attributes, operators and values in selectors, growth and churn, and what selectors match.

| table | a row for each | columns |
|---|---|---|
| `subscriptions` | distinct selector | group, selector, subscriptions, clients, sampled, matched, share, verdict |
| `asked` | attribute and operator | attribute, operator, selectors, subscriptions |
| `values` | value of those | attribute, operator, value, selectors, subscriptions |
| `churn` | window | window_start, added, changed, removed, active |
| `selectivity` | band of shares | band, selectors, subscriptions |
| `covering` | selector contained in another | group, selector, subscriptions, covered_by, same |

`verdict` is `never` (matched nothing of the sample), `all`, `some`, `untested` (not among those with the most
subscriptions, or no event flowed in its group), or `unreadable`. `share` is of the sampled events of its group. `same`:
the two match the same, and are written differently. A subscription counts once for each selector that it had.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics import asked, local
from gossamer.analytics.inputs import Inputs
from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.jobs.timeline import second_of, width_s, window_start
from gossamer.matching import SelectorError
from gossamer.matching.covering import conjunctions

NAME = "subscriptions"
TITLE = "What is asked for"

COVERING_MAX = 1_000
"""Selectors that are compared with each other: a million pairs."""
COVERERS_MAX = 8
BANDS = ((0.0, "nothing"), (0.001, "≤ 0.1 %"), (0.01, "≤ 1 %"), (0.1, "≤ 10 %"), (0.5, "≤ 50 %"), (0.999999, "< 100 %"))
EVERYTHING = "everything"

PLOTS = (
    Plot(
        "asked", "bar", "attribute", "subscriptions", "operator", "Attributes asked for",
        "Publish what is asked for as attributes; what nobody asks for may as well be in the body.",
    ),
    Plot(
        "churn", "line", "window_start", "active", None, "Subscriptions over time",
        "A saw-tooth is clients that subscribe anew instead of keeping one: sub.update() or a durable name spare that.",
    ),
    Plot(
        "selectivity", "bar", "band", "subscriptions", None, "How much of the traffic a selector takes",
        "On top those that never match (a typing error?), at the bottom those that take everything.",
    ),
)  # fmt: skip


def run(inputs: Inputs) -> dict[str, DataFrame]:
    parsed = asked.selectors(inputs)
    judged = _judged(inputs, parsed).persist()
    return {
        "subscriptions": judged,
        **_asked(parsed),
        "churn": _churn(asked.changes(inputs), width_s(inputs)),
        "selectivity": _selectivity(judged),
        "covering": _covering(judged),
    }


def _asked(parsed: DataFrame) -> dict[str, DataFrame]:
    terms = parsed.select("group", "selector", "subscriptions", F.explode("terms").alias("term"))
    terms = terms.select("group", "selector", "subscriptions", "term.*")
    found = {}
    for table, columns in (("asked", ["attribute", "operator"]), ("values", ["attribute", "operator", "value"])):
        once = terms.dropDuplicates(["group", "selector", *columns])  # `price > 1 OR price > 2` asks for price > once
        counted = once.groupBy(*columns).agg(
            F.count("*").alias("selectors"), F.sum("subscriptions").alias("subscriptions")
        )
        found[table] = counted.orderBy(F.desc("subscriptions"), *columns)
    return found


def _churn(changed: DataFrame, width: int) -> DataFrame:
    """`active` counts from the first change on; one that is first told of as changed was there before."""
    window = window_start(second_of("published_ns"), width)
    by_key = Window.partitionBy("key").orderBy("published_ns")
    alive = F.when(F.col("action") == "removed", 0).otherwise(1)
    before = F.coalesce(F.lag(alive).over(by_key), F.when(F.col("action") == "changed", 1).otherwise(0))
    first = F.row_number().over(by_key) == 1
    there = F.when(first & (F.col("action") == "changed"), 1).otherwise(0)
    steps = changed.select("action", window.alias("window_start"), (alive - before).alias("step"),
                           there.alias("there"))  # fmt: skip
    counts = [F.count_if(F.col("action") == action).alias(action) for action in ("added", "changed", "removed")]
    windows = steps.groupBy("window_start").agg(*counts, F.sum("step").alias("step"), F.sum("there").alias("there"))
    # Windows are few, whatever the span (timeline.py): one partition takes them.
    so_far = Window.partitionBy(F.lit(0)).orderBy("window_start").rowsBetween(Window.unboundedPreceding, 0)
    always = Window.partitionBy(F.lit(0))
    active = F.sum("step").over(so_far) + F.sum("there").over(always)
    return windows.select("window_start", "added", "changed", "removed", active.alias("active")).orderBy("window_start")


def _judged(inputs: Inputs, parsed: DataFrame) -> DataFrame:
    sampled = asked.sample(inputs)
    numbers = local.table(
        inputs.spark,
        [(each.number, each.group, each.selector) for each in asked.choose(inputs)],
        "number INT, `group` STRING, selector STRING",
    )
    counted = asked.matches(inputs).select("number", F.size("events").cast("long").alias("matched"))
    tested = numbers.join(sampled.groupBy("group").agg(F.count("*").alias("sampled")), "group")
    tested = tested.join(counted, "number", "left").fillna(0, ["matched"])
    share = F.col("matched") / F.col("sampled")
    verdict = (
        F.when(~F.col("readable"), "unreadable").when(F.col("sampled").isNull(), "untested")
        .when(F.col("matched") == 0, "never").when(F.col("matched") == F.col("sampled"), "all").otherwise("some")
    )  # fmt: skip
    columns = ["group", "selector", "subscriptions", "clients", "sampled", "matched"]
    found = parsed.join(tested, ["group", "selector"], "left")
    return found.select(*columns, share.alias("share"), verdict.alias("verdict")).orderBy(
        F.desc("subscriptions"), "group", "selector"
    )


def _selectivity(judged: DataFrame) -> DataFrame:
    names = [*(name for _, name in BANDS), EVERYTHING]
    band: Column = F.lit(len(BANDS))
    for place, (most, _) in reversed(list(enumerate(BANDS))):
        band = F.when(F.col("share") <= most, place).otherwise(band)
    counted = judged.where("share IS NOT NULL").groupBy(band.alias("place")).agg(
        F.count("*").alias("selectors"), F.sum("subscriptions").alias("subscriptions")
    )  # fmt: skip
    named = local.table(judged.sparkSession, enumerate(names), "place INT, band STRING")
    return named.join(counted, "place", "left").fillna(0).orderBy("place").select("band", "selectors", "subscriptions")


def _covering(judged: DataFrame) -> DataFrame:
    some = judged.where("verdict <> 'unreadable'").select("group", "selector", "subscriptions", "share")
    some = some.orderBy(F.desc("subscriptions"), "group", "selector").limit(COVERING_MAX)
    all_of_them = [(row["group"], row["selector"]) for row in some.collect()]
    spread = some.repartition(judged.sparkSession.sparkContext.defaultParallelism, "group", "selector")
    kinds = "`group` STRING, selector STRING, subscriptions LONG, covered_by STRING, same BOOLEAN"
    found = spread.select("group", "selector", "subscriptions").mapInArrow(_coverer(all_of_them), kinds)
    return found.orderBy(F.desc("subscriptions"), "group", "selector", "covered_by")


def _coverer(selectors: list[tuple[str, str]]) -> Callable[[asked.Batches], asked.Batches]:
    """Taken apart once in each task, instead of once for each pair."""

    def cover(batches: asked.Batches) -> asked.Batches:
        known: dict[str, dict[str, list[Any]]] = {}
        for group, selector in selectors:
            try:
                known.setdefault(group, {})[selector] = conjunctions(selector)
            except SelectorError:
                continue
        schema = pa.schema(
            [("group", pa.string()), ("selector", pa.string()), ("subscriptions", pa.int64()),
             ("covered_by", pa.string()), ("same", pa.bool_())]
        )  # fmt: skip
        for batch in batches:
            rows = []
            for group, narrow, count in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                ours, left = known[group][narrow], COVERERS_MAX
                for wide, theirs in known[group].items():
                    if wide != narrow and _includes(theirs, ours):
                        rows.append((group, narrow, count, wide, _includes(ours, theirs)))
                        left -= 1
                        if not left:
                            break
            columns = zip(*rows, strict=True) if rows else [()] * len(schema)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return cover


def _includes(wide: list[Any], narrow: list[Any]) -> bool:
    """What `covers` tells, of what was taken apart before."""
    return all(any(one.includes(other) for one in wide) for other in narrow)


def advise(tables: dict[str, DataFrame]) -> list[Advice]:
    found = []
    judged = tables["subscriptions"]
    for verdict, what, why in (
        ("never", "nothing", "Nothing that flowed matches their selectors: a name or a value may be"
         " misspelt, or what they wait for is not published any more."),
        ("all", "everything", "They are sent every event of their group. A selector spares them"
         " what they do not use."),
    ):  # fmt: skip
        these = judged.where(F.col("verdict") == verdict)
        count = these.agg(F.sum("subscriptions")).collect()[0][0] or 0
        if count:
            shown = [row["selector"] or "(none)" for row in these.limit(3).collect()]
            examples = "; ".join(text if len(text) <= 60 else f"{text[:57]}…" for text in shown)
            subject = "A subscription matches" if count == 1 else f"{count:,} subscriptions match"
            found.append(Advice(f"{subject} {what}", f"{why} For example: {examples}"))
    repeated = judged.agg(F.sum(F.col("subscriptions") - F.col("clients"))).collect()[0][0] or 0
    if repeated:
        why = "The same client asks for the same more than once: each copy is matched, queued and sent."
        found.append(Advice(f"Clients repeat {repeated:,} of their own subscriptions", why))
    return found
