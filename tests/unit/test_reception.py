"""What a consumer applies of what it is sent, and when."""

from msgspec.structs import asdict

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.delivery import Item
from gossamer.protocol.obsolescence import Told
from gossamer.protocol.reception import Reception
from gossamer.protocol.shown import Left

A, B = "default/a", "default/b"


def events(stream, contents, first=0):
    return [Event(**asdict(content), id=EventId(stream, seq)) for seq, content in enumerate(contents, first)]


def transactions(*keys):
    """The events of one stream, a transaction for each string of keys, a plain event for `.x`."""
    annotator, contents = Annotator(A), []
    for each in keys:
        if each[0] == ".":
            contents.append(annotator.event({}, key=each[1:]))
        else:
            contents += annotator.transaction([Part(key=key) for key in each])
    return events(A, contents)


def applied(reception, *items):
    """What is applied at each item."""
    found = []
    for item in items:
        steps = reception.on_item(item if isinstance(item, Item) else Item(item))
        found.append(" | ".join(" ".join(map(shown, step.said)) for step in steps))
    return found


def shown(said):
    return f"-{said.key}" if isinstance(said, Left) else f"{said.id.stream[-1]}{said.id.seq}"


def test_parts_wait_for_their_commit_and_notices_behind_them_wait_as_well():
    part, _, plain, other, commit = transactions("x", ".y", "z")  # the first commit is purged for the second
    left = Item(None, (Left("y", plain.id),))
    assert applied(Reception(), part, plain, left, other, commit) == ["", "", "", "", "a0 a2 -y a3"]


def test_what_leaves_with_a_commit_is_applied_with_it():
    part, commit = transactions("x")
    item = Item(commit, (Left("y", EventId(A, 0)),))
    assert applied(Reception(), part, item) == ["", "a0 -y"]


def test_what_leaves_with_an_event_follows_it():
    (event,) = transactions(".x")
    assert applied(Reception(), Item(event, (Left("y", EventId(B, 0)),))) == ["a0 | -y"]


def test_a_notice_of_another_stream_does_not_wait():
    part, _ = transactions("x")
    assert applied(Reception(), part, Item(None, (Left("x", EventId(B, 5)),))) == ["", "-x"]


def grouped(stream, rank, first=0):
    return events(stream, [Annotator(stream).event({}, key="g", scope="group", rank=rank)], first)[0]


def test_a_key_of_the_group_does_not_go_back_when_what_waited_is_applied():
    part, _, _, other, commit = transactions("x", ".-", "z")
    reception = Reception()
    found = applied(reception, part, grouped(A, 1, first=2), grouped(B, 2), other, commit)
    assert found == ["", "", "b0", "", "a0 a3"]
    assert reception.obsoleted == 1


def test_a_key_of_the_group_that_left_does_not_come_back_when_what_waited_is_applied():
    part, _, _, other, commit = transactions("x", ".-", "z")
    waits, by = grouped(A, 1, first=2), grouped(B, 2)
    head = Head(by.key, by.rank, by.relation, by.time_ns)
    notice = Item(None, (Left("g", waits.id, group=True),), Told(by.id, head))
    assert applied(Reception(), part, waits, notice, other, commit) == ["", "", "-g", "", "a0 a3"]


def test_an_event_that_was_named_while_it_waited_is_gone_and_so_is_what_it_replaced():
    part, _, plain, other, commit = transactions("x", ".y", "z")
    (namer,) = events(B, [Annotator(B).event({}, obsoletes=[plain.id])])
    assert applied(Reception(), part, plain, namer, other, commit) == ["", "", "b0", "", "a0 -y a3"]


def test_notices_of_a_discarded_transaction_are_told():
    part, other, commit = transactions("xy")
    reception = Reception()
    reception._assembler.held_max = 1
    assert applied(reception, part, other, Item(commit, (Left("y", EventId(A, 0)),))) == ["", "", "-y"]
    assert reception.lost == 2, "both parts"
