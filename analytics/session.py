"""Spark, for who never used it: Java is found or named, and the rest has defaults."""

from pyspark.sql import SparkSession


def session(master: str | None = None, *, name: str = "gossamer") -> SparkSession:
    """A session on that master, or on all cores of this machine; times are UTC, and the source `gossamer` is known."""
    raise NotImplementedError
