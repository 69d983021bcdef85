"""Pictures of what experiments found. matplotlib is loaded when the first one is drawn, and not before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = bool | int | float | str | None
Row = Mapping[str, Value]

WIDTH_IN, HEIGHT_IN = 5.0, 3.6
COLUMNS_MAX = 3
TICKS_MAX = 24


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
    kind: Literal["line", "bar"] = "line"
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


def _write(to: Path | BytesIO, kind: str | None, title: str, panels: Sequence[Panel], rows: Sequence[Row]) -> None:
    try:
        from matplotlib import rc_context
    except ImportError:
        raise UsageError("plots need matplotlib: pip install 'gossamer[lab]'") from None
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "gossamer"}):  # text as text, and the same every time
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


def _draw(axes: Any, panel: Panel, rows: Sequence[Row]) -> None:
    shown = [row for row in rows if all(row[name] == value for name, value in panel.where.items())]
    curves = list(dict.fromkeys(row[panel.by] for row in shown)) if panel.by else [None]
    for place, (curve, y) in enumerate((curve, y) for curve in curves for y in panel.y):
        points = [row for row in shown if panel.by is None or row[panel.by] == curve]
        points = [row for row in points if row[panel.x] is not None and row[y] is not None]
        label = " ".join(str(part) for part in (curve, y if len(panel.y) > 1 else None) if part is not None)
        xs, ys = [row[panel.x] for row in points], [row[y] for row in points]
        if panel.kind == "bar":
            width = 0.8 / (len(curves) * len(panel.y))
            axes.bar([at + place * width for at in range(len(xs))], ys, width, label=label)
            if len(xs) <= TICKS_MAX:
                axes.set_xticks([at + 0.4 - width / 2 for at in range(len(xs))], [str(x) for x in xs], fontsize=6)
        else:
            errors = [row.get(f"{y}_ci") or 0.0 for row in points]
            axes.errorbar(xs, ys, yerr=errors if any(errors) else None, label=label, marker="o", markersize=3)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label or panel.x)
    axes.set_ylabel(panel.y_label or ", ".join(panel.y))
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    elif panel.kind == "line":
        axes.set_ylim(bottom=0)
    if len(curves) * len(panel.y) > 1:
        axes.legend(fontsize=7)
