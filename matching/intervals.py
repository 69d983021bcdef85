"""Which of many closed intervals hold a number: found by bisection, listed by slices, nothing tested in vain.

An interval that is open at one end is a bound in a sorted list. One with two ends lies on a grid whose cells are
narrower than it is: every power of two is a grid, an interval goes to the widest that still parts its ends. Then no
cell holds both ends, and for a number x in the interval's first cell only `low <= x` is left to ask, in its last only
`x <= high`, and in a cell between nothing at all. So a cell is two sorted lists of bounds and a plain list; looking
up x is one such cell a grid, and there are as many grids as there are magnitudes of widths. It needs no balancing, and
an interval touches at most four cells.

All that has to be true of the numbering of cells is that it never decreases: so rounding does no harm.
"""

import math
from typing import Generic, TypeVar

from gossamer.matching.blocks import SortedBlocks
from gossamer.matching.values import EXACT, INFINITY, Number

T = TypeVar("T")

LEVEL_MIN, LEVEL_MAX = -64, 64  # grids from 2**-64 to 2**64: it bounds what a hostile mixture of widths can cost


class Cell(Generic[T]):
    __slots__ = ("starts", "spans", "ends")

    def __init__(self) -> None:
        self.starts: SortedBlocks[T] | None = None
        self.spans: list[T] | None = None
        self.ends: SortedBlocks[T] | None = None


Grid = dict[float, Cell[T]]


class Intervals(Generic[T]):
    __slots__ = ("above", "below", "grids", "rest")

    def __init__(self) -> None:
        self.above: SortedBlocks[T] | None = None  # low <= x
        self.below: SortedBlocks[T] | None = None  # x <= high
        self.grids: dict[float, Grid[T]] = {}  # by the inverse of the cells' width, so that cells are multiplied out
        self.rest: list[tuple[Number, Number, T]] = []  # no grid parts their ends: too narrow for where they are

    def __bool__(self) -> bool:
        return bool(self.above or self.below or self.grids or self.rest)

    def add(self, low: Number, high: Number, item: T) -> None:
        if high == INFINITY:
            if self.above is None:
                self.above = SortedBlocks()
            self.above.add(low, item)
        elif low == -INFINITY:
            if self.below is None:
                self.below = SortedBlocks()
            self.below.add(high, item)
        else:
            inverse = grid_for(low, high)
            if inverse is None:
                self.rest.append((low, high, item))
                return
            grid = self.grids.setdefault(inverse, {})
            first, last = low * inverse // 1, high * inverse // 1
            cell = _cell(grid, first)
            if cell.starts is None:
                cell.starts = SortedBlocks()
            cell.starts.add(low, item)
            for number in _between(first, last):
                cell = _cell(grid, number)
                if cell.spans is None:
                    cell.spans = []
                cell.spans.append(item)
            cell = _cell(grid, last)
            if cell.ends is None:
                cell.ends = SortedBlocks()
            cell.ends.add(high, item)

    def remove(self, low: Number, high: Number, item: T) -> None:
        """Remove an item that was added with these ends."""
        if high == INFINITY:
            assert self.above is not None
            self.above.remove(low, item)
        elif low == -INFINITY:
            assert self.below is not None
            self.below.remove(high, item)
        else:
            inverse = grid_for(low, high)
            if inverse is None:
                self.rest.remove((low, high, item))
                return
            grid = self.grids[inverse]
            first, last = low * inverse // 1, high * inverse // 1
            starts, ends = grid[first].starts, grid[last].ends
            assert starts is not None
            assert ends is not None
            starts.remove(low, item)
            ends.remove(high, item)
            for number in _between(first, last):
                spans = grid[number].spans
                assert spans is not None
                spans.remove(item)
            for number in (first, *_between(first, last), last):
                cell = grid[number]
                if not (cell.starts or cell.spans or cell.ends):
                    del grid[number]
            if not grid:
                del self.grids[inverse]

    def holding(self, x: Number, out: list[T]) -> None:
        """List the items of the intervals that hold x."""
        if self.above is not None:
            self.above.up_to(x, out)
        if self.below is not None:
            self.below.from_on(x, out)
        for inverse, grid in self.grids.items():
            cell = grid.get(x * inverse // 1)
            if cell is not None:
                if cell.starts is not None:
                    cell.starts.up_to(x, out)
                if cell.spans is not None:
                    out += cell.spans
                if cell.ends is not None:
                    cell.ends.from_on(x, out)
        for low, high, item in self.rest:
            if low <= x <= high:
                out.append(item)


def grid_for(low: Number, high: Number) -> float | None:
    """The inverse cell width of the widest grid on which low and high lie in different cells."""
    level = math.frexp(float(high) - float(low))[1] - 1
    # Rounding may have put both ends into one cell; one finer grid parts them unless nothing does.
    for candidate in (level, level - 1):
        if LEVEL_MIN <= candidate <= LEVEL_MAX:
            inverse = 2.0**-candidate
            first, last = low * inverse // 1, high * inverse // 1
            if -EXACT + 4 < first < last < EXACT - 4:  # beyond, the cells between could not be counted one by one
                return inverse
    return None


def _cell(grid: Grid[T], number: float) -> Cell[T]:
    cell = grid.get(number)
    if cell is None:
        cell = grid[number] = Cell()
    return cell


def _between(first: float, last: float) -> list[float]:
    return [first + i for i in range(1, int(last - first))]
