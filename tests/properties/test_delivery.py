"""A dispatch that asks only whom an event may concern sends what one would that asks everybody."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gossamer.messages.packet import pack
from gossamer.protocol.delivery import Dispatch, Feed, Intake
from properties.test_obsolescence import histories

FEEDS = range(4)


def sent(feeds):
    return [[(item.event, item.lefts) for item in feed.take(10_000)] for feed in feeds]


@settings(max_examples=100)
@given(histories() | histories(reach=2), st.randoms(use_true_random=False), st.sampled_from([0.1, 0.5]))
def test_who_is_not_asked_has_nothing_to_hear(history, random, matching):
    intake, dispatch = Intake(), Dispatch()
    everybody = [Feed(10_000) for _ in FEEDS]
    for key in FEEDS:
        dispatch.add(key, Feed(10_000))
    for id, content in history.contents.items():
        gone = content.key is not None and random.random() < 0.2
        arrivals = intake.on_packet(pack(*id, [replace(content, deleted=gone)]))
        matched = [[key for key in FEEDS if random.random() < matching] for _ in arrivals]
        assert dispatch.on_batch(arrivals, matched) == {}
        for arrival, keys in zip(arrivals, matched, strict=True):
            for key in FEEDS:
                everybody[key].offer(arrival, key in keys)
        if random.random() < 0.2:
            assert sent(dispatch.feeds.values()) == sent(everybody)
    assert sent(dispatch.feeds.values()) == sent(everybody)
