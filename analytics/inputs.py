"""What every job is given: the events of all stores and archives, each once, and what the members told about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Inputs:
    spark: SparkSession
    events: DataFrame
    """`schema.EVENTS`, without those of `$sys`. Bodies are null: no job looks into them."""
    telemetry: DataFrame
    """`schema.TELEMETRY`."""


def load(
    spark: SparkSession,
    stores: Sequence[str],
    archives: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> Inputs:
    """What was logged from `since` to before `until`, each event once, however many stores and archives have it."""
    raise NotImplementedError
