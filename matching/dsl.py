"""Selectors written in Python: `(attr.symbol == "IBM") & (attr.price > 100)`."""

from collections.abc import Iterable
from typing import Any

from gossamer.matching import tree
from gossamer.matching.errors import SelectorError
from gossamer.matching.parser import DEPTH_MAX, IN_LIST_MAX
from gossamer.matching.selector import Selector
from gossamer.matching.values import Scalar, is_literal


class Operand:
    """An attribute, or arithmetic on attributes; comparing it makes a selector."""

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: tree.Operand) -> None:
        self.node = node

    def _compare(self, op: str, other: object) -> Selector:
        return Selector.of(tree.compare(op, self.node, _operand(other)))

    def __eq__(self, other: object) -> Selector:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Selector:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: object) -> Selector:
        return self._compare("<", other)

    def __gt__(self, other: object) -> Selector:
        return self._compare(">", other)

    def __le__(self, other: object) -> Selector:
        return self._compare("<=", other)

    def __ge__(self, other: object) -> Selector:
        return self._compare(">=", other)

    def __add__(self, other: object) -> "Operand":
        return _arithmetic("+", self, other)

    def __radd__(self, other: object) -> "Operand":
        return _arithmetic("+", other, self)

    def __sub__(self, other: object) -> "Operand":
        return _arithmetic("-", self, other)

    def __rsub__(self, other: object) -> "Operand":
        return _arithmetic("-", other, self)

    def __mul__(self, other: object) -> "Operand":
        return _arithmetic("*", self, other)

    def __rmul__(self, other: object) -> "Operand":
        return _arithmetic("*", other, self)

    def __truediv__(self, other: object) -> "Operand":
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: object) -> "Operand":
        return _arithmetic("/", other, self)

    def __neg__(self) -> "Operand":
        return Operand(tree.signed("-", self.node))

    def __pos__(self) -> "Operand":
        return Operand(tree.signed("+", self.node))

    def between(self, low: object, high: object) -> Selector:
        return Selector.of(tree.between(self.node, _operand(low), _operand(high)))

    def in_(self, values: Iterable[object]) -> Selector:
        """Equal to one of these: literals, attributes or arithmetic."""
        listed = [_operand(value) for value in values]
        if not 0 < len(listed) <= IN_LIST_MAX:
            raise SelectorError(f"in_() takes 1 to {IN_LIST_MAX:,} values, not {len(listed):,}")
        return Selector.of(tree.listed(self.node, listed))

    def like(self, pattern: str, escape: str | None = None) -> Selector:
        if escape is not None and len(_string(escape)) != 1:
            raise SelectorError("the escape is exactly one character")
        try:
            return Selector.of(tree.like(self.node, _string(pattern), escape))
        except ValueError as problem:
            raise SelectorError(str(problem)) from None

    def prefix(self, prefix: str) -> Selector:
        return Selector.of(tree.prefix(self.node, _string(prefix)))

    def is_null(self) -> Selector:
        return Selector.of(tree.is_null(self.node))

    def is_not_null(self) -> Selector:
        return Selector.of(tree.negate(tree.is_null(self.node)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.node}>"

    def __bool__(self) -> bool:
        raise TypeError("an attribute has no value here; compare it: attr.active == True")


class Attribute(Operand):
    """`attr.name`, or `attr["a.dotted.name"]`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise SelectorError(f"an attribute's name is a text that is not empty, not {name!r}")
        super().__init__(tree.Attribute(name))
        self.name = name

    def contains(self, item: str) -> Selector:
        """The attribute is a list of strings and holds this one."""
        return Selector.of(tree.Contains(self.name, _string(item)))


class Attributes:
    """The namespace of attributes: `attr.price`, `attr["order.id"]`."""

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):  # copying, pickling and debuggers ask for these; no attribute is meant
            raise AttributeError(name)
        return Attribute(name)

    def __getitem__(self, name: str) -> Attribute:
        return Attribute(name)


attr = Attributes()


def _operand(value: object) -> tree.Operand:
    return value.node if isinstance(value, Operand) else tree.Literal(_literal(value))


def _literal(value: Any) -> Scalar:
    if is_literal(value):
        return value
    hint = "; use .is_null()" if value is None else ""
    raise SelectorError(f"{value!r} is no string, boolean, 64-bit integer or finite float{hint}")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise SelectorError(f"{value!r} is not a string")
    return value


def _arithmetic(op: str, left: object, right: object) -> Operand:
    node = tree.arithmetic(op, _operand(left), _operand(right))
    if tree.height(node) > DEPTH_MAX:
        raise SelectorError(f"arithmetic is nested deeper than {DEPTH_MAX}")
    return Operand(node)
