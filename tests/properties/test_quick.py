"""The quick way for everyday events against the way of all others: what it takes, that takes, and to the same end."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.errors import PeerError
from gossamer.messages.event import KEY_LENGTH_MAX, Content, check_content, known_names
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, encode_content, pack, pack_encoded
from gossamer.messages.quick import COMPILED, Outbox, PlainOutbox, everyday, number, pair, plain_number
from strategies import contents

pytestmark = pytest.mark.skipif(not COMPILED, reason="messages/_quick.c is not compiled: pip install -e . does it")

A = "default/a"
Y121 = "y" * 121
"""One that begins with its own length, as it is encoded."""
NAMES = ("symbol", "price", "n", "a" * 31, "b" * 32, "c" * 200, Y121)
INT_EDGES = [edge + by for bits in (5, 7, 8, 15, 16, 31, 32, 63) for edge in (2**bits, -(2**bits)) for by in (-1, 0, 1)]

numbers = st.sampled_from(INT_EDGES) | st.integers() | st.floats()
texts = st.text(max_size=40) | st.sampled_from(["x" * 31, "x" * 32, "x" * 255, "x" * 256, "x" * 1_025, "a\0b", "\x7f"])
everything = numbers | texts | st.none() | st.booleans() | st.lists(texts, max_size=2) | st.binary(max_size=3)
attributes = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), everything, max_size=20)
bodies = st.binary(max_size=4) | st.sampled_from([bytes(255), bytes(256), bytes(65_535), bytes(65_536)])
keys = st.none() | texts | st.sampled_from(["k" * KEY_LENGTH_MAX, "k" * (KEY_LENGTH_MAX + 1)])


@pytest.fixture(autouse=True, scope="module")
def _known() -> None:
    check_content(Content(attributes=dict.fromkeys(NAMES)))


def encoded_by(outbox: Outbox | PlainOutbox, key: Any, time_ns: Any, found: Any, body: Any) -> bytes | None:
    """What an outbox makes of an event, if it takes it."""
    before = outbox.posted_bytes
    if not outbox.post(known_names, key, time_ns, found, body):
        assert (len(outbox), outbox.posted_bytes) == (0, before)
        return None
    sizes, blob = outbox.take(2, 0)
    assert struct.unpack("<I", sizes) == (len(blob),) == (outbox.posted_bytes - before,)
    return blob


@given(keys, st.integers(0, 2**63 - 1), attributes, bodies)
def test_what_is_encoded_quickly_is_good_and_the_same_bytes(key: Any, time_ns: int, found: Any, body: bytes) -> None:
    encoded = encoded_by(Outbox(), key, time_ns, found, body)
    if encoded is None:
        return
    assert encoded == encode_content(check_content(Content(key, None, None, time_ns, False, found, body)))
    assert encoded == encoded_by(PlainOutbox(), key, time_ns, found, body)


posts = st.tuples(st.just("post"), st.sampled_from([0, 1, 100, 3_000]), st.integers(1, 12))
appends = st.tuples(st.just("append"), st.sampled_from([1, 1_000, 5_000]), st.integers(1, 12))
takes = st.tuples(st.just("take"), st.sampled_from([1, 3, 1_024]), st.sampled_from([0, 400, 6_000, 2**30]))


@given(st.lists(posts | appends | takes, max_size=20))
def test_an_outbox_gives_what_was_put_in_whatever_its_buffer_did_meanwhile(steps: list[tuple[str, int, int]]) -> None:
    quick, plain = Outbox(), PlainOutbox()
    number = 0
    for step, size, many in [*steps, ("take", 10**6, 2**62)]:
        for _ in range(many if step != "take" else 0):
            number += 1
            for outbox in (quick, plain):
                if step == "post":
                    assert outbox.post(known_names, None, number, {"n": number}, bytes([number % 256]) * size)
                else:
                    outbox.append(bytes([number % 256]) * size)
        if step == "take" and len(plain):
            assert quick.take(size, many) == plain.take(size, many)
        assert (len(quick), quick.posted_bytes) == (len(plain), plain.posted_bytes)
    assert not quick


def test_what_is_wrong_with_a_call_is_told() -> None:
    outbox = Outbox()
    for wrong in ("text", b"", bytearray(b"x")):
        with pytest.raises(TypeError):
            outbox.append(wrong)  # type: ignore[arg-type]
    for given_wrongly in ((), (1,), ([], None, 1, {}, b"")):
        with pytest.raises(TypeError):
            outbox.post(*given_wrongly)  # type: ignore[call-arg]
    with pytest.raises(IndexError):
        outbox.take(1, 1)
    outbox.append(b"x")
    with pytest.raises((TypeError, OverflowError)):
        outbox.take(-1, 1)
    assert outbox.take(0, 0) == (b"\1\0\0\0", b"x"), "one at least"


def test_ids_are_made_as_if_by_their_constructor() -> None:
    made = pair(EventId, A, 7)
    assert type(made) is EventId
    assert (made, made.stream, made.seq, str(made)) == (EventId(A, 7), A, 7, f"{A}:7")
    with pytest.raises(TypeError):
        pair(list, A, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("many", [0, 1, 15, 16, 17, 64, 65])
def test_as_many_attributes_as_there_may_be(many: int) -> None:
    found: Any = {f"n{number}": number for number in range(many)}
    check_content(Content(attributes=found))
    encoded = encoded_by(Outbox(), None, 1, found, b"")
    assert (encoded is None) is (many > 64)
    if encoded is not None:
        assert encoded == encode_content(Content(None, None, None, 1, False, found))
        assert everyday(pack_encoded(A, 0, [encoded]), frozenset(found)) == [found]


@pytest.mark.parametrize(
    ("key", "time_ns", "found", "body"),
    [
        (None, 1, {"unheard-of": 1}, b""),
        (None, 1, {"price": float("nan")}, b""),
        (None, 1, {"price": 2**63}, b""),
        (None, 1, {"price": ["a"]}, b""),
        (None, 1, {"symbol": "ü"}, b""),
        (None, 1, {"symbol": "a\0"}, b""),
        (None, 1, {1: 1}, b""),
        (None, -1, {}, b""),
        (None, 1, {}, bytearray(b"")),
        (None, 1, [], b""),
        (1, 1, {}, b""),
        (None, 1, {}, bytes(4 * 2**20 + 1)),
    ],
)
def test_what_is_not_everyday_goes_the_way_of_all_others(key: Any, time_ns: Any, found: Any, body: Any) -> None:
    assert encoded_by(Outbox(), key, time_ns, found, body) is None


class Numbered:
    __slots__ = ("id",)


@given(st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_events_are_numbered_alike(seqs: list[int]) -> None:
    field: Any = Numbered.id  # type: ignore[attr-defined]
    one, other = ([Numbered() for _ in seqs] for _ in range(2))
    number(field, one, A, seqs)
    plain_number(field, other, A, seqs)
    assert [each.id for each in one] == [each.id for each in other] == [(A, seq) for seq in seqs]


def test_there_are_as_many_numbers_as_events() -> None:
    field: Any = Numbered.id  # type: ignore[attr-defined]
    for wrong in ((), (field, [], A), (7, [], A, []), (field, [Numbered()], A, []), (field, (), A, ())):
        with pytest.raises(TypeError):
            number(*wrong)
    with pytest.raises(TypeError):
        number(field, [object()], A, [0])


def agree(packet: Packet, wanted: frozenset[str], trusted: bool) -> bool:
    """Whether it is taken quickly; and then the way of all others must take it, and find the same."""
    found = everyday(packet, wanted, trusted)
    if found is None:
        return False
    events = packet.vetted() if not trusted else packet.events()
    assert all(event.key is event.rank is event.relation is None and not event.deleted for event in events)
    kept = [{name: value for name, value in event.attributes.items() if name in wanted} for event in events]
    assert found == kept
    assert [list(map(type, each.values())) for each in found] == [list(map(type, each.values())) for each in kept]
    return True


wanted_names = st.frozensets(st.sampled_from(NAMES))
everyday_contents = st.builds(
    Content,
    time_ns=st.integers(0, 2**63 - 1),
    attributes=st.dictionaries(
        st.sampled_from(NAMES),
        st.sampled_from([each for each in INT_EDGES if -(2**63) <= each < 2**63])
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from(["IBM", "", "x" * 31, "x" * 300])
        | st.none()
        | st.booleans(),
    ),
    body=bodies,
)


@given(st.lists(everyday_contents, min_size=1, max_size=8), wanted_names, st.booleans())
def test_everyday_packets_are_taken_quickly(run: list[Content], wanted: frozenset[str], trusted: bool) -> None:
    assert agree(pack(A, 0, run), wanted, trusted)


@given(st.lists(contents() | everyday_contents, min_size=1, max_size=5), wanted_names, st.booleans())
def test_of_any_packet_the_same_is_found(run: list[Content], wanted: frozenset[str], trusted: bool) -> None:
    agree(pack(A, 0, run), wanted, trusted)


@given(st.lists(everyday_contents, min_size=1, max_size=3), st.data())
def test_of_bytes_that_a_peer_made_up_nothing_is_taken_that_is_wrong(run: list[Content], data: st.DataObject) -> None:
    packet = pack(A, 0, run)
    blob = bytearray(packet.blob)
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    agree(Packet(A, 0, packet.sizes, bytes(blob)), frozenset(NAMES), data.draw(st.booleans()))


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4))
def test_nor_of_any_bytes_at_all(pieces: list[bytes]) -> None:
    agree(pack_encoded(A, 0, [b"\x97\xc0\xc0\xc0" + piece for piece in pieces]), frozenset(NAMES), True)


@given(st.lists(everyday_contents, min_size=2, max_size=4), st.data())
def test_a_table_that_cuts_through_an_event_is_not_taken(run: list[Content], data: st.DataObject) -> None:
    packet = pack(A, 0, run)
    sizes = list(packet.table())
    by = data.draw(st.integers(1, sizes[0] - 1))
    sizes[0], sizes[1] = sizes[0] - by, sizes[1] + by
    cut = Packet(A, 0, struct.pack(f"<{len(sizes)}I", *sizes), packet.blob)
    assert everyday(cut, frozenset(NAMES)) is None
    with pytest.raises(PeerError):
        cut.vetted()


def test_a_name_that_nobody_has_checked_is_not_taken_from_a_client() -> None:
    packet = pack(A, 0, [Content(attributes={"never-before": 1})])
    assert everyday(packet, frozenset(("never-before",))) is None
    assert everyday(packet, frozenset(("never-before",)), trusted=True) == [{"never-before": 1}]
    packet.vetted()
    assert everyday(packet, frozenset(("never-before",))) == [{"never-before": 1}]


def test_a_long_name_is_not_taken_for_the_short_one_that_its_tag_looks_like() -> None:
    # 0xd9, a tag, differs from that of an empty text by 121, which is the byte "y".
    run = [Content(attributes={Y121: 1}), Content(attributes={Y121: 2}), Content(attributes={Y121: 3})]
    assert everyday(pack(A, 0, run), frozenset((Y121,))) == [{Y121: 1}, {Y121: 2}, {Y121: 3}]
