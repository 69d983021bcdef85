"""Rows that the driver has, as a table of Spark."""

from collections.abc import Iterable
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def table(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: StructType | str) -> DataFrame:
    """By way of Arrow: a plain list would be pickled, and Spark would start a Python process to read it."""
    kind = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    fields = to_arrow_schema(kind)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields), kind)
