"""`gossamer report` on a real store: what it writes, how the page looks, and what it says when it cannot."""

import io
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="analytics is NOT tested: pip install 'gossamer[analytics]'")

import pyarrow.parquet

from gossamer.analytics import report
from gossamer.analytics.follow import Live
from gossamer.analytics.inputs import load
from gossamer.analytics.page import page
from gossamer.cli.groups import read_groups
from gossamer.cli.main import main
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill
from gossamer.logger.schema import SCHEMA_VERSION
from gossamer.logger.store import Store
from gossamer.protocol.config import Config
from processes import GOSSAMER, until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_CHROMIUM = "the page is NOT looked at: no chromium on the PATH (Debian: apt install chromium)"
EVENTS = 3_000


class Reported:
    """The command, run in this process: the Spark of the other tests is warm."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.out = folder / "out"
        log = MadeLog(EVENTS)
        fill(f"sqlite:///{folder / 'log.db'}", log)
        self.truth = log.truth()
        with sqlite3.connect(folder / "log.db") as store:  # one that could not be read
            store.execute(
                "UPDATE events SET attributes = NULL "
                """WHERE id = (SELECT MAX(id) FROM events WHERE "group" <> '$sys')"""
            )
        printed = io.StringIO()
        spark.stop = lambda: None  # the others still need it
        try:
            with redirect_stdout(printed), pytest.raises(SystemExit) as stopped:
                main(["report", "--store", f"sqlite:///{folder / 'log.db'}", "--out", str(self.out), "--json"])
        finally:
            del spark.stop
        self.printed = printed.getvalue()
        self.told = json.loads(self.printed)
        assert stopped.value.code == 0, self.told["failures"]


@pytest.fixture(scope="module")
def reported(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(spark, tmp_path_factory.mktemp("reported"))


def test_every_result_is_there_as_parquet_and_as_json(reported: Reported) -> None:
    told = reported.told
    assert (reported.printed.count("\n"), told["failures"]) == (1, [])
    assert (told["events"], told["unreadable"]) == (EVENTS, 1)
    assert list(told["results"]) == list(report.JOBS)
    for job, tables in told["results"].items():
        assert job in tables, "each job has a table of its name"
        for name, each in tables.items():
            rows = pyarrow.parquet.read_table(each["folder"])
            document = json.loads((Path(each["folder"]) / f"_{Path(each['folder']).name}.json").read_text())
            assert rows.num_rows == each["rows"] == document["rows_total"], (job, name)
            assert rows.column_names == document["columns"]
            assert len(document["rows"]) == min(each["rows"], report.ROWS_MAX)
    throughput = pyarrow.parquet.read_table(reported.out / "throughput")
    assert sum(throughput.column("events").to_pylist()) == EVENTS
    by_group: dict[str, int] = {}
    for row in throughput.to_pylist():
        by_group[row["group"]] = by_group.get(row["group"], 0) + row["events"]
    assert by_group == {group: each["events"] for group, each in reported.truth["groups"].items() if each["events"]}


def test_the_groups_that_are_proposed_are_a_file_that_brokers_load(reported: Reported) -> None:
    _, interests = read_groups(Path(reported.told["groups"]), Config())
    proposed = pyarrow.parquet.read_table(reported.out / "interests").to_pylist()
    assert [(each.name, each.selector) for each in interests] == [(row["name"], row["selector"]) for row in proposed]
    assert any("[groups." in advice["setting"] for advice in reported.told["advice"])


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_looks_like_something_and_no_plot_is_missing(dark: bool, reported: Reported, tmp_path: Path) -> None:
    from matplotlib.image import imread

    assert CHROMIUM is not None
    browser = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,4000", "--hide-scrollbars",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
    ]  # fmt: skip
    url = (reported.out / "index.html").as_uri()
    shot = tmp_path / "page.png"
    done = subprocess.run(
        [*browser, f"--screenshot={shot}", url], capture_output=True, text=True, timeout=300, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    pixels = imread(shot)[..., :3]
    assert pixels.shape[:2] == (4_000, 1_400)
    assert pixels.std() > 0.02
    assert bool(pixels.mean() < 0.5) is dark
    if not dark:
        dom = subprocess.run([*browser, "--dump-dom", url], capture_output=True, text=True, timeout=300, check=True)
        figures = dom.stdout.split("<figure ")[1:]
        jobs = [figure.partition('data-plot="')[2].partition("/")[0] for figure in figures]
        assert list(dict.fromkeys(jobs)) == list(report.JOBS)
        empty = [figure[:60] for figure in figures if "<svg" not in figure and "nothing to show" not in figure]
        assert empty == []
        assert sum("<svg" in figure for figure in figures) > len(report.JOBS)


@pytest.mark.slow
def test_a_store_with_telemetry_alone_makes_a_page_that_says_so(spark: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    log = MadeLog(1)
    fill(url, log)
    with sqlite3.connect(tmp_path / "log.db") as store:
        store.execute("DELETE FROM events WHERE \"group\" <> '$sys'")
    inputs = load(spark, [url])
    sections = list(report.sections(inputs, tmp_path / "out"))
    made = report.Report([url], report.overview(inputs), sections)
    assert (made.overview.events, made.failures) == (0, [])
    assert "Nothing was published" in page(made)
    assert pyarrow.parquet.read_table(tmp_path / "out" / "throughput").num_rows == 0


def test_an_empty_store_has_nothing_to_say(spark: Any, tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path / 'log.db'}").close()
    inputs = load(spark, [f"sqlite:///{tmp_path / 'log.db'}"])
    sections = list(report.sections(inputs, tmp_path / "out", ("subscriptions", "interests")))
    assert [section.failure for section in sections] == ["", ""]
    made = report.Report(["x"], report.overview(inputs), sections)
    assert made.advice == []
    assert report.write_groups(tmp_path / "out", made) is None


@pytest.mark.parametrize(
    ("prepare", "arguments", "told"),
    [
        (None, [], "no store here"),
        (None, ["--store", "sqlite:///none.db"], "there is no such file"),
        (None, ["--store", "mysql://x/y"], "a store is sqlite"),
        ("version", ["--store", "sqlite:///log.db"], f"knows up to {SCHEMA_VERSION}"),
        ("other", ["--store", "sqlite:///log.db"], "log.db"),
        ("java", ["--store", "sqlite:///log.db"], "apt install openjdk-17-jre-headless"),
        ("pyspark", ["--store", "sqlite:///log.db"], "pip install 'gossamer[analytics]'"),
        (None, ["--store", "sqlite:///log.db", "--follow", "--until", "1h"], "--follow takes one --store"),
    ],
)
def test_what_cannot_be_is_one_line(
    prepare: str | None, arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if prepare == "other":
        sqlite3.connect("log.db").execute("CREATE TABLE x (y)")
    else:
        Store("sqlite:///log.db").close()
    if prepare == "version":
        with sqlite3.connect("log.db") as store:
            store.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    elif prepare == "java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    elif prepare == "pyspark":
        monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SystemExit) as stopped:
        main(["report", "--out", "out", *arguments])
    captured = capsys.readouterr()
    assert (stopped.value.code, captured.out, captured.err.count("\n")) == (2, "", 1)
    assert told in captured.err


def test_a_batch_that_comes_again_is_counted_once_and_a_window_that_grew_in_full(spark: Any, tmp_path: Path) -> None:
    def windows(*rows: tuple[int, str, int]) -> Any:
        frame = spark.createDataFrame(list(rows), "at LONG, `group` STRING, events LONG")
        return frame.selectExpr(
            "named_struct('start', timestamp_seconds(at)) AS window", "`group`", "events", "10 * events AS bytes",
            "1.0D AS logged_p50_ms", "2.0D AS logged_p99_ms",
        )  # fmt: skip

    shown: list[int] = []
    live = Live("store", tmp_path, shown.append, 5)
    live.take(windows((100, "a", 5), (100, "b", 1)), 0)
    live.take(windows((100, "a", 7), (105, "a", 2)), 1)
    again = Live("store", tmp_path, shown.append, 5)  # killed, and started again
    again.take(windows((100, "a", 7), (105, "a", 2)), 1)
    again.take(windows(), 2)
    again.take(windows((100 + 2 * 3_600, "a", 1)), 3)
    assert shown == [0, 6, 10, 10, 10, 11], "what comes again is not even shown"
    assert (again.state.events, again.state.bytes, again.state.batch) == (11, 110, 3)
    assert len(again.state.windows) == 1, "an hour is shown"
    assert 'http-equiv="refresh" content="5"' in (tmp_path / "index.html").read_text()


@pytest.mark.slow
def test_a_live_page_follows_the_store_and_ends_when_it_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    fill(url, MadeLog(2_000))
    command = [*GOSSAMER, "report", "--store", url, "--out", str(tmp_path / "out"), "--follow", "--json"]
    state = tmp_path / "out" / "live.json"
    for _ in range(2):  # the second goes on where the first was
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                told = process.stdout.readline()  # from then on it can be told to end
                until(lambda: state.exists() and json.loads(state.read_text())["events"] == 2_000, "all", 300)
                process.send_signal(signal.SIGTERM)
                out, err = process.communicate(timeout=120)
            finally:
                process.kill()
        assert (process.returncode, out) == (0, ""), err
        assert json.loads(told)["page"] == str(tmp_path / "out" / "index.html")
    assert "2,000" in (tmp_path / "out" / "index.html").read_text()
