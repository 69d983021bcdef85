"""The page of a report: what to do on top, then a picture for each question, and the figures behind it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from gossamer.analytics.jobs.advice import Advice
from gossamer.analytics.jobs.plot import Plot
from gossamer.analytics.report import Overview, Report, Section, Table, plain
from gossamer.lab import plots

ROWS_SHOWN = 50
POINTS_MAX = 4_000
"""Rows of a table that are drawn."""
CELL_LENGTH_MAX = 120

STYLE = Path(__file__).with_name("page.css").read_text()
SCRIPT = """
for (const button of document.querySelectorAll("pre button")) button.onclick = () => {
  navigator.clipboard?.writeText(button.parentElement.querySelector("code").textContent);
  button.textContent = "copied" }
"""


def page(report: Report, refresh_s: int | None = None) -> str:
    """One document; with `refresh_s` it loads itself anew every so often."""
    contents = "".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in report.sections)
    again = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    sources = ", ".join(report.sources)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Gossamer: what flowed</title><style>{STYLE}</style></head><body>\n"
        "<header><div><h1>What was asked, what flowed, what to change</h1>"
        f"<p>{escape(sources)} · made {made}</p></div></header>"
        f'<nav><div><a href="#advice">What to change</a>{contents}</div></nav>\n<main>\n'
        f"{_tiles(report.overview)}{_notes(report.notes)}\n{_advice(report.advice, report.overview)}\n"
        + "\n".join(_section(section) for section in report.sections)
        + "\n<footer>Each result is beside this page as Parquet and as JSON, in a folder named after its question."
        " docs/analytics.md tells what to do about each picture.</footer></main>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _tiles(overview: Overview) -> str:
    span_s = (overview.last - overview.first).total_seconds() if overview.first and overview.last else 0.0
    tiles = [
        (f"{overview.events:,}", "events"),
        (_bytes(overview.bytes), "encoded"),
        (f"{overview.streams:,}", "streams"),
        (_duration(span_s), "first to last"),
        (f"{overview.events / span_s:,.0f}/s" if span_s else "–", "on average"),
        (f"{overview.telemetry:,}", "events of telemetry"),
    ]
    if overview.unreadable:
        tiles.append((f"{overview.unreadable:,}", "unreadable events"))
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{a}</b><span>{b}</span></div>' for a, b in tiles)
        + "</div>"
    )


def _notes(notes: Sequence[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes)


def _advice(found: Sequence[tuple[Section, Advice]], overview: Overview) -> str:
    cards = "".join(_card(section, advice) for section, advice in found)
    if not overview.events:  # what is advised then is what members told of themselves
        cards = f'<div class="card">Nothing was published in this time yet.</div>{cards}'
    elif not found:
        cards = '<div class="card">Nothing was seen that asks for a change.</div>'
    return f'<h2 id="advice">What to change</h2><div class="advice">{cards}</div>'


def _card(section: Section, advice: Advice) -> str:
    lines = f"<pre><button>copy</button><code>{escape(advice.setting)}</code></pre>" if advice.setting else ""
    return (
        f'<div class="card {advice.severity}"><a class="badge" href="#{section.name}">{escape(section.title)}</a>'
        f"<h3>{escape(advice.title)}</h3><p>{escape(advice.why)}</p>{lines}</div>"
    )


def _section(section: Section) -> str:
    about = escape(section.about.replace("`", "").replace("*", ""))
    head = f'<section id="{section.name}"><h2>{escape(section.title)}</h2><p class="about">{about}</p>'
    if section.failure:
        return f'{head}<p class="failure">This could not be answered: {escape(section.failure)}</p></section>'
    figures = "".join(_figure(section, place, plot) for place, plot in enumerate(section.plots))
    tables = "".join(_table(table) for table in section.tables.values())
    return f'{head}<div class="plots">{figures}</div>{tables}</section>'


def _figure(section: Section, place: int, plot: Plot) -> str:
    table = section.tables[plot.table]
    drawn = picture(plot, table.rows)
    body = drawn or '<div class="empty">nothing to show</div>'
    return (
        f'<figure data-plot="{section.name}/{place}"><h3>{escape(plot.title)}</h3>{body}'
        f'<p class="note">{escape(plot.note)}</p></figure>'
    )


def panel_of(plot: Plot, rows: Sequence[Mapping[str, Any]]) -> plots.Panel:
    """How a job's plot is drawn."""
    y = (plot.y,) if isinstance(plot.y, str) else plot.y
    named = any(isinstance(row[plot.x], str) for row in rows)
    kind = "rows" if plot.kind == "bar" and named else "line" if plot.kind == "cdf" else plot.kind
    return plots.Panel("", plot.x, y, plot.series, kind=kind, log_x=plot.log_x, log_y=plot.log_y)


def picture(plot: Plot, rows: Sequence[Mapping[str, Any]]) -> str:
    """As SVG; empty if there is nothing to draw."""
    y = (plot.y,) if isinstance(plot.y, str) else plot.y
    some = [row for row in rows[:POINTS_MAX] if row[plot.x] is not None and any(row[each] is not None for each in y)]
    return plots.themed_svg(panel_of(plot, some), _busiest(plot, some, y)) if some else ""


def _busiest(plot: Plot, rows: Sequence[Mapping[str, Any]], y: tuple[str, ...]) -> Sequence[Mapping[str, Any]]:
    """Of many lines those that have the most."""
    if plot.series is None or plot.kind == "bar":
        return rows
    sums: dict[Any, float] = {}
    for row in rows:
        sums[row[plot.series]] = sums.get(row[plot.series], 0.0) + float(row[y[0]] or 0)
    kept = sorted(sums, key=lambda name: -sums[name])[
        : plots.CURVES_MAX if plot.kind != "heatmap" else 2 * plots.ROWS_MAX
    ]
    return [row for row in rows if row[plot.series] in kept]


def _table(table: Table) -> str:
    shown = table.rows[:ROWS_SHOWN]
    count = f"{table.total:,} {'row' if table.total == 1 else 'rows'}"
    some = f", the first {len(shown)} of them" if len(shown) < table.total else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "\n".join("<tr>" + "".join(_cell(row[name]) for name in table.columns) + "</tr>" for row in shown)
    return (
        f"<details><summary>{escape(table.name)}: {count}{some}</summary>"
        f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
        f'<p class="dim">{escape(table.folder)}/</p></details>'
    )


def _cell(value: Any) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, float):
        return (
            f'<td class="number">{value:,.4g}</td>' if abs(value) < 10_000 else f'<td class="number">{value:,.0f}</td>'
        )
    if isinstance(value, datetime):
        return f"<td>{value.strftime('%Y-%m-%d %H:%M:%S')}</td>"
    text = value if isinstance(value, str) else json.dumps(value, default=plain, ensure_ascii=False)
    return f"<td>{escape(text if len(text) <= CELL_LENGTH_MAX else text[: CELL_LENGTH_MAX - 1] + '…')}</td>"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            break
        count /= 1_000
    return f"{count:,.0f} {unit}" if count >= 100 or unit == "B" else f"{count:,.1f} {unit}"


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
