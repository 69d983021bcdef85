"""What was asked for: subscriptions as brokers told of them, and what their selectors match of what flowed.

Selectors are parsed and tested by the code that brokers run (gossamer.matching), on the executors. Distinct selectors
and events grow without end, so what is tested is bounded: the selectors with the most subscriptions, and of each group
an even sample of its events, the same in every run. What is left out is told as such, and never as not matching. It is
done once for all jobs that ask.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gossamer.analytics.inputs import Inputs
from gossamer.matching import Index, Selector, SelectorError, tree
from gossamer.matching.text import literal_text, operand_text

SELECTORS_MAX = 2_000
"""That are tested: those with the most subscriptions."""
EVENTS_MAX = 10_000
"""Of each group, that they are tested with."""
VALUE_LENGTH_MAX = 64

Batches = Iterator[Any]
"""Of `pyarrow.RecordBatch`, which has no types."""

TOLD = "action STRING, client STRING, subscription LONG, `group` STRING, selector STRING, durable STRING"


class Chosen(NamedTuple):
    """A selector that is tested."""

    number: int
    group: str
    selector: str
    subscriptions: int


@lru_cache(maxsize=2)
def changes(inputs: Inputs) -> DataFrame:
    """Each change of a subscription that was told of: key, published_ns, and the columns of `TOLD`; `$sys` apart."""
    told = inputs.telemetry.where("type = 'subscription'")
    told = told.select("key", "published_ns", F.from_json("attributes", TOLD).alias("told"))
    told = told.select("key", "published_ns", "told.*")
    return told.where("`group` <> '$sys' AND selector IS NOT NULL AND key IS NOT NULL").persist()


@lru_cache(maxsize=2)
def selectors(inputs: Inputs) -> DataFrame:
    """Each distinct selector: group, selector, subscriptions and clients (how many had it), readable, and terms: the
    attribute, operator and value of each comparison in it."""
    found = changes(inputs).groupBy("group", "selector").agg(
        F.count_distinct("key").alias("subscriptions"), F.count_distinct("client").alias("clients")
    )  # fmt: skip
    return _parsed(found).persist()


@lru_cache(maxsize=2)
def choose(inputs: Inputs) -> list[Chosen]:
    """The selectors that are tested, by their numbers; at most `SELECTORS_MAX`, so they may be here."""
    readable = selectors(inputs).where("readable").select("group", "selector", "subscriptions")
    first = readable.orderBy(F.desc("subscriptions"), "group", "selector").limit(SELECTORS_MAX)
    return [Chosen(number, *row) for number, row in enumerate(first.collect())]


# Taken apart --------------------------------------------------------------------------------------------------------


def _parsed(selectors: DataFrame) -> DataFrame:
    terms = "terms ARRAY<STRUCT<attribute: STRING, operator: STRING, value: STRING>>, readable BOOLEAN"
    names = [f"`{field.name}` {field.dataType.simpleString()}" for field in selectors.schema]
    return selectors.mapInArrow(_parse, ", ".join([*names, terms]))


def _parse(batches: Batches) -> Batches:
    kind = pa.list_(pa.struct([("attribute", pa.string()), ("operator", pa.string()), ("value", pa.string())]))
    for batch in batches:
        terms = [_terms(text) for text in batch.column("selector").to_pylist()]
        columns = [*batch.columns, pa.array(terms, kind), pa.array([each is not None for each in terms])]
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "terms", "readable"])


def _terms(text: str) -> list[tuple[str, str, str | None]] | None:
    try:
        condition = Selector(text).tree
    except SelectorError:
        return None  # of a later version, perhaps
    return [(name, op, None if value is None else value[:VALUE_LENGTH_MAX]) for name, op, value in _walk(condition)]


def _walk(node: tree.Condition, no: str = "") -> Iterator[tuple[str, str, str | None]]:
    match node:
        case tree.And(terms) | tree.Or(terms):
            for term in terms:
                yield from _walk(term, no)
        case tree.Not(term):
            yield from _walk(term, "" if no else "NOT ")
        case tree.Compare(op, tree.Attribute(name), right):
            yield name, no + op, operand_text(right)
        case tree.Compare(op, left, right):
            for name in dict.fromkeys(_names(left, right)):
                yield name, f"{no}{op} (arithmetic)", None
        case tree.In(name, values):
            for value in values:
                yield name, f"{no}IN", literal_text(value)
        case tree.Among(tree.Attribute(name), values, others):
            for text in (*map(literal_text, values), *map(operand_text, others)):
                yield name, f"{no}IN", text
        case tree.Among() | tree.Unknown():
            op = f"{no}IN" if isinstance(node, tree.Among) else "IS NOT NULL" if no else "IS NULL"
            for name in sorted(tree.names_of(node)):
                yield name, f"{op} (expression)", None
        case tree.Contains(name, item):
            yield name, f"{no}CONTAINS", literal_text(item)
        case tree.Prefix(name, prefix):
            yield name, f"{no}PREFIX", literal_text(prefix)
        case tree.Like(name, _):
            yield name, f"{no}LIKE", None
        case tree.IsNull(name):
            yield name, "IS NOT NULL" if no else "IS NULL", None


def _names(*operands: tree.Operand) -> Iterator[str]:
    for operand in operands:
        match operand:
            case tree.Attribute(name):
                yield name
            case tree.Arithmetic(_, left, right):
                yield from _names(left, right)


# Tested -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def sample(inputs: Inputs) -> DataFrame:
    """group, event, attributes: of each group that somebody subscribes to at most `EVENTS_MAX` events, numbered from 0,
    chosen by the hashes of their ids. So a store read twice gives the same sample, and so do two stores of one mesh."""
    events = inputs.events.select("group", "stream", "seq", "attributes")
    events = events.join(selectors(inputs).select("group").distinct(), "group", "left_semi")
    totals = events.groupBy("group").agg(F.count("*").alias("total"))
    # First every n-th by hash, where that surely leaves enough; what is then put in order and cut is small.
    nth = F.greatest(F.lit(1), F.floor(F.col("total") / (2 * EVENTS_MAX)))
    some = events.withColumn("hash", F.xxhash64("stream", "seq")).join(F.broadcast(totals), "group")
    some = some.where(F.pmod(F.col("hash"), nth) == 0)
    place = F.row_number().over(Window.partitionBy("group").orderBy("hash", "stream", "seq")) - 1
    attributes = F.coalesce("attributes", F.lit("{}"))  # what cannot be read has none
    some = some.select("group", place.alias("event"), attributes.alias("attributes"))
    return some.where(F.col("event") < EVENTS_MAX).persist()


@lru_cache(maxsize=2)
def matches(inputs: Inputs) -> DataFrame:
    """number, events: of each chosen selector that matches anything, the sampled events of its group that it does."""
    told = [(each.number, each.group, each.selector) for each in choose(inputs)]
    spread = sample(inputs).repartition(inputs.spark.sparkContext.defaultParallelism)
    found = spread.mapInArrow(_matcher(told), "number INT, events ARRAY<INT>")
    return found.groupBy("number").agg(F.flatten(F.collect_list("events")).alias("events")).persist()


def _matcher(chosen: list[tuple[int, str, str]]) -> Callable[[Batches], Batches]:
    def match(batches: Batches) -> Batches:
        indexes: dict[str, Index[int]] = defaultdict(Index)
        for number, group, selector in chosen:
            try:
                indexes[group].add(number, selector)
            except SelectorError:
                continue
        schema = pa.schema([("number", pa.int32()), ("events", pa.list_(pa.int32()))])
        for batch in batches:
            found: dict[int, list[int]] = defaultdict(list)
            columns = (batch.column(name).to_pylist() for name in ("group", "event", "attributes"))
            for group, event, text in zip(*columns, strict=True):
                for number in indexes[group].match(_decode(text)):
                    found[number].append(event)
            arrays = [
                pa.array(values, field.type) for values, field in zip((found, found.values()), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return match


def _decode(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict)
    except msgspec.DecodeError:
        return {}
