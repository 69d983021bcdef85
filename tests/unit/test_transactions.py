"""Transactions at the receiver: what comes, and what may be applied."""

import pytest

from gossamer.messages.event import Commit, Event, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.transactions import Applied, Assembler, Discarded

S, T = "default/a", "default/b"


def layout(text):
    """`x.2` is part of a transaction of two, `!2` its commit, `p` a plain event; by seq, spaces between."""
    events, index = [], 0
    for seq, word in enumerate(text.split()):
        id = EventId(S, seq)
        if word[0] == "!":
            events.append(Event(relation=Relation(commit=Commit(int(word[1:]))), id=id))
            index = 0
        elif "." in word:
            key, count = word.split(".")
            events.append(Event(key=key, relation=Relation(part=(index, int(count))), id=id))
            index += 1
        else:
            events.append(Event(key=word, id=id))
    return events


def told(outcomes):
    """`0 1!2` for two events and their commit, `-3..5` for what is discarded."""
    words = []
    for outcome in outcomes:
        if isinstance(outcome, Discarded):
            words.append(f"-{outcome.first}..{outcome.last}")
        else:
            events = " ".join(str(event.id.seq) for event in outcome.events)
            words.append(events + (f"!{outcome.commit.id.seq}" if outcome.commit else ""))
    return words


def fed(assembler, events, came):
    """`3` came, `3<7` is obsolete by 7, `3<b` by an event of another stream, `3<` by who knows what, `3x` is lost."""
    found = []
    for word in came.split():
        seq, lost, by = word.partition("x") if "x" in word else word.partition("<")
        first, _, last = seq.partition("-")
        span = S, int(first), int(last or first)
        if lost == "x":
            outcomes = assembler.on_omitted(*span, False)
        elif lost:
            outcomes = assembler.on_omitted(*span, True, EventId(T, 0) if by == "b" else int(by) if by else None)
        else:
            outcomes = assembler.on_event(events[int(seq)])
        found += told(outcomes)
    return found


THREE = "x.2 y.2 !2 y.1 !1 z.1 !1"


@pytest.mark.parametrize(
    ("stream", "came", "applied"),
    [
        ("p q p", "0 1 2", ["0", "1", "2"]),
        ("p q p", "0<2 1 2", ["1", "2"]),
        ("x.2 y.2 !2", "0 1", []),
        ("x.2 y.2 !2", "0 1 2", ["0 1!2"]),
        ("p x.1 !1 p", "0 1 2 3", ["0", "1!2", "3"]),
        # Obsolete parts: at the commit only if what obsoletes them came before it, which it cannot.
        (THREE, "0 1<4 2 3 4 5 6", ["0 3!4", "5!6"]),
        (THREE, "0 1<4 2 3 4<6 5 6", ["0 3 5!6"]),
        (THREE, "0 1 2<4 3 4<6 5 6", ["0 1 3 5!6"]),
        (THREE, "0 1<4 2<6 3 4<6 5", []),
        (THREE, "0 1< 2 3 4", ["0!2", "3!4"]),
        # All of a transaction is out, and with the next one the observer would be where the publisher never was.
        ("x.1 !1 y.1 !1 x.1 !1", "0<5 1<3 2 3 4 5", ["2 4!5"]),
        ("x.1 !1 y.1 !1 x.1 !1", "0<5 1<5 2 3 4 5", ["2 4!5"]),
        # A hole that proves to be a plain event holds up a commit, and no more than that.
        ("p x.1 !1 p q", "0<3 1 2 3 4", ["1!2", "3", "4"]),
        ("p x.1 !1 q p", "0<b 1 2 3 4", ["1!2", "3", "4"]),
        ("p x.1 !1 q p p", "0<4 1 2 3 4<5 5", ["1!2", "3", "5"]),
        # Plain events wait behind what is held.
        ("x.1 !1 p y.1 !1 p", "0 1<4 2 3 4 5", ["0 2 3!4", "5"]),
        # Losses.
        ("x.2 y.2 !2 p", "0 1x 2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "0x 1 2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "0-1x 2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "0 1 2x 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "0 2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "1 2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "2 3", ["-0..2", "3"]),
        ("x.2 y.2 !2 p", "0 1 3", ["-0..2", "3"]),
        ("x.1 !1 y.2 z.2 !2", "0 1<4 2 3x 4", ["-2..4", "0!4"]),
        (THREE, "0 1<4 2 3 4x 5 6", ["-0..2", "-3..4", "5!6"]),
        (THREE, "0 1 2<4 3 4x 5 6", ["-3..4", "0 1 5!6"]),
        # A peer's nonsense.
        ("x.2 y.2 p q", "0 1 2 3", ["-0..2", "2", "3"]),
        ("x.0 p", "0 1", ["-0..0", "1"]),
        ("!0 !9 p", "0 1 2", ["!0", "--8..1", "2"]),
    ],
)
def test_what_is_applied(stream, came, applied):
    assert fed(Assembler(), layout(stream), came) == applied


def test_with_a_selector_what_is_not_told_of_is_nobodys_loss():
    assert fed(Assembler(filtered=True), layout(THREE), "1 2 6") == ["1!2", "!6"]
    assert fed(Assembler(filtered=True), layout(THREE), "1 6") == ["1!6"]
    assert fed(Assembler(filtered=True), layout(THREE), "0 1<4 2 6") == ["0!2", "!6"]
    assert fed(Assembler(filtered=True), layout(THREE), "0x 1 2 6") == ["-0..2", "!6"]


def test_streams_do_not_wait_for_each_other():
    assembler = Assembler()
    assert fed(assembler, layout("x.1 !1"), "0") == []
    assert told(assembler.on_event(Event(id=EventId(T, 5)))) == ["5"]
    assert fed(assembler, layout("x.1 !1"), "1") == ["0!1"]


def test_too_much_is_discarded_whole_and_said_so():
    assembler = Assembler(held_max=3)
    events = layout("a.4 b.4 c.4 d.4 !4 p e.1 !1")
    assert fed(assembler, events, "0 1 2") == []
    assert assembler.held == 3
    assert assembler.on_event(events[3]) == [Discarded(S, 0, 4, "overflow")]
    assert assembler.held == 0
    assert fed(assembler, events, "4 5 6 7") == ["5", "6!7"]
    assert assembler.held == 0


def test_plain_events_behind_a_transaction_count_too():
    assembler = Assembler(held_max=3)
    events = layout("x.1 !1 p q r s y.1 !1")
    assert fed(assembler, events, "0 1<7 2 3") == ["-0..1", "2", "3"]
    assert assembler.held == 0
    assert fed(assembler, events, "4 5 6 7") == ["4", "5", "6!7"]


def test_a_retired_stream_leaves_nothing():
    assembler = Assembler()
    fed(assembler, layout("x.1 !1 p"), "0 1<9 2")
    assert told(assembler.on_retired(S)) == ["-0..1", "2"]
    assert assembler.on_retired(S) == []
    assert assembler.held == 0
    assert assembler._streams == {}


def test_a_stream_without_transactions_leaves_no_trace():
    assembler = Assembler()
    event = Event(key="p", id=EventId(S, 0))
    assert assembler.on_event(event) == [Applied((event,))]
    assert assembler._streams == {}
