"""Loads a store and an archive on a cluster: cluster_driver.py MASTER STORE ARCHIVE; says in JSON what it saw."""

import json
import sys

from pyspark.sql import functions as F

from gossamer.analytics.inputs import load
from gossamer.analytics.session import session


def home(_: int) -> tuple[int, str]:
    """Which process an executor's worker belongs to, and where it has this package from."""
    import os

    import gossamer.analytics.reading

    return os.getppid(), str(gossamer.analytics.reading.__file__)


master, store, archive = sys.argv[1:]
spark = session(master, config={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
inputs = load(spark, [store], [archive])
table = inputs.events.groupBy("publisher").agg(F.count("*").alias("events"))
told = {
    "events": {row["publisher"]: row["events"] for row in table.collect()},
    "telemetry": inputs.telemetry.count(),
    "homes": spark.sparkContext.parallelize(range(8), 8).map(home).collect(),
    "notes": inputs.notes,
}
spark.stop()
print(json.dumps(told))
