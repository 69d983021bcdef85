"""What clients and brokers say: it comes back, and whatever else comes is a `PeerError`."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages import session
from gossamer.messages.errors import PeerError
from gossamer.messages.event import Content, Event
from gossamer.messages.ids import EventId
from gossamer.messages.packet import pack
from gossamer.messages.session import Run, Single, decode_from_broker, decode_from_client, encode
from strategies import values

CLIENT = session.FromClient.__args__
BROKER = session.FromBroker.__args__
SOLID = [kind for kind in (*CLIENT, *BROKER) if kind not in (session.Run, session.Single, session.Items)]


def test_every_message_class_is_in_one_of_the_unions():
    defined = [k for k in vars(session).values() if isinstance(k, type) and issubclass(k, session._Message)]
    assert {*CLIENT, *BROKER} == {*defined} - {session._Message}
    assert len({kind.__struct_config__.tag for kind in (*CLIENT, *BROKER)}) == len(defined) - 1


@pytest.mark.parametrize("kind", SOLID, ids=lambda kind: kind.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_every_message_comes_back(kind, data):
    message = data.draw(values(kind))
    decode = decode_from_client if kind in CLIENT else decode_from_broker
    assert decode(encode(message)) == message


def test_events_of_a_run_are_those_that_were_packed_with_their_ids():
    packet = pack("default/~b-1.0", 5, [Content(attributes={"n": n}) for n in range(4)])
    pieces = dict(packet.encoded())
    run = decode_from_broker(encode(Run((1, 2), packet.stream, ((5, 6), (8, 8)), pieces[5] + pieces[6] + pieces[8])))
    assert [(event.id.seq, event.attributes["n"]) for event in run.events()] == [(5, 0), (6, 1), (8, 3)]


def test_the_event_of_a_single_is_the_one_that_was_packed_with_its_id():
    packet = pack("default/~b-1.0", 5, [Content(attributes={"n": 1}, key="k", body=b"body")])
    single = decode_from_broker(encode(Single((1, 2), packet.stream, 5, False, msgspec.Raw(packet.blob))))
    assert (single.subs, single.loose) == ((1, 2), False)
    assert single.identified() == packet.events()[0]


@pytest.mark.parametrize("blob", [b"\xc1", b"\x90\x90", b"\xa1x", pack("default/x", 0, [Content()]).blob[:-1]])
def test_a_single_that_is_none_is_the_brokers_fault(blob):
    with pytest.raises(PeerError):
        decode_from_broker(encode(Single((1,), "default/x", 0, True, msgspec.Raw(blob))))


def test_items_carry_events_of_any_stream():
    events = [Event(key="a", id=EventId("default/x", 3)), Event(body=b"b", id=EventId("default/y", 0))]
    notice = session.Notice(1, False, (("a", EventId("default/x", 3), False),))
    items = session.Items(7, events, (notice,))
    assert decode_from_broker(encode(items)) == items


@pytest.mark.parametrize("ranges", [((0, 2**62),), ((0, 4_000), (5_000, 9_000)), ((3, 1),), ((0, 0),)])
def test_a_run_that_promises_what_it_has_not_is_the_brokers_fault(ranges):
    with pytest.raises(PeerError):
        Run((1,), "default/x", ranges, b"\x90\x90").events()


@given(st.one_of(st.binary(max_size=64), st.binary(max_size=64).map(lambda tail: b"\x01" + tail)))
def test_rubbish_is_the_peers_fault(data):
    for decode in (decode_from_client, decode_from_broker):
        with suppress(PeerError):
            decode(data)


@settings(max_examples=200)
@given(st.sampled_from(SOLID).flatmap(values), st.data())
def test_a_damaged_frame_is_the_peers_fault_or_another_message(message, data):
    frame = bytearray(encode(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for decode in (decode_from_client, decode_from_broker):
        with suppress(PeerError):
            assert isinstance(decode(bytes(frame)), msgspec.Struct)
