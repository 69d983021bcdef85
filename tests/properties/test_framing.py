"""Whatever comes in place of a header or a mark is a `PeerError`, and nothing else."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.broker.framing import Header, decode_header, decode_mark, encode_header, encode_mark, is_mark
from gossamer.messages.codec import VERSION
from gossamer.messages.errors import PeerError

names = st.text(min_size=1, max_size=200).filter(lambda name: name.encode(errors="ignore").decode() == name)
headers = st.builds(
    Header, names, st.integers(1, 2**42 - 1), st.just("tcp://127.0.0.1:7401"), st.integers(0, 2**63 - 1)
)


@given(headers)
def test_a_header_comes_back(header):
    assert decode_header(encode_header(header)) == header


@given(st.integers(0, 2**64 - 1))
def test_a_mark_comes_back_and_is_told_from_every_message(position):
    assert decode_mark(encode_mark(position)) == position
    assert is_mark(encode_mark(position))
    assert not is_mark(bytes([VERSION]))


@given(st.one_of(st.binary(max_size=64), st.binary(max_size=64).map(lambda tail: b"G\x01" + tail)))
def test_rubbish_is_the_peers_fault(data):
    for decode in (decode_header, decode_mark):
        with suppress(PeerError):
            decode(data)


@given(headers, st.data())
def test_a_damaged_header_is_the_peers_fault_or_another_header(header, data):
    frame = bytearray(encode_header(header))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(PeerError):
        assert isinstance(decode_header(bytes(frame)), Header)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a header"),
        (b"G", "mesh version none"),
        (b"G\x02" + bytes(8), "mesh version 02"),
        (b"G\x01" + bytes(4_096), "over the limit"),
        (b"G\x01\x93", "malformed header"),
    ],
)
def test_errors_say_what_is_wrong(data, told):
    with pytest.raises(PeerError, match=told):
        decode_header(data)
