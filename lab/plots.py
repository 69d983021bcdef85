"""Pictures of what was found, for the pages of the lab and of analytics. matplotlib is loaded when one is drawn."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = bool | int | float | str | None
Row = Mapping[str, Value]
Points = Mapping[str, Any]
"""A row that may have times in it, too."""

WIDTH_IN, HEIGHT_IN = 5.0, 3.6
COLUMNS_MAX = 3
TICKS_MAX = 24
ROWS_MAX = 12
"""Names in a diagram with a row for each; the rest are not drawn."""
NAME_LENGTH_MAX = 28
REST = "the rest"
CURVES_MAX = 8
DOTS_MAX = 60
"""A curve of more points has no dots."""

# Colours that a page's own, for light and for dark, take the place of.
INK, FAINT = "#0a0b0c", "#0d0e0f"
PALETTE = ("#3f88d8", "#e0812f", "#3fa66b", "#cc5a78", "#8a72d0", "#a3893f", "#2fa3b3", "#8b8f98")
THEME = {
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": INK, "ytick.color": INK,
    "grid.color": FAINT, "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False,
    "axes.spines.right": False, "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none",
    "legend.frameon": False, "lines.linewidth": 1.8, "xtick.major.size": 0, "ytick.major.size": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram: some columns of the rows against another, a curve for each column and each value of `by`."""

    title: str
    x: str
    y: tuple[str, ...]
    by: str | None = None
    where: Mapping[str, Value] = field(default_factory=dict)
    """Only the rows that have these values."""
    x_label: str = ""
    y_label: str = ""
    kind: Literal["line", "bar", "rows", "heatmap"] = "line"
    """`rows` are bars from left to right, one for each name, parts on one another; of a `heatmap` `x` and `by` are the
    sides, and `y` is the colour."""
    log_x: bool = False
    log_y: bool = False


def save(path: Path, title: str, panels: Sequence[Panel], rows: Sequence[Row]) -> None:
    """Write a picture; the ending of the name says which kind: .svg, .png, .pdf."""
    try:
        _write(path, None, title, panels, rows)
    except ValueError as error:  # matplotlib's word for an ending that it does not know
        raise UsageError(f"{path}: {str(error).splitlines()[0]}") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def svg(panels: Sequence[Panel], rows: Sequence[Row]) -> str:
    """A picture to be put into a page."""
    written = BytesIO()
    _write(written, "svg", "", panels, rows)
    text = written.getvalue().decode()
    return text[text.index("<svg") :]


def themed_svg(panel: Panel, rows: Sequence[Points], width_in: float = 6.4, height_in: float = 3.1) -> str:
    """A picture for a page that has the colours `--ink` and `--faint`, whatever they are."""
    from cycler import cycler

    written = BytesIO()
    with _drawing({**THEME, "axes.prop_cycle": cycler(color=PALETTE)}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        _draw(figure.add_subplot(), panel, rows)
        figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue().decode()
    text = text.replace(INK, "var(--ink, #222)").replace(FAINT, "var(--faint, #ccc)")
    return text[text.index("<svg") :]


@contextmanager
def _drawing(settings: dict[Any, Any]) -> Iterator[None]:
    try:
        from matplotlib import rc_context
    except ImportError:
        raise UsageError("plots need matplotlib: pip install 'gossamer[lab]'") from None
    # Text as text, and the same every time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "gossamer", **settings}):
        yield


def _write(to: Path | BytesIO, kind: str | None, title: str, panels: Sequence[Panel], rows: Sequence[Row]) -> None:
    with _drawing({}):
        drawn = _figure(title, panels, rows)
        drawn.savefig(to, format=kind, dpi=150, metadata={"Date": None} if _is_svg(to, kind) else None)


def _is_svg(to: Path | BytesIO, kind: str | None) -> bool:
    return kind == "svg" or (isinstance(to, Path) and to.suffix == ".svg")


def _figure(title: str, panels: Sequence[Panel], rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure

    columns = min(len(panels), COLUMNS_MAX)
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(WIDTH_IN * columns, HEIGHT_IN * lines), layout="constrained")
    figure.suptitle(title)
    for place, panel in enumerate(panels, 1):
        _draw(figure.add_subplot(lines, columns, place), panel, rows)
    return figure


def _draw(axes: Any, panel: Panel, rows: Sequence[Points]) -> None:
    shown = [row for row in rows if all(row[name] == value for name, value in panel.where.items())]
    if panel.kind in ("rows", "heatmap"):
        (_draw_rows if panel.kind == "rows" else _draw_heatmap)(axes, panel, shown)
        axes.set_title(panel.title, fontsize=10)
        return
    curves = list(dict.fromkeys(row[panel.by] for row in shown)) if panel.by else [None]
    names = list(dict.fromkeys(row[panel.x] for row in shown))
    width = 0.8 / max(1, len(curves) * len(panel.y))
    for place, (curve, y) in enumerate((curve, y) for curve in curves for y in panel.y):
        points = [row for row in shown if panel.by is None or row[panel.by] == curve]
        points = [row for row in points if row[panel.x] is not None and row[y] is not None]
        label = " ".join(str(part) for part in (curve, y if len(panel.y) > 1 else None) if part is not None)
        xs, ys = [row[panel.x] for row in points], [row[y] for row in points]
        if panel.kind == "bar":
            axes.bar([names.index(x) + place * width for x in xs], ys, width, label=label)
        else:
            errors = [row.get(f"{y}_ci") or 0.0 for row in points]
            dots = "o" if len(xs) <= DOTS_MAX else None
            axes.errorbar(xs, ys, yerr=errors if any(errors) else None, label=label, marker=dots, markersize=3)
    if panel.kind == "bar" and len(names) <= TICKS_MAX:
        axes.set_xticks([at + 0.4 - width / 2 for at in range(len(names))], [_short(x) for x in names], fontsize=6)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label or panel.x)
    axes.set_ylabel(panel.y_label or ", ".join(panel.y))
    if panel.kind == "line" and any(isinstance(row[panel.x], datetime) for row in shown):
        _tell_times(axes)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    elif panel.kind == "line":
        axes.set_ylim(bottom=0)
    if len(curves) * len(panel.y) > 1:
        axes.legend(fontsize=7)


def _draw_rows(axes: Any, panel: Panel, shown: Sequence[Points]) -> None:
    """In the order of the rows; with a series in colours, the largest first. The first of them, if they are many."""
    several = len(panel.y) > 1  # columns stand side by side: they are not parts of a whole
    sums: dict[str, dict[str, float]] = {}
    for row in shown:
        for y in panel.y:
            part = y if panel.by is None else f"{row[panel.by]} {y}" if several else str(row[panel.by])
            of = sums.setdefault(str(row[panel.x]), {})
            of[part] = of.get(part, 0.0) + float(row[y] or 0)
    parts: dict[str, float] = {}
    for of in sums.values():
        for part, value in of.items():
            parts[part] = parts.get(part, 0.0) + value
    series = list(parts) if several else sorted(parts, key=lambda part: -parts[part])
    names = sorted(sums, key=lambda name: -sum(sums[name].values())) if panel.by and not several else list(sums)
    names = names[:ROWS_MAX]
    for row_place, series_name in enumerate(series[:CURVES_MAX]):
        if several:
            height = 0.8 / min(len(series), CURVES_MAX)
            at = [place - 0.4 + (row_place + 0.5) * height for place in range(len(names))]
            axes.barh(at, [sums[name].get(series_name, 0.0) for name in names], height, label=_short(series_name))
        else:
            before = [sum(sums[name].get(each, 0.0) for each in series[:row_place]) for name in names]
            values = [sums[name].get(series_name, 0.0) for name in names]
            axes.barh(range(len(names)), values, 0.72, left=before, label=_short(series_name))
    if len(series) > CURVES_MAX and not several:
        before = [sum(sums[name].get(each, 0.0) for each in series[:CURVES_MAX]) for name in names]
        values = [sum(sums[name].values()) - drawn for name, drawn in zip(names, before, strict=True)]
        axes.barh(range(len(names)), values, 0.72, left=before, label=REST, color=FAINT)
    axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=9)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(panel.y_label or ", ".join(panel.y))
    if panel.log_y:
        axes.set_xscale("log")
    if len(series) > 1:
        axes.legend(fontsize=7)


def _draw_heatmap(axes: Any, panel: Panel, shown: Sequence[Points]) -> None:
    from matplotlib.colors import LogNorm

    assert panel.by is not None
    xs = sorted({row[panel.x] for row in shown if row[panel.x] is not None})
    sides = list(dict.fromkeys(str(row[panel.by]) for row in shown))[: 2 * ROWS_MAX]
    found = {(str(row[panel.by]), row[panel.x]): row[panel.y[0]] for row in shown}
    # What there is nothing of stays empty, whatever is behind the picture.
    values = [[_number(found.get((side, x))) for x in xs] for side in sides]
    some = [value for line in values for value in line if value > 0]
    norm = LogNorm(min(some), max(max(some), min(some) * 1.01)) if panel.log_y and some else None
    drawn = axes.imshow(values, aspect="auto", cmap="viridis", norm=norm, interpolation="nearest")
    step = max(1, len(xs) // 6)
    axes.set_xticks(range(0, len(xs), step), [_moment(x) for x in xs[::step]], fontsize=7)
    axes.set_yticks(range(len(sides)), [_short(side) for side in sides], fontsize=7)
    axes.grid(visible=False)
    axes.set_xlabel(panel.x_label or panel.x)
    axes.figure.colorbar(drawn, ax=axes, label=panel.y_label or panel.y[0]).outline.set_visible(False)


def _tell_times(axes: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("")


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _moment(value: Any) -> str:
    return value.strftime("%H:%M:%S") if isinstance(value, datetime) else _short(value)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= NAME_LENGTH_MAX else f"{text[: NAME_LENGTH_MAX - 1]}…"
