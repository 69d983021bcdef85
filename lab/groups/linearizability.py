"""Whether a history of operations could have been one after the other (Wing and Gong's search).

An operation takes effect at one moment between its call and its return. So a history is linearizable if its operations
can be put in some order that a plain register (here: a dictionary) would have answered that way, and in which nothing
comes before an operation that had returned before it was called. Keys are independent, so each is searched alone; what
did not return may have taken effect at any time after its call, or never.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any


@dataclass(frozen=True, slots=True)
class Operation:
    """A write of `value`, or a read that returned it."""

    kind: str
    key: str
    value: Any
    called: float
    returned: float = inf


def linearizable(history: Iterable[Operation], initial: Any = None) -> bool:
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        if operation.kind == "write" or operation.returned < inf:  # a read that never returned told nothing
            by_key[operation.key].append(operation)
    return all(_one(operations, initial) for operations in by_key.values())


def _one(operations: list[Operation], initial: Any) -> bool:
    operations = sorted(operations, key=lambda each: each.called)
    everything = (1 << len(operations)) - 1
    seen: set[tuple[int, Any]] = set()
    stack: list[tuple[int, Any]] = [(0, initial)]
    while stack:
        done, value = stack.pop()
        left = [at for at in range(len(operations)) if not done >> at & 1]
        if all(operations[at].returned == inf for at in left):
            return True
        if (done, value) in seen or done == everything:
            continue
        seen.add((done, value))
        first_return = min(operations[at].returned for at in left)
        for at in left:
            operation = operations[at]
            if operation.called > first_return:
                break  # something returned before this one was called: that comes first
            if operation.kind == "write":
                stack.append((done | 1 << at, operation.value))
            elif operation.value == value:
                stack.append((done | 1 << at, value))
    return False
