"""The codec: every message comes back, and whatever a peer sends, nothing but `PeerError` is raised."""

import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gossamer.messages import wire
from gossamer.messages.codec import VERSION, decode, encode
from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import Event, check_content
from gossamer.messages.frames import FRAME_BYTES_MAX
from gossamer.messages.packet import Packet, pack
from strategies import MESSAGES, fits, messages, packets, values

# Round trips ----------------------------------------------------------------------------------------------------------


def test_every_message_class_is_in_the_union() -> None:
    defined = [kind for kind in vars(wire).values() if isinstance(kind, type) and issubclass(kind, wire._Message)]
    assert {*MESSAGES} == {*defined} - {wire._Message}
    assert len({kind.__struct_config__.tag for kind in MESSAGES}) == len(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_every_message_comes_back(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(values(kind))
    frame = encode(message)
    again = decode(frame)
    assert type(again) is kind
    assert again == message
    assert encode(again) == frame
    assert fits(kind, again)


@given(packets())
def test_a_packet_is_forwarded_byte_for_byte(packet: Packet) -> None:
    again = decode(encode(wire.Data("b1", packet)))
    assert isinstance(again, wire.Data)
    assert (again.packet.sizes, again.packet.blob) == (packet.sizes, packet.blob)


# Fuzzing --------------------------------------------------------------------------------------------------------------

Mutation = Callable[[bytes, random.Random], bytes]
EDGES: list[Any] = [-1, 0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 1.5, math.nan, math.inf, -math.inf]
EDGES += [None, True, False, "", "\0", "member\n", "x" * 3_000, b"", b"\xff" * 5, [], [[]], {}, {"a": 1}]
EDGES += [msgspec.msgpack.Ext(5, b"")]
BROKEN = [b"\xc1", b"\xd9\x02\xc3\x28", *(kind + b"\xff" * 4 for kind in (b"\xc6", b"\xdb", b"\xdd", b"\xdf"))]
"""No msgpack at all, a string that is not UTF-8, and lengths that promise what never comes."""


def flip_bits(frame: bytes, rng: random.Random) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.choice([1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(frame: bytes, rng: random.Random) -> bytes:
    return frame[: rng.randrange(len(frame))]


def insert(frame: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(frame) + 1)
    return frame[:at] + rng.choice([*BROKEN, rng.randbytes(rng.randrange(1, 9))]) + frame[at:]


def overwrite(frame: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(1, len(frame) + 1)
    piece = rng.choice([*BROKEN, rng.randbytes(rng.randrange(1, 9))])
    return frame[:at] + piece + frame[at + len(piece) :]


def repeat(frame: bytes, rng: random.Random) -> bytes:
    low, high = sorted(rng.choices(range(len(frame) + 1), k=2))
    return frame[:high] + frame[low:]


def other_version(frame: bytes, rng: random.Random) -> bytes:
    return bytes([rng.choice([n for n in range(256) if n != VERSION])]) + frame[1:]


def nest(frame: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(1, len(frame) + 1)
    return frame[:at] + rng.choice([b"\x91", b"\x81\xa0", b"\xdc\x00\x01"]) * rng.choice([10, 2_000]) + frame[at:]


def noise(_: bytes, rng: random.Random) -> bytes:
    return bytes([VERSION]) + rng.randbytes(rng.randrange(64))


def noise_of_a_kind(_: bytes, rng: random.Random) -> bytes:
    return bytes([VERSION, 0x90 + rng.randrange(16), rng.randrange(len(MESSAGES) + 2)]) + rng.randbytes(20)


def change_a_value(frame: bytes, rng: random.Random) -> bytes:
    """Well-formed msgpack with one value, anywhere in it, that should not be there."""
    return frame[:1] + msgspec.msgpack.encode(_changed(msgspec.msgpack.decode(frame[1:]), rng))


def change_an_event(frame: bytes, rng: random.Random) -> bytes:
    """A valid packet around an event with one value that should not be there."""
    return _repacked(frame, rng, lambda event: msgspec.msgpack.encode(_changed(msgspec.msgpack.decode(event), rng)))


def damage_an_event(frame: bytes, rng: random.Random) -> bytes:
    return _repacked(
        frame, rng, lambda event: rng.choice([flip_bits(event, rng), event + b"\xc0", event[:-1] or b"\xc1"])
    )


def shift_the_table(frame: bytes, rng: random.Random) -> bytes:
    """All the bytes in place, and a table that cuts through an event."""
    message = decode(frame)
    if not isinstance(message, wire.Data) or sum(map(bool, message.packet.table())) < 2:
        return change_a_value(frame, rng)
    sizes = [*message.packet.table()]
    left, right = rng.sample([at for at, size in enumerate(sizes) if size], 2)
    sizes[left], sizes[right] = sizes[left] + sizes[right] - 1, 1
    return encode(replace(message, packet=replace(message.packet, sizes=struct.pack(f"<{len(sizes)}I", *sizes))))


def _repacked(frame: bytes, rng: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    message = decode(frame)
    if not isinstance(message, wire.Data) or not message.packet.blob:
        return change_a_value(frame, rng)
    packet = message.packet
    events = dict(packet.encoded())
    seq = rng.choice([*events])
    events[seq] = change(events[seq])
    sizes = [len(events.get(seq, b"")) for seq in range(packet.first, packet.last + 1)]
    table, blob = struct.pack(f"<{len(sizes)}I", *sizes), b"".join(events.values())
    return encode(replace(message, packet=replace(packet, sizes=table, blob=blob)))


def _changed(tree: Any, rng: random.Random) -> Any:
    """The tree with one change at a random place."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        name = rng.choice([*tree])
        if rng.random() < 0.3:
            return {("\0" if key == name else key): value for key, value in tree.items()}
        return tree | {name: _changed(tree[name], rng)}
    if not isinstance(tree, list) or not tree or rng.random() < 0.05:
        if isinstance(tree, int) and rng.random() < 0.5:
            return max(-(2**63), min(tree + rng.choice([-1, 1, 2**31, -(2**40)]), 2**64 - 1))
        return rng.choice(EDGES)
    at = rng.randrange(len(tree))
    match rng.randrange(12):
        case 0:
            return tree[:at] + tree[at + 1 :]
        case 1:
            return tree[: at + 1] + tree[at:]
        case 2:
            return [*tree, rng.choice(EDGES)]
        case 3:
            return tree[::-1]
    return [*tree[:at], _changed(tree[at], rng), *tree[at + 1 :]]


MUTATIONS: list[Mutation] = [
    flip_bits,
    truncate,
    insert,
    overwrite,
    repeat,
    other_version,
    nest,
    noise,
    noise_of_a_kind,
]
MUTATIONS += [change_a_value, change_an_event, damage_an_event, shift_the_table] * 2


def carried(message: wire.Message) -> Iterator[Packet]:
    match message:
        case wire.Data():
            yield message.packet
        case wire.Repair():
            yield from message.packets


def receive(frame: bytes) -> str:
    """What a receiver and a logger do with a frame; says how far it came."""
    try:
        message = decode(frame)
    except PeerError:
        return "refused"
    assert fits(type(message), message), message
    assert decode(encode(message)) == message
    outcome = "accepted"
    for packet in carried(message):
        try:
            events = packet.events()
        except PeerError:
            outcome = "events refused"
            continue
        assert all(fits(Event, event) for event in events)
        assert not events or pack(packet.stream, 0, events).count == len(events)
        try:
            packet.verify()
        except PeerError:
            outcome = "not verified"
            continue
        assert [event.id and event.id.seq for event in events] == [seq for seq, _ in packet.encoded()]
        assert all(check_content(event) for event in events)
    return outcome


def fuzz(messages_max: int, mutants_each: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()

    # A mutation is a seeded random one and not Hypothesis's own: a hundred times as many fit into a second.
    @settings(max_examples=messages_max)
    @given(messages() | st.builds(wire.Data, st.just("b1"), packets()), st.integers(0, 2**32))
    def run(message: wire.Message, seed: int) -> None:
        rng = random.Random(seed)
        frame = encode(message)
        for _ in range(mutants_each):
            mutation = rng.choice(MUTATIONS)
            outcomes[receive(mutation(frame, rng))] += 1

    run()
    return outcomes


def check_outcomes(outcomes: Counter[str], mutants_min: int) -> None:
    # A fuzzer whose mutants all die at the first byte proves nothing: every depth must have been reached.
    assert outcomes.total() >= mutants_min, outcomes
    for outcome in ("refused", "accepted", "events refused", "not verified"):
        assert outcomes[outcome], outcomes


def test_mutated_frames_raise_nothing_but_peer_errors() -> None:
    check_outcomes(fuzz(messages_max=250, mutants_each=12), mutants_min=2_000)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_frames_raise_nothing_but_peer_errors() -> None:
    check_outcomes(fuzz(messages_max=4_000, mutants_each=40), mutants_min=100_000)


# By name --------------------------------------------------------------------------------------------------------------

GOOD = encode(wire.Join(wire.Member("b1", "member", 1)))


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "empty"),
        (b"\x00" + GOOD[1:], "version 0"),
        (b"\x02" + GOOD[1:], "version 2"),
        (GOOD[:1], "truncated"),
        (GOOD[:-1], "truncated"),
        (GOOD + b"\x00", "trailing"),
        (GOOD + bytes(FRAME_BYTES_MAX), "over the limit"),
        (GOOD.replace(b"member", b"rember"), "matching regex"),
        (GOOD.replace(b"\xa6member", b"\xa7member\n"), "matching regex"),
        (GOOD.replace(b"member", b"memb\xff\xff"), "utf-8"),
        (b"\x01\x92\x63\xc0", "Invalid value 99"),
        (b"\x01" + b"\x91" * 100_000, "malformed"),
        (b"\x01\x92\x04" + b"\x91" * 100_000, "malformed"),
        (b"\x01" + msgspec.msgpack.encode([4, [["a/b", [[5, 4]]]]]), "ascend"),
        (b"\x01" + msgspec.msgpack.encode([4, [["a/b", [[1, 2], [3, 4]]]]]), "neither touch"),
        (b"\x01" + msgspec.msgpack.encode([4, [["a/b", [[-1, 2]]]]]), ">= 0"),
        (b"\x01" + msgspec.msgpack.encode([4, [["a/b", [[0, 2**63]]]]]), "<="),
        (b"\x01" + msgspec.msgpack.encode([20, 1, [], [], [["a/~b", [[5, 4]]]]]), "ascend"),
        (b"\x01" + msgspec.msgpack.encode([9, 1]), "at most length 0"),
    ],
)
def test_what_is_wrong_is_said(frame: bytes, complaint: str) -> None:
    with pytest.raises(PeerError, match=complaint):
        decode(frame)


def test_many_holes_that_cover_the_whole_packet_are_refused_at_the_second() -> None:
    # 41 kB that used to become a list of 16 million numbers.
    packet = ["a/b", 0, bytes(4 * 4_096), b"", [[0, 4_095, 9_999]] * 4_096]
    with pytest.raises(PeerError, match="holes must ascend"):
        decode(b"\x01" + msgspec.msgpack.encode([1, "b1", packet]))


def test_too_large_a_message_is_our_callers_fault() -> None:
    with pytest.raises(UsageError, match=r"a Retire of \d+ bytes is over the limit"):
        encode(wire.Retire(("s" * 400,) * 42_000))
