import struct
from typing import Any

import pytest

from gossamer.messages.errors import PeerError, UsageError
from gossamer.messages.event import BODY_BYTES_MAX, Content, Event, Head, Relation
from gossamer.messages.ids import SEQ_MAX, EventId
from gossamer.messages.packet import BLOB_BYTES_MAX, EVENTS_MAX, Hole, Packet, assemble, pack

A = "default/a"
B9 = EventId("default/b", 9)
A20 = EventId(A, 20)


def five() -> Packet:
    return pack(A, 7, [Content(key=f"k{n}") for n in range(5)])


def keys(packet: Packet) -> list[tuple[int, str | None]]:
    return [(event.id.seq, event.key) for event in packet.events() if event.id]


def test_events_come_back_with_their_ids() -> None:
    packet = pack(A, 7, [Content(key="x", attributes={"price": 1.5}, body=b"b"), Content(deleted=True)])
    assert packet.events() == [
        Event(key="x", attributes={"price": 1.5}, body=b"b", id=EventId(A, 7)),
        Event(deleted=True, id=EventId(A, 8)),
    ]
    assert (packet.first, packet.last, packet.count) == (7, 8, 2)


def test_the_table_adds_up_to_the_blob() -> None:
    packet = five()
    assert sum(packet.table()) == len(packet.blob)
    assert b"".join(piece for _, piece in packet.encoded()) == packet.blob


def test_cut() -> None:
    packet = five()
    assert keys(packet.cut(8, 9)) == [(8, "k1"), (9, "k2")]
    assert packet.cut(7, 11) is packet


def test_thin_leaves_holes_that_say_why() -> None:
    thinned = five().thin([(8, B9), (9, B9), (10, A20), (99, B9)])
    assert keys(thinned) == [(7, "k0"), (11, "k4")]
    assert thinned.holes == (Hole(8, 9, B9), Hole(10, 10, 20))
    assert (thinned.first, thinned.last) == (7, 11)


def test_a_hole_names_its_own_stream_by_seq_alone() -> None:
    thinned = five().thin([(8, A20), (9, B9)], final=True)
    assert thinned.holes == (Hole(8, 8, 20, True), Hole(9, 9, B9, True))
    assert [thinned.obsoleter(hole) for hole in thinned.holes] == [A20, B9]
    assert thinned.cut(8, 8).holes[0].final


def test_assemble_makes_a_packet_of_what_is_left() -> None:
    thinned = five().thin([(8, A20), (9, A20), (11, B9)])
    pieces: dict[int, Any] = dict(thinned.encoded()) | {8: (20, False), 9: (20, False), 11: (B9, False)}
    assert assemble(A, sorted(pieces.items())) == thinned
    assert assemble(A, [(5, (B9, True))]).events() == []


def test_heads_are_what_purging_needs() -> None:
    relation = Relation(near=b"\x05", ids=(B9,))
    packet = pack(A, 7, [Content("k", 3, relation, 99, True, {"a": 1}, b"b"), Content()]).thin([(8, A20)])
    assert packet.heads() == [(7, Head("k", 3, relation, 99))]


def test_cut_through_a_hole_keeps_its_part() -> None:
    thinned = five().thin([(8, B9), (9, B9), (10, B9)])
    assert thinned.cut(9, 11).holes == (Hole(9, 10, B9),)
    assert thinned.cut(9, 9).events() == []


def test_join_undoes_cut_also_within_a_hole() -> None:
    thinned = five().thin([(8, B9), (9, B9), (10, B9)])
    for middle in range(7, 11):
        assert thinned.cut(7, middle).join(thinned.cut(middle + 1, 11)) == thinned


def test_join_keeps_holes_of_different_reasons_apart() -> None:
    joined = five().thin([(11, B9)]).join(pack(A, 12, [Content()]).thin([(12, A20)]))
    assert joined.holes == (Hole(11, 11, B9), Hole(12, 12, 20))


@pytest.mark.parametrize(("first", "last"), [(6, 8), (10, 12), (9, 8)])
def test_to_cut_outside_is_our_own_mistake(first: int, last: int) -> None:
    with pytest.raises(AssertionError):
        five().cut(first, last)


@pytest.mark.parametrize(("stream", "first"), [("default/b", 12), (A, 13), (A, 11)])
def test_to_join_what_does_not_follow_is_our_own_mistake(stream: str, first: int) -> None:
    after = pack(stream, first, [Content()])
    with pytest.raises(AssertionError):
        five().join(after)


def test_pack_takes_a_bounded_number_of_events() -> None:
    assert pack(A, 0, [Content()] * EVENTS_MAX).count == EVENTS_MAX
    for contents in ([], [Content()] * (EVENTS_MAX + 1)):
        with pytest.raises(UsageError, match="1 to 4096 events"):
            pack(A, 0, contents)


def test_pack_takes_bounded_bytes() -> None:
    large = Content(body=bytes(BODY_BYTES_MAX))
    with pytest.raises(UsageError, match="at most 8388608 bytes"):
        pack(A, 0, [large, large])


def test_a_join_that_nobody_would_accept_is_refused() -> None:
    full = pack(A, 0, [Content()] * EVENTS_MAX)
    with pytest.raises(ValueError, match="4097 events"):
        full.join(pack(A, EVENTS_MAX, [Content()]))
    heavy = Content(body=bytes(BODY_BYTES_MAX))
    with pytest.raises(ValueError, match="the limits are"):
        pack(A, 0, [heavy]).join(pack(A, 1, [heavy]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sizes": b""}, "0 events"),
        ({"sizes": bytes(3)}, "multiple of four"),
        ({"sizes": bytes(4 * EVENTS_MAX + 4)}, "4097 events"),
        ({"blob": bytes(BLOB_BYTES_MAX + 1)}, "the limits are"),
        ({"sizes": struct.pack("<3I", 1, 0, 2)}, "add up"),
        ({"blob": b"x"}, "add up"),
        ({"first": SEQ_MAX - 1}, "seq out of range"),
        ({"holes": ()}, "disagree"),
        ({"holes": (Hole(7, 7, B9), Hole(8, 8, B9))}, "disagree"),
        ({"holes": (Hole(9, 9, B9),)}, "disagree"),
        ({"holes": (Hole(8, 8, B9), Hole(8, 8, B9))}, "ascend"),
        ({"holes": (Hole(9, 9, B9), Hole(8, 8, B9))}, "ascend"),
        ({"holes": (Hole(8, 10, B9),)}, "ascend"),
        ({"holes": (Hole(6, 8, B9),)}, "ascend"),
        ({"holes": (Hole(8, 7, B9),)}, "ascend"),
        ({"holes": (Hole(0, SEQ_MAX, B9),)}, "ascend"),
        ({"holes": (Hole(8, 8, 8),)}, "obsoletes itself"),
    ],
)
def test_a_packet_is_valid_by_construction(change: dict[str, Any], complaint: str) -> None:
    good: dict[str, Any] = {
        "stream": A,
        "first": 7,
        "sizes": struct.pack("<3I", 1, 0, 1),
        "blob": b"\x90\x90",
        "holes": (Hole(8, 8, B9),),
    }
    assert Packet(**good).last == 9
    with pytest.raises(ValueError, match=complaint):
        Packet(**good | change)


def raw(*events: bytes) -> Packet:
    return Packet(A, 7, struct.pack(f"<{len(events)}I", *map(len, events)), b"".join(events))


@pytest.mark.parametrize("event", [b"\xc1", b"\x91", b"\x91\x07", b"\x90\x90", b"\x98" + b"\xc0" * 8, b"\x91" * 5_000])
def test_an_event_that_is_not_one_is_the_peers_fault(event: bytes) -> None:
    for read in (raw(event).events, raw(event).verify):
        with pytest.raises(PeerError, match="default/a:7"):
            read()


def test_a_table_that_cuts_through_an_event_is_found() -> None:
    packet = pack(A, 7, [Content(body=b"12345"), Content()])
    first, second = packet.table()
    shifted = Packet(A, 7, struct.pack("<2I", first - 1, second + 1), packet.blob)
    assert shifted.events() == packet.events()
    with pytest.raises(PeerError, match="default/a:7"):
        shifted.verify()
    with pytest.raises(PeerError, match="cuts through"):
        shifted.vetted()
    assert packet.identify(packet.vetted()) == packet.events()
    thinned = packet.thin([(7, EventId(A, 8))])
    assert thinned.identify(thinned.vetted()) == packet.events()[1:]


@pytest.mark.parametrize("name", ["", "\0", "n" * 257])
def test_a_name_that_no_attribute_can_have_is_found(name: str) -> None:
    packet = pack(A, 7, [Content(attributes={"good": 1}), Content(attributes={"good": 1, name: 2})])
    with pytest.raises(PeerError, match="default/a:7: attribute name"):
        packet.vetted()
    assert pack(A, 7, [Content(attributes={"n" * 256: 1})]).vetted()[0].id is None


@pytest.mark.parametrize("content", [Content(key="\0"), Content(attributes={"a": "\0"}), Content(attributes={"\0": 1})])
def test_a_nul_is_found_by_verify(content: Content) -> None:
    with pytest.raises(PeerError, match="default/a:7"):
        pack(A, 7, [content]).verify()


def test_an_event_cannot_choose_its_own_id() -> None:
    # Nine bytes: an array of eight whose last is an id. It is overwritten, and the strict reader refuses it.
    forged = raw(b"\x98\xc0\xc0\xc0\x00\xc2\x80\xc4\x00\x92\xa9default/z\x05")
    assert [event.id for event in forged.events()] == [EventId(A, 7)]
    with pytest.raises(PeerError):
        forged.verify()
