"""Spark, for who never used it: Java is found or named, and the rest has defaults."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
MEMORY = "4g"
"""Of the JVM, which in local mode is all of Spark. Python's workers, of which there is one a core, come on top."""
PARTS_A_CORE = 4
"""Of a shuffle in local mode: Spark's 200 are for clusters, and cost a small store minutes."""
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For tables of which nothing is worth compiling, or planning anew: for them that would be most of the time."""
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Likewise: Java's second compiler and its parallel collector cost more than they gain many small queries."""
NO_JAVA = (
    f"Spark needs Java {JAVA_MIN} or newer, and {{}}. Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17), or say where it is with JAVA_HOME"
)
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def session(
    master: str | None = None, *, small: bool = False, config: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session on that master, or on all cores of this machine; times are UTC, and the source `gossamer` is known.

    `small`: for a few thousand rows; it gives the same results, and many times as many would take it longer.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("analytics needs Spark: pip install 'gossamer[analytics]'") from None
    from gossamer.analytics.packing import packed
    from gossamer.analytics.source import GossamerSource

    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or os.environ.get("SPARK_MASTER") or "local[*]"
    if master.startswith("local"):  # nobody else has to reach it, also where the host's name leads elsewhere
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="gossamer-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log4j2.properties").write_text(_LOGGING)
    builder = SparkSession.builder.master(master).appName("gossamer")
    logging = f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}"
    for option, value in {
        "spark.driver.memory": MEMORY,
        "spark.driver.extraJavaOptions": f"{logging} {SMALL_JAVA}" if small else logging,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Where each expression was written, told to the JVM in five calls: most of what it takes to put a query up.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **({"spark.sql.shuffle.partitions": str(PARTS_A_CORE * (os.cpu_count() or 1))} if is_local(master) else {}),
        **(SMALL if small else {}),
        **(config or {}),
    }.items():
        builder = builder.config(option, value)
    spark = builder.getOrCreate()
    if not is_local(master):
        spark.sparkContext.addPyFile(str(packed(folder)))
    spark.dataSource.register(GossamerSource)
    return spark


def is_local(master: str) -> bool:
    """Whether all of Spark is this process; else its executors are others, perhaps elsewhere."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def java_home() -> str:
    """Of a Java that Spark can use; `UsageError` says what to install."""
    told = os.environ.get("JAVA_HOME")
    java = Path(told, "bin", "java") if told else Path(shutil.which("java") or "")
    if not java.is_file():
        raise UsageError(NO_JAVA.format(f"JAVA_HOME is {told}, where there is none" if told else "there is none here"))
    found = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', found.stderr + found.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        raise UsageError(NO_JAVA.format(f"{java} is {version[1] if version else 'of no version that it tells'}"))
    return told or str(java.resolve().parents[1])
