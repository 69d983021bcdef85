"""The page of a report, made by hand: whatever a job may find is drawn, told, and harmless."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="analytics is NOT tested: pip install 'gossamer[analytics]'")

from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.page import page, picture
from gossamer.analytics.report import Overview, Report, Section, Table

AT = datetime(2026, 11, 17, 12, tzinfo=UTC)


def table(name: str, rows: list[dict[str, Any]]) -> Table:
    return Table(name, tuple(rows[0]) if rows else (), rows, len(rows), name)


TIMES = [{"start": AT + timedelta(seconds=n), "group": g, "n": n, "m": None} for n in range(9) for g in ("a", "b")]
NAMES = [{"name": f"<b>{n}</b>", "kind": "xy"[n % 2], "n": n - 3, "m": 2 * n} for n in range(40)]
PLOTS = [
    (Plot("t", "line", "start", "n", "group"), TIMES),
    (Plot("t", "line", "start", ("n", "m"), None), TIMES),
    (Plot("t", "bar", "name", "n", "kind"), NAMES),
    (Plot("t", "bar", "name", ("n", "m"), "kind"), NAMES),
    (Plot("t", "bar", "n", "m"), NAMES),
    (Plot("t", "cdf", "n", "m", log_x=True), NAMES),
    (Plot("t", "heatmap", "start", "n", "group"), TIMES),
    (Plot("t", "heatmap", "start", "n", "group", log_y=True), TIMES),
]


@pytest.mark.parametrize(("plot", "rows"), PLOTS, ids=lambda each: each.kind if isinstance(each, Plot) else None)
def test_every_kind_of_plot_is_drawn_in_the_colours_of_the_page(plot: Plot, rows: list[dict[str, Any]]) -> None:
    drawn = picture(plot, rows)
    assert drawn.startswith("<svg")
    assert "var(--ink, #222)" in drawn
    assert "#0a0b0c" not in drawn
    assert "<b>" not in drawn
    assert picture(plot, []) == ""
    assert picture(plot, [dict.fromkeys(rows[0])]) == ""


def test_the_page_has_everything_and_loads_nothing() -> None:
    advice = [Advice("later", "why <i>", "[protocol]\nhops = 3\n"), Advice("first", "why", severity="critical")]
    plots = [
        Plot("t", "line", "start", "n", "group", "Over <time>", "what to do"),
        Plot("e", "bar", "x", "y", title="none"),
    ]
    tables = {"t": table("t", [*TIMES] * 5), "e": table("e", [])}
    good = Section("good", "Good & well", "`About` it.", tables, plots, advice)
    bad = Section("bad", "Bad", "", failure="no <luck>")
    overview = Overview(1_234_567, 89_000_000, 3, 4, 5, AT, AT + timedelta(hours=3))
    made = page(Report(["sqlite:///a<b>.db"], overview, [good, bad]))
    assert made.count("<figure ") == 2
    assert made.count("<svg") == 1
    assert "nothing to show" in made
    assert made.index("<h3>first") < made.index("<h3>later"), "what matters most is first"
    assert "hops = 3" in made
    assert "90 rows, the first 50 of them" in made
    assert "1,234,567" in made
    assert "89.0 MB" in made
    assert "no &lt;luck&gt;" in made
    assert not re.search(r"<(b>\.db|i>|luck>|time>)", made), "what others wrote is no markup"
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#|data:,)""", made.partition("<body>")[2].replace("xlink:", ""))
    assert 'http-equiv="refresh"' not in made
    assert 'http-equiv="refresh" content="5"' in page(Report([], overview, []), 5)


def test_a_store_in_which_nothing_was_published_is_said_to_be_so() -> None:
    made = page(Report(["x"], Overview(), [Section("a", "A", "")]))
    assert "Nothing was published" in made
