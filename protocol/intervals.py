"""Sets of integers as ordered intervals: what a stream's `lastseen`, `gmissing` and `missing` are made of.

    {3, 4, 5, 9}  is  (3, 5), (9, 9)

Both ends belong to an interval, and no two intervals overlap or touch, so equal sets have equal intervals. What a
receiver lacks comes in runs, so a set stays short however many seqs it stands for; lookup is a bisection, and a change
touches only the intervals it meets.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class IntervalSet:
    """A mutable set of integers; `len` is the number of intervals, `count()` that of integers."""

    # Two lists of numbers, not one of pairs: bisect compares plain ints, and extending an interval allocates nothing.
    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Put in every integer from `first` to `last`."""
        assert first <= last, (first, last)
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:  # streams grow at their end
            firsts.append(first)
            lasts.append(last)
        elif first >= firsts[-1]:
            if last > lasts[-1]:
                lasts[-1] = last
        else:
            # The intervals that overlap or touch the new one become one with it.
            low, high = bisect_left(lasts, first - 1), bisect_right(firsts, last + 1)
            if low < high:
                first, last = min(first, firsts[low]), max(last, lasts[high - 1])
            firsts[low:high] = (first,)
            lasts[low:high] = (last,)

    def remove(self, first: int, last: int) -> None:
        """Take out every integer from `first` to `last` that is in."""
        assert first <= last, (first, last)
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] or last < firsts[0]:  # most arrivals fill no gap
            return
        low, high = bisect_left(lasts, first), bisect_right(firsts, last)
        if low == high:
            return
        # Of the intervals it meets, the first may keep its head and the last its tail.
        head, tail = firsts[low], lasts[high - 1]
        firsts[low:high] = [head] * (head < first) + [last + 1] * (tail > last)
        lasts[low:high] = [first - 1] * (head < first) + [tail] * (tail > last)

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The intervals, ascending, as `(first, last)`."""
        return tuple(zip(self._firsts, self._lasts, strict=True))

    def newest(self, count: int) -> tuple[tuple[int, int], ...]:
        """The last `count` intervals, ascending."""
        return tuple(zip(self._firsts[-count:], self._lasts[-count:], strict=True))

    def first(self) -> int:
        """The lowest integer."""
        if not self._firsts:
            raise ValueError("the first of an empty set")
        return self._firsts[0]

    def last(self) -> int:
        """The highest integer."""
        if not self._lasts:
            raise ValueError("the last of an empty set")
        return self._lasts[-1]

    def run(self, number: int) -> int:
        """The last integer of the interval that `number` is in."""
        at = bisect_left(self._lasts, number)
        if at == len(self._lasts) or self._firsts[at] > number:
            raise ValueError(f"{number} is not in the set")
        return self._lasts[at]

    def count(self) -> int:
        """How many integers are in."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def count_within(self, first: int, last: int) -> int:
        """How many integers of the span from `first` to `last` are in."""
        return sum(stop - start + 1 for start, stop in self.overlap(first, last))

    def overlap(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of the span from `first` to `last` that are in, ascending."""
        assert first <= last, (first, last)
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1]:
            return []
        low, high = bisect_left(lasts, first), bisect_right(firsts, last)
        parts = list(zip(firsts[low:high], lasts[low:high], strict=True))
        if parts:  # only the outermost can stick out
            parts[0] = max(first, parts[0][0]), parts[0][1]
            parts[-1] = parts[-1][0], min(last, parts[-1][1])
        return parts

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of the span from `first` to `last` that are not in, ascending."""
        parts = []
        for start, stop in self.overlap(first, last):
            if first < start:
                parts.append((first, start - 1))
            first = stop + 1
        if first <= last:
            parts.append((first, last))
        return parts

    def copy(self) -> "IntervalSet":
        other = IntervalSet()
        other._firsts, other._lasts = self._firsts.copy(), self._lasts.copy()
        return other

    def __contains__(self, number: int) -> bool:
        at = bisect_left(self._lasts, number)
        return at < len(self._lasts) and self._firsts[at] <= number

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    def __repr__(self) -> str:
        return f"IntervalSet({list(self.ranges())})"
