"""A Pratt parser for selectors: each token knows how strongly it binds, one loop does the rest.

Precedence, weakest first: OR; AND; NOT; comparisons, BETWEEN, IN, LIKE, PREFIX and IS (which do not chain); + and -;
* and /; the unary signs. Errors point at the token that cannot be, and suggest the keyword that was probably meant.
"""

from collections.abc import Callable
from difflib import get_close_matches
from sys import intern
from typing import Final

from gossamer.matching import tree
from gossamer.matching.errors import SelectorError
from gossamer.matching.tokens import CONTEXTUAL, END, NUMBER, QUOTED, RESERVED, STRING, WORD, position_of, tokenize
from gossamer.matching.tree import Arithmetic, Attribute, Condition, Literal, Node, Operand
from gossamer.matching.values import INT_MAX

# What a selector may cost whoever evaluates it. A subscriber who needs more has several subscriptions.
TEXT_MAX: Final = 65_536
DEPTH_MAX: Final = 64
IN_LIST_MAX: Final = 4_096
TERMS_MAX: Final = 512

OR, AND, NOT, COMPARISON, VALUE, SUM, PRODUCT, SIGN = range(1, 9)  # nothing binds as VALUE: it ends before an operator
BINDING = {
    "OR": OR,
    "AND": AND,
    **dict.fromkeys(("=", "<>", "<", ">", "<=", ">=", "NOT", "BETWEEN", "IN", "LIKE", "IS"), COMPARISON),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys("*/", PRODUCT),
}
LITERALS = (NUMBER, STRING)
OPERANDS = (Attribute, Literal, Arithmetic)


def parse(text: str) -> Condition:
    """The tree of a selector. The empty text selects everything, as in JMS."""
    if not isinstance(text, str):
        raise SelectorError(f"a selector is a text, not {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise SelectorError(f"the selector is longer than {TEXT_MAX:,} characters", text, TEXT_MAX)
    return Parser(text).selector()


class Parser:
    """One pass over the tokens. Methods that take a `start` report errors there: the token where their node began."""

    __slots__ = ("text", "kinds", "values", "at", "depth", "terms")

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds, self.values = tokenize(text)
        self.at = 0  # the token to look at next
        self.depth = 0
        self.terms = 0

    def selector(self) -> Condition:
        if self.kinds[0] is END:
            return tree.TRUE
        node = self.expression(0)
        if self.kinds[self.at] is END:
            return self.condition(node, 0)
        if self.kinds[self.at] == ")":
            raise self.error("this parenthesis closes nothing", self.at)
        raise self.unexpected("an operator")

    # The Pratt loop

    def expression(self, strength: int) -> Node:
        start = self.at
        node = self.leading()
        while True:
            kind = self.kinds[self.at]
            binding = BINDING.get(kind)
            if binding is None:
                if kind is not WORD or not self.at_prefix_operator():
                    return node
                binding = COMPARISON
            if binding <= strength:
                if binding == COMPARISON == strength:
                    raise self.error("comparisons do not chain; join them with AND", self.at)
                return node
            self.at += 1
            if binding <= AND:
                node = self.chain(kind, binding, node, start)
            elif binding == COMPARISON:
                node = self.predicate(kind, node, start)
            else:
                node = self.arithmetic(kind, binding, node, start)

    def leading(self) -> Node:
        """What may stand first: a name, a literal, a parenthesis, NOT, a sign, HAS."""
        at = self.at
        kind = self.kinds[at]
        self.at = at + 1
        if kind is WORD or kind is QUOTED:
            if kind is WORD and self.is_has_operator(at):
                self.at += 1
                self.count_terms(1, at)
                return tree.has(self.values[at + 1])
            return Attribute(intern(self.values[at]))  # names repeat in millions of selectors, and are kept once
        if kind is NUMBER or kind is STRING:
            return self.literal(at)
        if kind == "TRUE" or kind == "FALSE":
            return Literal(kind == "TRUE")
        if kind == "(":
            return self.nested(at, self.parenthesis)
        if kind == "NOT":
            return self.nested(at, lambda: tree.negate(self.condition(self.expression(NOT), at + 1)))
        if kind == "+" or kind == "-":
            return self.nested(at, lambda: self.sign(kind))
        if kind == "NULL":
            raise self.error("NULL is no value; did you mean IS NULL?", at)
        self.at = at
        raise self.unexpected("a value")

    def chain(self, kind: str, binding: int, first: Node, start: int) -> Condition:
        """A run of ANDs or ORs becomes one node, so a long one is neither deep nor slow to build."""
        terms = [self.condition(first, start)]
        while True:
            start = self.at
            terms.append(self.condition(self.expression(binding), start))
            if self.kinds[self.at] != kind:
                return tree.both(terms) if kind == "AND" else tree.either(terms)
            self.at += 1

    def arithmetic(self, op: str, binding: int, left: Node, start: int) -> Operand:
        node = tree.arithmetic(op, self.operand(left, start), self.operand_from(binding))
        if tree.height(node) > DEPTH_MAX:
            raise self.error(f"arithmetic is nested deeper than {DEPTH_MAX}", start)
        return node

    # Comparisons and the like

    def predicate(self, kind: str, node: Node, start: int) -> Condition:
        self.count_terms(1, start)
        if kind in tree.FLIPPED:
            return tree.compare(kind, self.operand(node, start), self.operand_from(COMPARISON))
        if kind == "IS":
            negated = self.accept("NOT")
            self.expect("NULL")
            test = tree.is_null(node)
            return tree.negate(test) if negated else test
        left = self.operand(node, start)
        negated = kind == "NOT"
        if negated:
            kind = self.kinds[self.at]
            if kind not in ("BETWEEN", "IN", "LIKE") and not self.at_prefix_operator():
                raise self.unexpected("BETWEEN, IN, LIKE or PREFIX")
            self.at += 1
        if kind == "BETWEEN":
            self.count_terms(1, start)  # it becomes two comparisons
            low = self.operand_from(COMPARISON)
            self.expect("AND")
            return tree.between(left, low, self.operand_from(COMPARISON), negated)
        if kind == "IN":
            test = self.membership(left, start)
        elif kind == "LIKE":
            test = self.like(left)
        else:
            test = tree.prefix(left, self.string())
        return tree.negate(test) if negated else test

    def membership(self, left: Operand, start: int) -> Condition:
        if self.kinds[self.at] in (WORD, QUOTED):
            if not isinstance(left, Literal) or not isinstance(left.value, str):
                raise self.error("only a string can be looked for in a list attribute", start)
            self.at += 1
            return tree.Contains(self.values[self.at - 1], left.value)
        self.expect("(")
        items: list[Operand] = []
        while True:
            at = self.at
            if len(items) == IN_LIST_MAX:
                raise self.error(f"an IN list has at most {IN_LIST_MAX:,} values", at)
            item = self.operand_from(VALUE)
            if item.__class__ is not Literal:
                self.count_terms(1, at)  # it is calculated and compared by itself
            items.append(item)
            if not self.accept(","):
                self.expect(")", "',' or ')'")
                return tree.listed(left, items)

    def like(self, left: Operand) -> Condition:
        start = self.at
        pattern = self.string()
        escape = None
        if self.accept("ESCAPE"):
            escape = self.string()
            if len(escape) != 1:
                raise self.error("the escape is exactly one character", self.at - 1)
        try:
            return tree.like(left, pattern, escape)
        except ValueError as problem:
            raise self.error(str(problem), start) from None

    # Leaves

    def parenthesis(self) -> Node:
        opening = self.at - 1
        node = self.expression(0)
        if self.kinds[self.at] is END:
            raise self.error("this parenthesis is never closed", opening)
        self.expect(")", "an operator or ')'")
        return node

    def sign(self, sign: str) -> Operand:
        if sign == "-" and self.kinds[self.at] is NUMBER:
            self.at += 1
            self.values[self.at - 1] *= -1  # before it is checked: only here 2**63 is in range
            return self.literal(self.at - 1)
        return tree.signed(sign, self.operand_from(SIGN))

    def literal(self, at: int) -> Literal:
        value = self.values[at]
        if value.__class__ is int and value > INT_MAX:
            raise self.error(f"{value} does not fit in 64 bits", at)
        return Literal(value)

    def string(self) -> str:
        if self.kinds[self.at] is not STRING:
            raise self.unexpected("a string in single quotes")
        self.at += 1
        text: str = self.values[self.at - 1]
        return text

    # Sorts of nodes

    def condition(self, node: Node, start: int) -> Condition:
        if isinstance(node, Attribute):
            self.count_terms(1, start)
            return tree.is_set(node.name)
        if isinstance(node, Literal) and isinstance(node.value, bool):
            return tree.TRUE if node.value else tree.FALSE
        if isinstance(node, OPERANDS):
            raise self.error("a condition is expected here, not a value", start)
        return node

    def operand(self, node: Node, start: int) -> Operand:
        if isinstance(node, OPERANDS):
            return node
        raise self.error("a value is expected here, not a condition", start)

    def operand_from(self, strength: int) -> Operand:
        start = self.at
        if self.kinds[start] in LITERALS and BINDING.get(self.kinds[start + 1], OR) <= AND:
            self.at += 1  # most operands are a literal alone: no need to go through the loop for it
            return self.literal(start)
        return self.operand(self.expression(strength), start)

    # HAS and PREFIX are keywords only where a name could not stand

    def is_has_operator(self, at: int) -> bool:
        if self.values[at].upper() != "HAS" or self.kinds[self.at] not in (WORD, QUOTED):
            return False
        return not self.at_prefix_operator()

    def at_prefix_operator(self) -> bool:
        """`has PREFIX 'x'` is the operator, `HAS prefix` the attribute: the string decides."""
        at = self.at
        return self.kinds[at] is WORD and self.values[at].upper() == "PREFIX" and self.kinds[at + 1] is STRING

    # Moving on, caps and errors

    def accept(self, kind: str) -> bool:
        if self.kinds[self.at] != kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: str, wanted: str | None = None) -> None:
        if not self.accept(kind):
            raise self.unexpected(wanted or kind)

    def nested(self, start: int, parse_inner: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error(f"the selector is nested deeper than {DEPTH_MAX}", start)
        node = parse_inner()
        self.depth -= 1
        return node

    def count_terms(self, count: int, start: int) -> None:
        self.terms += count
        if self.terms > TERMS_MAX:
            raise self.error(f"the selector has more than {TERMS_MAX:,} terms", start)

    def unexpected(self, wanted: str) -> SelectorError:
        at = self.at
        if self.kinds[at] is END:
            return self.error(f"expected {wanted}, but the selector ends here", at)
        spelling = str(self.values[at])
        message = f"expected {wanted}, found {spelling[:40]!r}"
        if self.kinds[at] is WORD:
            close = get_close_matches(spelling[:40].upper(), RESERVED + CONTEXTUAL, n=1, cutoff=0.6)
            message += f"; did you mean {close[0]}?" if close else ""
        return self.error(message, at)

    def error(self, message: str, at: int) -> SelectorError:
        return SelectorError(message, self.text, position_of(self.text, at))
