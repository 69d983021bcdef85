"""Filter policies in JSON, as AWS SNS writes them, as selector trees.

Attributes are joined by AND, the values in an attribute's list by OR; a nested object reaches into a dotted name.
"""

from collections.abc import Callable, Mapping

from gossamer.matching import tree
from gossamer.matching.errors import SelectorError
from gossamer.matching.parser import DEPTH_MAX, IN_LIST_MAX
from gossamer.matching.tree import Attribute, Condition, Literal
from gossamer.matching.values import Scalar, is_literal

POLICY_TERMS_MAX = IN_LIST_MAX


def policy_tree(policy: object, path: str = "", depth: int = 0) -> Condition:
    if not isinstance(policy, Mapping) or not policy:
        raise SelectorError(f"a policy{f' for {path!r}' if path else ''} is an object with at least one attribute")
    if depth > DEPTH_MAX:
        raise SelectorError(f"the policy is nested deeper than {DEPTH_MAX}")
    terms = []
    for key, rules in policy.items():
        if key == "$or":
            terms.append(tree.either(policy_tree(part, path, depth + 1) for part in _list(rules, "$or")))
            continue
        name = f"{path}.{key}" if path else str(key)
        if isinstance(rules, Mapping):
            terms.append(policy_tree(rules, name, depth + 1))
        else:
            terms.append(_any_of(name, _list(rules, name)))
    return tree.both(terms)


def _any_of(name: str, rules: list[object]) -> Condition:
    literals = [_literal(name, rule) for rule in rules if rule is not None and not isinstance(rule, Mapping)]
    terms: list[Condition] = [tree.among(name, literals)] if literals else []
    for rule in rules:
        if rule is None:
            terms.append(tree.IsNull(name))
        elif isinstance(rule, Mapping):
            terms.append(_rule(name, rule))
    return tree.either(terms)


def _rule(name: str, rule: Mapping[str, object]) -> Condition:
    if len(rule) != 1:
        raise SelectorError(f"a rule for {name!r} has exactly one operator, found {sorted(rule)}")
    [(operator, operand)] = rule.items()
    build = _RULES.get(operator)
    if build is None:
        raise SelectorError(f"unknown operator {operator!r} for {name!r}; there are {', '.join(_RULES)}")
    return build(name, operand)


def _anything_but(name: str, operand: object) -> Condition:
    if isinstance(operand, Mapping):
        if not operand.keys() <= {"prefix", "suffix"}:
            raise SelectorError(f"anything-but for {name!r} takes values, a prefix or a suffix")
        return tree.negate(_rule(name, operand))
    values = operand if isinstance(operand, list) else [operand]
    return tree.negate(_any_of(name, _list(values, name)))


def _exists(name: str, operand: object) -> Condition:
    if not isinstance(operand, bool):
        raise SelectorError(f"exists for {name!r} is true or false")
    return tree.has(name) if operand else tree.IsNull(name)


def _numeric(name: str, operand: object) -> Condition:
    parts = _list(operand, name)
    if len(parts) % 2:
        raise SelectorError(f"numeric for {name!r} is a list of operator and number in turns")
    terms = []
    for op, number in zip(parts[::2], parts[1::2], strict=True):
        if op not in ("=", "<", "<=", ">", ">=") or number.__class__ not in (int, float):
            raise SelectorError(f"numeric for {name!r} has no comparison {op!r} {number!r}")
        assert isinstance(op, str)
        terms.append(tree.compare(op, Attribute(name), Literal(_literal(name, number))))
    return tree.both(terms)


def _prefix(name: str, operand: object) -> Condition:
    return tree.Prefix(name, _string("prefix", name, operand))


def _suffix(name: str, operand: object) -> Condition:
    return tree.ends_with(name, _string("suffix", name, operand))


_RULES: dict[str, Callable[[str, object], Condition]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
}


def _list(rules: object, name: str) -> list[object]:
    if not isinstance(rules, list) or not rules or len(rules) > POLICY_TERMS_MAX:
        raise SelectorError(f"{name!r} takes a list of 1 to {POLICY_TERMS_MAX:,} values")
    return rules


def _string(operator: str, name: str, operand: object) -> str:
    if not isinstance(operand, str):
        raise SelectorError(f"{operator} for {name!r} is a string")
    return operand


def _literal(name: str, value: object) -> Scalar:
    if is_literal(value):
        return value
    raise SelectorError(f"{value!r} for {name!r} is no string, number or boolean")
