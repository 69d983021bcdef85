"""Random selectors and attributes that meet often: few names, few values, all kinds, all operators."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from gossamer.matching import tree
from gossamer.matching.selector import Selector


def examples(count: int) -> settings:
    """How often to try; never how long it may take, since the machine may be busy."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


NAMES = ["a", "b", "c", "tags", "has", "x.y", "odd name"]
# Neighbours and twins: what Python finds equal but selectors do not, and numbers where floats and integers part.
NUMBERS = [0, 1, 1.0, 2, -1, 0.5, 1.5, 5, 5.000000000000001, 2**53, 2**53 + 1, float(2**53), -(2**63), 2**63 - 1, 1e300]
STRINGS = ["", "a", "ab", "abc", "b", "a%", "_", "it's", "\n", "é"]

names = st.sampled_from(NAMES)
numbers = st.sampled_from(NUMBERS) | st.integers(-3, 8) | st.floats(-3, 8)
strings = st.sampled_from(STRINGS) | st.text("ab%_", max_size=4)
scalars = st.one_of(numbers, strings, st.booleans())
values = st.one_of(st.none(), scalars, st.lists(strings, max_size=3))
attributes = st.dictionaries(names, values, max_size=5)

operands = st.recursive(
    names.map(tree.Attribute) | scalars.map(tree.Literal),
    lambda inner: st.builds(tree.arithmetic, st.sampled_from("+-*/"), inner, inner),
    max_leaves=4,
)
# IN lists of attributes and literals, for events in which two attributes are often equal.
terms = names.map(tree.Attribute) | scalars.map(tree.Literal)
lists = st.builds(tree.listed, terms, st.lists(terms, min_size=2, max_size=3))
alike = st.dictionaries(names, st.sampled_from([1, 1.0, 0, "a", True, None]), min_size=3, max_size=7)
# Mostly what an index can use, so that it is used.
simple = st.builds(
    tree.compare, st.sampled_from(list(tree.FLIPPED)), names.map(tree.Attribute), scalars.map(tree.Literal)
)
leaves = st.one_of(
    simple,
    simple,
    st.builds(tree.compare, st.sampled_from(list(tree.FLIPPED)), operands, operands),
    st.builds(tree.between, names.map(tree.Attribute), numbers.map(tree.Literal), numbers.map(tree.Literal)),
    st.builds(tree.between, operands, operands, operands, st.booleans()),
    st.builds(tree.among, names, st.lists(scalars, min_size=1, max_size=4)),
    lists,
    st.builds(tree.listed, operands, st.lists(operands, min_size=1, max_size=4)),
    st.builds(tree.Contains, names, strings),
    st.builds(tree.Prefix, names, strings),
    st.builds(tree.prefix, operands, strings),
    st.builds(tree.like, names.map(tree.Attribute), st.text("ab%_", max_size=5)),
    st.builds(tree.like, operands, st.text("ab%_", max_size=5)),
    st.builds(tree.IsNull, names),
    st.builds(tree.is_null, operands),
    st.builds(tree.is_set, names),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(tree.negate, inner),
        st.builds(tree.is_null, inner),
        st.lists(inner, min_size=2, max_size=3).map(tree.both),
        st.lists(inner, min_size=2, max_size=3).map(tree.both),
        st.lists(inner, min_size=2, max_size=3).map(tree.either),
    ),
    max_leaves=6,
)
selectors = conditions.map(Selector.of)
# What covering is exact for.
comparisons = st.lists(simple, min_size=1, max_size=4).map(tree.both).map(Selector.of)
