"""Spark whose executors are processes of their own: they are sent what they need, and find the same."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from gossamer.analytics.session import java_home
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill, fill_archive
from processes import Processes, until

DRIVER = Path(__file__).with_name("cluster_driver.py")
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PATIENCE_S = 1_500


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    made = MadeLog(5_000)
    commits = list(made)
    fill(f"sqlite:///{folder / 'log.db'}", commits)
    fill_archive(folder / "archive", commits)
    return f"sqlite:///{folder / 'log.db'}", str(folder / "archive"), made.truth()


def environment(folder):
    spark = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work"), "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **spark, "JAVA_HOME": java_home()}


def driven(master, log, folder):
    with open(folder / "driver.err", "w+") as errors:
        command = [sys.executable, str(DRIVER), master, *log[:2]]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=PATIENCE_S,
            check=False,
        )
        errors.seek(0)
        assert done.returncode == 0, errors.read()[-4_000:]
    told = json.loads(done.stdout.splitlines()[-1])
    truth = log[2]
    assert told["events"] == {name: each["events"] for name, each in truth["publishers"].items()}
    assert told["telemetry"] == truth["telemetry"]
    assert all("gossamer.zip" in home for _, home in told["homes"])
    assert any("every executor must see it under this path" in note for note in told["notes"])
    return told


@contextmanager
def server(folder, name, *arguments):
    with open(folder / f"{name}.log", "w+") as log:
        command = ["bash", str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]
        process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=log, stderr=log)
        try:
            yield lambda: (folder / f"{name}.log").read_text()
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_of_processes(log, tmp_path):
    told = driven("local-cluster[2,1,1024]", log, tmp_path)
    assert len({parent for parent, _ in told["homes"]}) > 1, "one executor did it all"


@pytest.mark.slow
def test_a_master_and_a_worker(log, tmp_path):
    address = Processes(tmp_path).address().rpartition(":")[2]
    master = f"spark://127.0.0.1:{address}"
    with (
        server(tmp_path, "master.Master", "--port", address, "--webui-port", "0") as master_log,
        server(tmp_path, "worker.Worker", "--cores", "2", "--memory", "1500m", "--webui-port", "0", master),
    ):
        until(lambda: "Registering worker" in master_log(), "the worker to register", PATIENCE_S)
        driven(master, log, tmp_path)
