"""One answer on every path: compiled code, the index, the C decoder's choice of attributes and a logger's reading
match exactly the events for which the slow evaluator says true."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.broker.audience import Audience
from gossamer.broker.counters import Counters
from gossamer.matching import Index, Selector
from gossamer.matching.stretching import stretches
from gossamer.matching.tree import names_of
from gossamer.messages.event import Content
from gossamer.messages.packet import Packet, pack
from gossamer.messages.quick import everyday
from properties.selectors import alike, attributes, examples, lists, selectors

STREAM = "default/a"
batches = st.lists(attributes | alike, min_size=1, max_size=6)
any_selectors = selectors | lists.map(Selector.of)


def packet_of(batch: list[dict]) -> Packet:
    return pack(STREAM, 0, [Content(attributes=event) for event in batch])


def slow(selector: Selector, batch: list[dict]) -> list[bool]:
    return [selector.evaluate(event) is True for event in batch]


@given(st.lists(any_selectors, min_size=1, max_size=8), batches)
@examples(150)
def test_an_audience_matches_as_the_slow_evaluator_does(some: list[Selector], batch: list[dict]) -> None:
    audience = Audience(Counters())
    for key, selector in enumerate(some):
        audience.select(key, Selector(str(selector)))  # a broker is sent the text
    expected = [
        [key for key, hit in enumerate(hits) if hit] for hits in zip(*(slow(s, batch) for s in some), strict=True)
    ]
    asked = [{name: event[name] for name in audience.names & event.keys()} for event in batch]
    assert [sorted(keys) for keys in audience.matched(asked)] == expected
    packet = packet_of(batch)
    decoded = everyday(packet, audience.names, trusted=True)
    if decoded is not None:  # None: lists and texts beyond ASCII are not decoded in C
        assert [sorted(keys) for keys in audience.matched(decoded)] == expected


@given(any_selectors, batches)
@examples(150)
def test_one_selector_matches_alike_everywhere(selector: Selector, batch: list[dict]) -> None:
    expected = slow(selector, batch)
    index: Index[int] = Index()
    index.add(0, selector)
    assert [bool(keys) for keys in index.match_batch(batch)] == expected
    assert selector.matches_each(batch) == expected
    assert [selector.matches(event) for event in batch] == expected
    found, spoilt = stretches([(1, packet_of(batch))], selector)
    read = {seq for stretch in found for first, last in stretch.ranges for seq in range(first, last + 1)}
    assert ([place in read for place in range(len(batch))], spoilt) == (expected, [])


@given(any_selectors, attributes | alike)
@examples(200)
def test_only_the_named_attributes_matter(selector: Selector, event: dict) -> None:
    named = {name: value for name, value in event.items() if name in names_of(selector.tree)}
    assert selector.evaluate(named) is selector.evaluate(event)


@given(selectors, attributes)
@examples(150)
def test_is_null_tells_unknown_from_the_answers(selector: Selector, event: dict) -> None:
    answer = selector.evaluate(event)
    assert selector.is_null().evaluate(event) is (answer is None)
    assert selector.is_null().matches(event) is (answer is None)
    assert (~selector.is_null()).matches(event) is (answer is not None)
