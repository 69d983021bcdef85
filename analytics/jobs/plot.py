"""Which picture shows what a job found: said by the job in `PLOTS`, drawn by the page."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Plot:
    """Of one table that `run` returned, the columns to draw."""

    table: str
    kind: Literal["line", "bar", "heatmap", "cdf"]
    """`cdf` is a line of a share from 0 to 1; of a `heatmap` `x` and `series` are the sides and `y` is the colour."""
    x: str
    """The column on the horizontal axis: a time, a number, or for a `bar` a name."""
    y: str | tuple[str, ...]
    """What is drawn above it; of several columns one line each."""
    series: str | None = None
    """A line, or a colour of bars, for each value of this column."""
    title: str = ""
    note: str = ""
    """What to see in it, and what to do about it."""
    log_x: bool = False
    log_y: bool = False
