"""What analytics reads: one schema, whether it comes from a store of SQLite or PostgreSQL or from an archive.

The columns are those of the store (docs/store.md tells of each), and two more: `store` is where a row was read from,
and `publisher` is who published it: the name of a named publisher, else the issuer of its stream
(docs/decisions/stream-ids.md). Attributes are JSON, and stay so until the JVM is asked for one of them
(`get_json_object(attributes, '$.price')`, `from_json`, `parse_json`).
"""

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

EVENTS = StructType(
    [
        StructField("id", LongType(), False),
        StructField("group", StringType(), False),
        StructField("stream", StringType(), False),
        StructField("seq", LongType(), False),
        StructField("published_ns", LongType(), False),
        StructField("logged_ns", LongType(), False),
        StructField("key", StringType()),
        StructField("rank", DoubleType()),
        StructField("annotation", StringType()),  # JSON: scope, obsoletes, part, commit
        StructField("attributes", StringType()),  # JSON; null: this event cannot be read
        StructField("body", BinaryType()),
        StructField("size", IntegerType(), False),
        StructField("deleted", BooleanType(), False),
        StructField("store", StringType(), False),
        StructField("publisher", StringType()),
    ]
)
"""`id` is a place in the log of its store: ids of different stores have nothing to do with each other."""

TELEMETRY = StructType(
    [
        StructField("id", LongType(), False),
        StructField("type", StringType()),
        StructField("node", StringType()),
        StructField("key", StringType()),
        StructField("published_ns", LongType(), False),
        StructField("logged_ns", LongType(), False),
        StructField("deleted", BooleanType(), False),
        StructField("attributes", StringType()),  # JSON
        StructField("store", StringType(), False),
    ]
)
"""What members tell of themselves in `$sys`: docs/telemetry.md."""

TABLES = {"events": EVENTS, "telemetry": TELEMETRY}
