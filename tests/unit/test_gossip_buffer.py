"""The gossip buffer agrees with a list of packets."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.protocol.gossip_buffer import LOOKED_AT_MIN, LOOKS, PURGE_EVENTS_MAX, GossipBuffer
from machines import S, T, packet

BODY = b"x" * 100
SIZE = len(packet(0, body=BODY).blob)


def test_what_is_found_is_cut_to_what_was_asked_for():
    buffer = GossipBuffer(10**6)
    buffer.add(packet(0, 4), 1)
    buffer.add(packet(7), 1)
    assert buffer.find(S, 3, 9) == [packet(0, 4).cut(3, 4), packet(7)]
    assert buffer.find(S, 5, 6) == []
    assert buffer.find(S, 5, 7) == [packet(7)]
    assert buffer.find(T, 0, 9) == []


def test_what_is_too_old_is_dropped_and_what_is_not_stable_is_kept():
    buffer = GossipBuffer(10**6)
    for round_no in (1, 2, 3):
        buffer.add(packet(round_no), round_no)
    buffer.collect(3, keep=lambda kept: kept.first == 1)
    assert buffer.find(S, 0, 9) == [packet(1), packet(3)]
    buffer.collect(3)
    assert buffer.find(S, 0, 9) == [packet(3)], "kept back once, it is asked about again the next time"
    assert buffer.bytes == len(packet(3).blob)


def test_over_its_bytes_it_drops_the_oldest():
    buffer = GossipBuffer(2 * SIZE)
    for seq in (5, 1, 3):
        buffer.add(packet(seq, body=BODY), 1)
    assert buffer.find(S, 0, 9) == [packet(1, body=BODY), packet(3, body=BODY)]


def test_whether_anything_is_needed():
    buffer = GossipBuffer(10**6)
    buffer.add(packet(0), 1)
    assert list(buffer.needed(lambda held: held.stream == S, 1))
    assert not list(buffer.needed(lambda held: held.stream == T, 1))
    assert not list(buffer.needed(lambda held: held.stream == S, 0)), "it came after that"
    assert list(buffer.needed(lambda held: held.stream == S, 0, always=(S,))), "whenever it came"


@given(
    st.integers(1, 6),
    st.lists(
        st.tuples(st.just("add"), st.sampled_from([S, T]), st.integers(0, 11))
        | st.tuples(st.just("collect"), st.integers(0, 3), st.sets(st.integers(0, 11)))
        | st.tuples(st.just("find"), st.sampled_from([S, T]), st.tuples(st.integers(0, 25), st.integers(0, 25)))
        | st.tuples(st.just("forget"), st.sampled_from([S, T]), st.none()),
        max_size=40,
    ),
)
def test_it_agrees_with_a_list(limit, steps):
    buffer, naive = GossipBuffer(limit * SIZE), []
    added, over = set(), set()
    for round_no, (what, about, more) in enumerate(steps):
        if what == "add" and (about, more) not in added and about not in over:
            added.add((about, more))  # the receiver takes each seq once
            both = packet(2 * more, 2 * more + 1, stream=about, body=BODY[: SIZE // 2 - 50])
            buffer.add(both, round_no)
            naive.append((round_no, both))
            while sum(len(held.blob) for _, held in naive) > limit * SIZE:
                naive.pop(0)
        elif what == "collect":
            limit_round = round_no - about
            buffer.collect(limit_round, keep=lambda held, kept=more: held.first // 2 in kept)
            naive = [(age, held) for age, held in naive if age >= limit_round or held.first // 2 in more]
        elif what == "forget":
            buffer.forget(about)
            over.add(about)
            naive = [(age, held) for age, held in naive if held.stream != about]
        elif what == "find":
            first, last = sorted(more)
            expected = sorted(
                (held for _, held in naive if held.stream == about and held.first <= last and held.last >= first),
                key=lambda held: held.first,
            )
            assert buffer.find(about, first, last) == [
                held.cut(max(first, held.first), min(last, held.last)) for held in expected
            ]
        assert buffer.bytes == sum(len(held.blob) for _, held in naive)


def test_an_age_outlives_its_stream_and_drops_nothing_of_what_comes_after_it():
    buffer = GossipBuffer(2 * SIZE)
    buffer.add(packet(0, body=BODY), 1)
    buffer.forget(S)
    buffer.add(packet(5, body=BODY), 2)
    buffer.collect(2)
    assert buffer.find(S, 0, 9) == [packet(5, body=BODY)]
    buffer = GossipBuffer(2 * SIZE)
    buffer.add(packet(0, body=BODY), 3)
    buffer.forget(S)
    for seq in (9, 1, 3):
        buffer.add(packet(seq, body=BODY), 3)
    assert buffer.find(S, 0, 9) == [packet(1, body=BODY), packet(3, body=BODY)], "the oldest is 9"


def test_a_pass_looks_at_what_came_last_and_leaves_alone_what_no_key_replaces():
    buffer = GossipBuffer(2**30)
    keyed, keyless = [Content("k")] * 4_096, [Content()] * 4_096
    for at in range(8):
        buffer.add(pack(S, 4_096 * at, keyed), 1)
    assert buffer.purge(lambda _: True, lambda _: True) == PURGE_EVENTS_MAX - 1
    assert [bool(each.holes) for each in buffer.find(S, 0, 2**20)] == [False] * 4 + [True] * 4
    buffer = GossipBuffer(2**30)
    buffer.add(pack(T, 0, keyless), 1)
    assert buffer.purge(lambda _: True, lambda _: True) == 0


def test_what_is_kept_back_is_looked_at_in_turn():
    """Of many that nobody has acknowledged, some are asked about in each round, and every one in a few of them."""
    many = LOOKS * LOOKED_AT_MIN + 1
    buffer, asked = GossipBuffer(10**9), []

    def needed(held):
        asked.append(held.first)
        return True

    for seq in range(many):
        buffer.add(packet(seq), 0)
    buffer.collect(1, keep=needed)
    assert len(asked) == many
    asked.clear()
    buffer.collect(1, keep=needed)
    assert len(asked) == LOOKED_AT_MIN
    for _ in range(LOOKS):
        buffer.collect(1, keep=needed)
    assert set(asked) == set(range(many))
    for _ in range(LOOKS + 1):
        buffer.collect(1, keep=lambda _: False)
    assert buffer.bytes == 0
