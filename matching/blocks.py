"""A sorted list of bounds with an item at each, in blocks so that neither adding nor listing touches all of it."""

from array import array
from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from gossamer.matching.values import Number

T = TypeVar("T")

BLOCK = 512  # a block is cut in two at twice this; inserting moves a few kilobytes, listing copies whole blocks


class SortedBlocks(Generic[T]):
    """Items by bound, bounds repeated as often as they come."""

    __slots__ = ("tops", "bounds", "items")

    def __init__(self) -> None:
        self.tops: list[Number] = []  # the last bound of each block
        self.bounds: list[array[float] | list[Number]] = []  # an array, unless an integer is no float
        self.items: list[list[T]] = []

    def __bool__(self) -> bool:
        return bool(self.tops)

    def add(self, bound: Number, item: T) -> None:
        tops = self.tops
        if not tops:
            tops.append(bound)
            self.bounds.append(array("d", (bound,)) if float(bound) == bound else [bound])
            self.items.append([item])
            return
        block = bisect_left(tops, bound)
        if block == len(tops):
            block -= 1
            tops[block] = bound
        bounds, items = self.bounds[block], self.items[block]
        place = bisect_right(bounds, bound)
        if float(bound) != bound and isinstance(bounds, array):
            bounds = self.bounds[block] = list(bounds)
        bounds.insert(place, bound)
        items.insert(place, item)
        if len(bounds) > 2 * BLOCK:
            tops.insert(block, bounds[BLOCK - 1])
            self.bounds[block : block + 1] = [bounds[:BLOCK], bounds[BLOCK:]]
            self.items[block : block + 1] = [items[:BLOCK], items[BLOCK:]]

    def remove(self, bound: Number, item: T) -> None:
        """Remove an item that is there."""
        block = bisect_left(self.tops, bound)
        while True:
            bounds, items = self.bounds[block], self.items[block]
            low = bisect_left(bounds, bound)
            try:
                place = items.index(item, low, bisect_right(bounds, bound, low))
                break
            except ValueError:
                block += 1  # equal bounds run on into the next block
        del bounds[place], items[place]
        if bounds:
            self.tops[block] = bounds[-1]
        else:
            del self.tops[block], self.bounds[block], self.items[block]

    def up_to(self, bound: Number, out: list[T]) -> None:
        """List the items whose bound is at most this."""
        block = bisect_right(self.tops, bound)
        items = self.items
        for i in range(block):
            out += items[i]
        if block < len(items):
            place = bisect_right(self.bounds[block], bound)
            if place:
                out += items[block][:place]

    def from_on(self, bound: Number, out: list[T]) -> None:
        """List the items whose bound is at least this."""
        block = bisect_left(self.tops, bound)
        items = self.items
        if block < len(items):
            place = bisect_left(self.bounds[block], bound)
            out += items[block][place:] if place else items[block]
            for i in range(block + 1, len(items)):
                out += items[i]
