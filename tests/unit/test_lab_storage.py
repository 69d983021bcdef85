"""Storage: each seq once, whatever packets it came in; cut to what is asked for; remembers what it collected."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.lab.storage import Storage
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from gossamer.messages.wire import Member, Span
from gossamer.protocol.effects import Promise, StoredStream, Void
from gossamer.protocol.intervals import IntervalSet

STREAM = "default/a"
ALL = pack(STREAM, 0, [Content(body=b"%d" % seq) for seq in range(40)])
ranges = st.tuples(st.integers(0, 39), st.integers(0, 39)).map(lambda pair: (min(pair), max(pair)))


def seqs(packets):
    return [event.id.seq for packet in packets for event in packet.events()]


def test_records_of_all_kinds_are_found_again():
    storage = Storage()
    promise, member = Promise(STREAM, 2, "a", 99), Member("b", "member", 1)
    storage.apply([ALL.cut(0, 3), Void(Span(STREAM, ((4, 5),))), promise, member, Void(Span(STREAM, ((6, 6), (9, 9))))])
    storage.apply([Member("b", "left", 2)])
    stored = storage.stored()
    assert stored.streams == {STREAM: StoredStream(((0, 3),), ((4, 6), (9, 9)), -1, promise)}
    assert stored.members == (Member("b", "left", 2),)
    assert storage.prefix(STREAM) == 6


def test_nothing_is_found_of_an_unknown_stream():
    storage = Storage()
    assert storage.load([Span("default/b", ((0, 5),))]) == ()
    assert storage.prefix("default/b") == -1


def test_collecting_cuts_through_packets_and_is_remembered():
    storage = Storage()
    storage.apply([ALL.cut(0, 9), Void(Span(STREAM, ((10, 12),)))])
    storage.collect(STREAM, 4)
    storage.collect(STREAM, 2)
    assert storage.stored().streams[STREAM] == StoredStream(((5, 9),), ((10, 12),), 4)
    storage.apply([ALL.cut(0, 9)])  # what was collected does not come back
    assert seqs(storage.load([Span(STREAM, ((0, 39),))])) == [5, 6, 7, 8, 9]
    storage.collect(STREAM, 10)
    assert storage.stored().streams[STREAM] == StoredStream((), ((10, 12),), 10), "void numbers stay void"
    assert storage.prefix(STREAM) == 12


@given(st.lists(ranges, max_size=12), ranges, st.integers(-1, 39))
def test_a_storage_is_a_set_of_seqs(writes, asked, collected):
    storage, model = Storage(), set()
    for place, (first, last) in enumerate(writes):
        if place == len(writes) // 2 and collected >= 0:
            storage.collect(STREAM, collected)
            model = {seq for seq in model if seq > collected}
        storage.apply([ALL.cut(first, last)])
        model |= {seq for seq in range(first, last + 1) if place < len(writes) // 2 or seq > collected}
    found = storage.load([Span(STREAM, (asked,))])
    assert seqs(found) == [seq for seq in range(asked[0], asked[1] + 1) if seq in model]
    for packet in found:
        assert packet == ALL.cut(packet.first, packet.last)
    stored = storage.stored().streams.get(STREAM, StoredStream())
    assert stored.stored == IntervalSet((seq, seq) for seq in model).ranges()
