"""Which of many closed intervals hold a number: found by bisection, listed by slices, nothing tested in vain.

An interval that is open at one end is a bound in a sorted list. One with two ends lies on a grid whose cells are
narrower than it is: every power of two is a grid, an interval goes to the widest that still parts its ends. Then no
cell holds both ends, and for a number x in the interval's first cell only `low <= x` is left to ask, in its last only
`x <= high`, and in a cell between nothing at all. So a cell is two sorted lists of bounds and a plain list; looking
up x is one such cell a grid, and there are as many grids as there are magnitudes of widths. It needs no balancing, and
an interval touches at most four cells.

All that has to be true of the numbering of cells is that it never decreases: so rounding does no harm.

Few intervals are not worth this: they, and the few of a cell, are a list and asked one by one.
"""

import math
from typing import Generic, TypeVar

from gossamer.matching.blocks import SortedBlocks
from gossamer.matching.values import EXACT, INFINITY, Number

T = TypeVar("T")
Entry = tuple[Number, Number, T]

FEW = 4  # so many intervals are asked about as fast as a grid is looked at
CELL_FEW = 16  # so many of a cell are asked about as fast as its lists are bisected, in a tenth of their memory
LEVEL_MIN, LEVEL_MAX = -64, 64  # grids from 2**-64 to 2**64: it bounds what a hostile mixture of widths can cost


class Cell(Generic[T]):
    """A crowded cell: what starts in it, what spans it and what ends in it."""

    __slots__ = ("starts", "spans", "ends")

    def __init__(self) -> None:
        self.starts: SortedBlocks[T] = SortedBlocks()
        self.spans: list[T] = []
        self.ends: SortedBlocks[T] = SortedBlocks()

    def __bool__(self) -> bool:
        return bool(self.starts or self.spans or self.ends)

    def add(self, entry: Entry[T], number: float, inverse: float) -> None:
        low, high, item = entry
        if low * inverse // 1 == number:
            self.starts.add(low, item)
        elif high * inverse // 1 == number:
            self.ends.add(high, item)
        else:
            self.spans.append(item)

    def remove(self, entry: Entry[T], number: float, inverse: float) -> None:
        low, high, item = entry
        if low * inverse // 1 == number:
            self.starts.remove(low, item)
        elif high * inverse // 1 == number:
            self.ends.remove(high, item)
        else:
            self.spans.remove(item)


Grid = dict[float, list[Entry[T]] | Cell[T]]


class Intervals(Generic[T]):
    __slots__ = ("parted", "above", "below", "grids", "rest")

    def __init__(self) -> None:
        self.parted = False  # until there are more than a few, all are in `rest`
        self.above: SortedBlocks[T] | None = None  # low <= x
        self.below: SortedBlocks[T] | None = None  # x <= high
        self.grids: dict[float, Grid[T]] = {}  # by the inverse of the cells' width, so that cells are multiplied out
        self.rest: list[Entry[T]] = []  # the few; later, those that are too narrow for where they are

    def __bool__(self) -> bool:
        return bool(self.above or self.below or self.grids or self.rest)

    def add(self, low: Number, high: Number, item: T) -> None:
        entry = (low, high, item)
        if self.parted:
            self._place(entry)
            return
        self.rest.append(entry)
        if len(self.rest) > FEW:
            self.parted = True
            few, self.rest = self.rest, []
            for each in few:
                self._place(each)

    def _place(self, entry: Entry[T]) -> None:
        low, high, item = entry
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
                self.rest.append(entry)
                return
            grid = self.grids.setdefault(inverse, {})
            for number in _cells(low, high, inverse):
                cell = grid.get(number)
                if cell is None:
                    grid[number] = [entry]
                elif not isinstance(cell, list):
                    cell.add(entry, number, inverse)
                else:
                    cell.append(entry)
                    if len(cell) > CELL_FEW:
                        crowded = grid[number] = Cell()
                        for each in cell:
                            crowded.add(each, number, inverse)

    def remove(self, low: Number, high: Number, item: T) -> None:
        """Remove an item that was added with these ends."""
        entry = (low, high, item)
        if not self.parted:
            self.rest.remove(entry)
        elif high == INFINITY:
            assert self.above is not None
            self.above.remove(low, item)
        elif low == -INFINITY:
            assert self.below is not None
            self.below.remove(high, item)
        else:
            inverse = grid_for(low, high)
            if inverse is None:
                self.rest.remove(entry)
                return
            grid = self.grids[inverse]
            for number in _cells(low, high, inverse):
                cell = grid[number]
                if isinstance(cell, list):
                    cell.remove(entry)
                else:
                    cell.remove(entry, number, inverse)
                if not cell:
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
            if cell is None:
                continue
            if isinstance(cell, list):
                for low, high, item in cell:
                    if low <= x <= high:
                        out.append(item)
            else:
                cell.starts.up_to(x, out)
                out += cell.spans
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


def _cells(low: Number, high: Number, inverse: float) -> list[float]:
    """The cells that an interval touches, at most four; its ends are in the first and the last."""
    first, last = low * inverse // 1, high * inverse // 1
    return [first + i for i in range(int(last - first) + 1)]
