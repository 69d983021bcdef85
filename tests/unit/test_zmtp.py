"""ZeroMQ's protocol without sockets: two ends, and whatever may come in place of one of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.errors import PeerError
from gossamer.messages.zmtp import GREETING, MORE, PARTS_MAX, Zmtp, header

BYTES_MAX = 100_000


def framed(body: bytes, flags: int = 0) -> bytes:
    head = bytearray(header(len(body)))
    head[0] |= flags
    return bytes(head) + body


def command(name: bytes, data: bytes = b"") -> bytes:
    body = bytes((len(name),)) + name + data
    return bytes((4, len(body))) + body


def met(kind="ROUTER") -> Zmtp:
    """One end, whose other end has said what it is."""
    end, other = Zmtp(kind, BYTES_MAX), Zmtp("DEALER" if kind == "ROUTER" else "ROUTER", BYTES_MAX)
    assert end.receive(other.opening) == []
    assert end.ready
    return end


def test_both_ends_are_ready_when_they_have_heard_each_other():
    router, dealer = Zmtp("ROUTER", BYTES_MAX), Zmtp("DEALER", BYTES_MAX)
    assert not router.ready
    assert router.receive(dealer.opening) == dealer.receive(router.opening) == []
    assert router.ready
    assert dealer.ready


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_message_comes_as_it_was_sent(size):
    assert met().receive(framed(b"x" * size)) == [[b"x" * size]]


def test_a_message_may_be_of_several_parts():
    end = met()
    assert end.receive(framed(b"a", MORE)) == []
    assert end.receive(framed(b"b" * 300, MORE) + framed(b"c") + framed(b"d")) == [[b"a", b"b" * 300, b"c"], [b"d"]]


@settings(max_examples=200)
@given(st.data())
def test_it_does_not_matter_in_which_pieces_it_comes(data):
    messages = data.draw(st.lists(st.lists(st.binary(max_size=600), min_size=1, max_size=3), max_size=6))
    stream = Zmtp("DEALER", BYTES_MAX).opening
    for parts in messages:
        stream += b"".join(framed(part, MORE) for part in parts[:-1]) + framed(parts[-1])
        if data.draw(st.booleans()):
            stream += command(b"PING", b"\0\0")
    end, found, at = Zmtp("ROUTER", BYTES_MAX), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, 200))
        found += end.receive(stream[at : at + size])
        at += size
    assert found == messages
    assert end.missing == 0


def test_how_much_of_a_long_frame_is_missing_is_known():
    end = met()
    end.receive(framed(b"x" * 1_000)[:109])
    assert end.missing == 900
    assert end.receive(b"x" * 900 + framed(b"next")) == [[b"x" * 1_000], [b"next"]]
    assert end.missing == 0


def test_a_ping_is_answered_with_what_it_said():
    end = met()
    assert end.receive(command(b"PING", b"\0\x0a" + b"context")) == []
    assert end.answers == command(b"PONG", b"context")


def test_of_many_pings_at_once_the_last_is_answered():
    end = met()
    end.receive(command(b"PING", b"\0\0one") + command(b"PING", b"\0\0two"))
    assert end.answers == command(b"PONG", b"two")


def test_a_command_that_is_not_known_is_passed_over():
    end = met()
    assert end.receive(command(b"NEWS") + framed(b"x")) == [[b"x"]]
    assert end.answers == b""


READY = command(b"READY", b"\x0bSocket-Type\0\0\0\x06DEALER")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak ZMTP"),
        (b"\xff" + bytes(9), "does not speak ZMTP"),
        (GREETING[:10] + b"\x01", "version 1"),
        (GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32), "security"),
        (GREETING + framed(b"x"), "before the handshake"),
        (GREETING + framed(b"x", MORE), "before the handshake"),
        (GREETING + command(b"PING", b"\0\0"), "before the handshake"),
        (GREETING + command(b"ERROR", b"\x02no"), "ends the handshake"),
        (GREETING + READY[:-3].replace(b"\x04\x1c", b"\x04\x19"), "cut off"),
        (GREETING + READY.replace(b"DEALER", b"ROUTER"), "a ROUTER, where a DEALER is expected"),
        (GREETING + command(b"READY"), "where a DEALER is expected"),
        (GREETING + b"\x04\x00", "a command of 0 bytes"),
        (GREETING + b"\x05" + READY[1:], "a command"),
        (GREETING + READY + b"\x08\x00", "flags"),
        (GREETING + READY + header(BYTES_MAX + 1), "at most 100000 are read"),
        (GREETING + READY + b"\x02" + b"\xff" * 8, "at most 100000 are read"),
        (GREETING + READY + framed(b"", MORE) * (PARTS_MAX + 1), "64 parts"),
        (GREETING + READY + framed(b"x" * 60_000, MORE) * 2, "1 parts and 60000 bytes, and 60000 more"),
        (GREETING + READY + b"\x04\x02\x02x", "with a name of 2"),
    ],
)
def test_what_is_wrong_is_the_peers_fault(said, reason):
    with pytest.raises(PeerError, match=reason):
        Zmtp("ROUTER", BYTES_MAX).receive(said)


@pytest.mark.parametrize(
    "said",
    [
        GREETING + framed(b"x" * 50_000)[:9],
        GREETING + READY + framed(b"x" * 50_000, 4)[:9],
        GREETING + READY + framed(b"x" * 60_000, MORE) + framed(b"x" * 60_000)[:9],
        GREETING + READY + framed(b"x" * 300, 8)[:9],
    ],
    ids=["a message before the handshake", "a long command", "parts that are too much", "unknown flags"],
)
def test_what_would_not_be_taken_is_not_waited_for(said):
    """Its size is known before it has come: nobody has us keep what is thrown away in the end."""
    with pytest.raises(PeerError):
        Zmtp("ROUTER", BYTES_MAX).receive(said)


def whatever(end: Zmtp, stream: bytes, sizes: list[int]) -> tuple[list[list[bytes]], bool]:
    """What comes of it in such pieces, and whether it was understood to its end."""
    found, at = [], 0
    try:
        for size in (*sizes, len(stream)):
            found += end.receive(stream[at : at + size])
            at += size
    except PeerError:
        return found, False
    return found, True


@settings(max_examples=400)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.builds(framed, st.binary(max_size=300), st.sampled_from([0, 0, MORE, 4, 5, 8])),
            st.builds(command, st.sampled_from([b"PING", b"READY", b"ERROR", b"NEWS"]), st.binary(max_size=40)),
        ),
        max_size=8,
    ),
    st.lists(st.integers(1, 100), max_size=40),
)
def test_pieces_do_not_matter_for_what_is_wrong_either(stream, sizes):
    stream = GREETING + READY + b"".join(stream)
    found, understood = whatever(Zmtp("ROUTER", 1_000), stream, [1] * len(stream))
    other, likewise = whatever(Zmtp("ROUTER", 1_000), stream, sizes)
    assert understood is likewise
    assert other == found if understood else other == found[: len(other)]


@settings(max_examples=500)
@given(st.binary(max_size=300), st.sampled_from([b"", GREETING, GREETING + READY]))
def test_rubbish_is_the_peers_fault_and_nothing_else(rubbish, before):
    end = Zmtp("ROUTER", 1_000)
    try:
        for at in range(0, len(before + rubbish), 50):
            for message in end.receive((before + rubbish)[at : at + 50]):
                assert sum(map(len, message)) <= 2_000
    except PeerError:
        pass


def test_what_is_kept_of_a_message_that_is_not_whole_is_counted():
    zmtp = met()
    counted = []
    whole = header(1_000) + bytes(1_000)
    for piece in (
        whole[:9],
        whole[9:300],
        whole[300:],
        b"\x01\x05parts",
        b"\x04\x07\x04PING\0\0",
        whole[:109],
        whole[109:] + whole[:50],
    ):
        zmtp.receive(piece)
        counted.append(zmtp.unfinished_bytes)
    assert counted == [0, 291, 0, 5, 5, 105, 41]
