"""What is said, and what is carried."""

import pytest
from msgspec.structs import asdict

from gossamer.messages.errors import UsageError
from gossamer.messages.event import IDS_MAX, PARTS_MAX, REACH_MAX, Commit, Content, Event, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import STREAMS_MAX, Annotator, Part, truncate

A, B, C = "default/a", "default/b", "default/c"


def id(text):
    """`a3` is event 3 of A."""
    return EventId(f"default/{text[0]}", int(text[1:]))


def ids(text):
    return [id(each) for each in text.split()]


def delivered(stream, seq, content):
    return Event(**asdict(content), id=EventId(stream, seq))


def carried(content):
    """The distances and the ids that an event carries."""
    if content.relation is None:
        return "", ""
    near = int.from_bytes(content.relation.near, "little")
    distances = [str(at + 1) for at in range(near.bit_length()) if near >> at & 1]
    return " ".join(distances), " ".join(f"{stream[-1]}{seq}" for stream, seq in content.relation.ids)


def say(annotator, *said):
    """`x` sets that key, `x:a1,b2` names others with it, `:a1` without a key, `*x` has scope group, `(x y)` is one
    transaction, in which `z:a1` names; `-` is any event."""
    contents = []
    for each in said:
        if each[0] == "(":
            parts = [word.partition(":") for word in each[1:-1].split()]
            contents += annotator.transaction(
                [
                    Part(key=key if key != "-" else None, obsoletes=ids(named.replace(",", " ")))
                    for key, _, named in parts
                ]
            )
        elif each[0] == "*":
            contents.append(annotator.event({}, key=each[1:], scope="group"))
        else:
            key, _, named = each.partition(":")
            contents.append(
                annotator.event({}, key=key if key.strip("-") else None, obsoletes=ids(named.replace(",", " ")))
            )
    return contents


@pytest.mark.parametrize(
    ("said", "near", "far"),
    [
        ("- - x", "", ""),
        ("x x x", "", ""),
        ("- - :a1", "1", ""),
        ("- - :a0,a1", "1 2", ""),
        ("- :a0 :a1", "1 2", ""),
        ("- :a0 - :a1", "2 3", ""),
        ("x x :a1", "1 2", ""),
        ("x x - x :a1", "3 4", ""),
        ("x *x x :a2", "1 3", ""),
        ("- x:a0 x", "2", ""),
        ("- x:a0 - - x", "4", ""),
        ("- x:a0 - x x", "4", ""),
        ("- x:a0 y x:a2 x", "2 4", ""),
        ("y y z x:a1 w x", "4 5", ""),
        ("- x:a0 *x x", "3", ""),
        ("- x:a0 *x", "", ""),
        ("- :b7", "", "b7"),
        ("x:b7 x", "", "b7"),
        ("x:b7 - :a0", "2", "b7"),
        ("x:b7 x:c1 x:b2", "", "b2 b7 c1"),
    ],
)
def test_what_the_last_event_carries(said, near, far):
    *_, last = say(Annotator(A), *said.split())
    assert carried(last)[0] == near
    assert sorted(carried(last)[1].split()) == far.split()


@pytest.mark.parametrize(
    ("said", "near", "keys"),
    [
        (["(x)"], "", "x"),
        (["(x y)"], "", "x y"),
        (["(x -)"], "", "x"),
        (["x", "(x)"], "2", "x"),
        (["x", "(x)", "(x)"], "2 3 4", "x"),
        (["x", "(x)", "(y)"], "2 4", "y"),  # 2: the commit; 4: what it obsoleted
        (["(x y)", "(y)", "(z)"], "2 4 5", "z"),
        (["- ", "x:a0", "(x)"], "2 3", "x"),
        (["-", "x:a0", "x", "(x)"], "2 3 4", "x"),
        (["*x", "(x)"], "", "x"),
        (["(x x)"], "2", "x"),
        (["(x y x)"], "3", "x y"),
        (["-", "(x:a0 y)"], "3", "x y"),
        (["(- y)", "(-:a0)"], "2 4", ""),
    ],
)
def test_what_a_commit_carries(said, near, keys):
    contents = say(Annotator(A), *said)
    assert carried(contents[-1]) == (near, "")
    count = said[-1].count(" ") + 1
    assert contents[-1].relation.commit == Commit(count, tuple(keys.split()))
    parts = contents[-1 - count : -1]
    assert [part.relation for part in parts] == [Relation(part=(index, count)) for index in range(count)]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"obsoletes": ids("a3")}, "a:3 has not been published"),
        ({"obsoletes": ids("a99")}, "the next event is 3"),
        ({"obsoletes": ids("a0")}, 'has scope "group"'),
        ({"obsoletes": ids("a1")}, "a:1 is part of a transaction"),
        ({"obsoletes": ids("a2")}, "a:2 is the end of a transaction"),
        ({"obsoletes": ids("b0")}, 'b:0 has scope "group"'),
        ({"obsoletes": ids("b1")}, "b:1 is part"),
        ({"obsoletes": ids("a0"), "scope": "group", "key": "x"}, "not with obsoletes="),
        ({"obsoletes": id("a0")}, "'default/a' is not an event id"),
        ({"obsoletes": 7}, "7 is not an event id"),
        ({"obsoletes": [("default/a", True)]}, "is not an event id"),
        ({"obsoletes": [id(f"b{at}") for at in range(IDS_MAX + 1)]}, "at most 1024"),
        ({"scope": "group"}, 'scope "group" needs a key'),
        ({"scope": "all", "key": "x"}, "not 'all'"),
        ({"rank": 3}, "a rank needs a key"),
        ({"deleted": True}, "a tombstone needs a key"),
        ({"key": 7}, "key: "),
        ({"body": "text"}, "body: "),
        ({"time_ns": -1}, "time: "),
        ({"attributes": {"a": object()}}, "attribute 'a'"),
    ],
)
def test_what_cannot_be_said_is_one_clear_line_and_changes_nothing(said, complaint):
    annotator = Annotator(A)
    say(annotator, "*x", "(x)")
    for seq, content in enumerate(say(Annotator(B), "*x", "(x)")):
        annotator.seen(delivered(B, seq, content))
    with pytest.raises(UsageError) as refused:
        annotator.event(**{"attributes": {}} | said)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200
    assert annotator.next == 3
    assert carried(*say(annotator, "x")) == ("", "")


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (Part(rank=1), "a rank needs a key"),
        (Part(deleted=True), "a tombstone needs a key"),
        (Part(obsoletes=ids("a1")), "not been published"),
        (Part(obsoletes=ids("b1")), "b:1 is part"),
        (Part(key="\0"), "key: "),
    ],
)
def test_what_cannot_be_a_part_leaves_no_trace_of_its_transaction(part, complaint):
    annotator = Annotator(A)
    for seq, content in enumerate(say(Annotator(B), "-", "(x)")):
        annotator.seen(delivered(B, seq, content))
    with pytest.raises(UsageError, match=complaint):
        annotator.transaction([Part(key="x"), part])
    assert annotator.next == 0
    assert carried(say(annotator, "(x)")[-1]) == ("", "")


def test_a_transaction_of_nothing_is_nothing():
    annotator = Annotator(A)
    assert annotator.transaction([]) == ()
    assert annotator.next == 0
    with pytest.raises(UsageError, match=r"at most .* parts"):
        annotator.transaction([Part()] * (PARTS_MAX + 1))


def test_all_that_is_said_is_in_the_content():
    annotator = Annotator(A, first=7)
    content = annotator.event({"a": 1}, b"body", key="k", rank=2, scope="group", time_ns=5)
    assert content == Content("k", 2, Relation(group=True), 5, False, {"a": 1}, b"body")
    assert annotator.delete("k", {"a": 2}, time_ns=6) == Content("k", None, None, 6, True, {"a": 2})
    assert annotator.delete("k").attributes == {}
    assert annotator.next == 10
    part, commit = annotator.transaction([Part({"a": 1}, b"b", key="k", rank=3, deleted=True)], time_ns=9)
    assert part == Content("k", 3, Relation(part=(0, 1)), 9, True, {"a": 1}, b"b")
    assert (commit.key, commit.time_ns, commit.attributes, commit.body) == (None, 9, {}, b"")
    assert annotator.next == 12


# Reach.


def test_beyond_reach_it_is_the_id_that_is_told():
    annotator = Annotator(A, reach=4)
    assert carried(say(annotator, *"-----", ":a1")[-1]) == ("4", "")
    annotator = Annotator(A, reach=4)
    assert carried(say(annotator, *"-----", ":a0")[-1]) == ("", "a0")


def test_what_is_carried_fades():
    annotator = Annotator(A, reach=4)
    last = say(annotator, "-", "x:a0,b3", *"xxxx")
    assert [carried(content) for content in last[1:]] == [
        ("1", "b3"),
        ("2", "b3"),
        ("3", "b3"),
        ("4", "b3"),
        ("", "b3"),
    ]
    assert say(annotator, "x")[0].relation is None


def test_a_key_not_set_for_long_carries_nothing():
    annotator = Annotator(A, reach=4)
    assert carried(say(annotator, "x:b3", *"---", "x")[-1]) == ("", "b3")
    annotator = Annotator(A, reach=4)
    assert say(annotator, "x:b3", *"----", "x")[-1].relation is None


def test_memory_is_that_of_the_last_events():
    annotator = Annotator(A, reach=4)
    for at in range(100):
        say(annotator, f"k{at}:b{at}", "(x y)")
        annotator.seen(delivered(f"default/s{at}", at, Content()))
        annotator.seen(delivered(B, at, Content(key="k")))
    assert len(annotator._own.keys) == len(annotator._others[B].keys) == 4
    assert len(annotator._own.marks) <= 4
    assert len(annotator.carrying) <= 4
    for at in range(200, 300, 2):  # what was purged in between was not seen
        annotator.seen(delivered(B, at, Content(key="k", relation=Relation(ids=(EventId(C, at),)))))
    assert len(annotator._others[B].keys) == len(annotator._others[B].marks) == 2
    for at in range(2 * STREAMS_MAX):
        annotator.seen(delivered(f"default/t{at}", at, Content()))
    assert len(annotator._others) == STREAMS_MAX


def test_what_follows_is_cut_off_before_what_was_named():
    annotator = Annotator(A)
    say(annotator, "x:" + ",".join(f"b{at}" for at in range(IDS_MAX)))
    *_, last = say(annotator, "x:" + ",".join(f"c{at}" for at in range(10)))
    assert last.relation.ids[:10] == tuple(id(f"c{at}") for at in range(10))
    assert len(last.relation.ids) == IDS_MAX


def test_a_key_set_twice_in_a_long_transaction_is_named_by_its_id():
    parts = [Part(key="x"), *[Part()] * REACH_MAX, Part(key="x")]
    *_, commit = Annotator(A).transaction(parts)
    assert carried(commit) == ("", "a0")


def test_reach_has_bounds():
    for reach in (0, -1, REACH_MAX + 1):
        with pytest.raises(UsageError, match="reach"):
            Annotator(A, reach=reach)


@pytest.mark.parametrize("count", [1, 7, REACH_MAX - 1, REACH_MAX, 2 * REACH_MAX])
def test_who_numbers_plain_events_without_a_call_is_told_the_same(count):
    called, not_called = Annotator(A), Annotator(A)
    for annotator in (called, not_called):
        say(annotator, "x", "-")
    for number in range(count):
        key = f"k{number % 5}" if number % 7 else None
        called.event({}, key=key)
        if key is not None:
            not_called.plain.append((not_called.next, key))
        not_called.next += 1
    for said in (f":a{count + 1}", "x", "(k1)", f"y:a1,a{count}", "y", "k3"):
        assert say(called, said) == say(not_called, said)
    assert called.next == not_called.next == count + 9


# Jumps.


def test_no_bit_reaches_beyond_a_jump():
    annotator = Annotator(A, first=10)
    say(annotator, "x", "y:a10", "(x)")
    annotator.skip_to(20)
    contents = say(annotator, "y", ":a11", "x", "(x)", ":a20,a11")
    expected = [("", ""), ("", "a11"), ("", ""), ("", ""), ("2", ""), ("5", "a11")]
    assert [carried(content) for content in contents] == expected


def test_numbers_do_not_go_back():
    annotator = Annotator(A, first=10)
    annotator.skip_to(10)
    with pytest.raises(UsageError, match="10 is the next one, not 9"):
        annotator.skip_to(9)
    assert annotator.next == 10


def test_an_event_of_an_earlier_incarnation_is_named_by_its_id():
    assert carried(say(Annotator(A, first=10), "-", ":a3,a10")[-1]) == ("1", "a3")


@pytest.mark.parametrize(
    ("reach", "near"), [(9, "1 3 9"), (8, "1 3"), (3, "1 3"), (2, "1"), (1, "1"), (0, ""), (-5, "")]
)
def test_truncation(reach, near):
    content = Content(relation=Relation(near=bytes([0b101, 1]), ids=tuple(ids("b1"))))
    assert carried(truncate(content, reach)) == (near, "b1")


def test_truncation_leaves_no_empty_relation_and_touches_nothing_else():
    assert truncate(Content(key="k", relation=Relation(near=b"\2")), 1) == Content(key="k")
    commit = Content(relation=Relation(near=b"\2", commit=Commit(1)))
    assert truncate(commit, 1).relation == Relation(commit=Commit(1))
    plain = Content(key="k")
    assert truncate(plain, 0) is plain


# Other streams.


def test_what_others_obsolete_is_carried_along():
    annotator = Annotator(A)
    say(annotator, "x", "x", "-")
    theirs = say(Annotator(B), "-", "k", "k", ":b0,a1,c5", "k")
    for seq, content in enumerate(theirs):
        annotator.seen(delivered(B, seq, content))
    near, far = carried(*say(annotator, ":b3"))
    assert near == "2 3", "a1 is ours, and we know that a0 was obsolete by it"
    assert sorted(far.split()) == ["b0", "b3", "c5"]
    assert carried(*say(annotator, ":b4")) == ("", "b4 b2 b1")


def test_what_others_say_of_our_parts_and_of_what_is_not_yet_is_not_repeated():
    annotator = Annotator(A)
    say(annotator, "(x)", "*x")
    annotator.seen(delivered(B, 0, Content(relation=Relation(ids=tuple(ids("a0 a1 a2 a3 a9"))))))
    assert carried(*say(annotator, ":b0")) == ("", "b0")


def test_an_event_that_was_not_seen_may_be_named():
    assert carried(*say(Annotator(A), ":b9")) == ("", "b9")


def test_seeing_ones_own_events_again_changes_nothing():
    annotator = Annotator(A)
    contents = say(annotator, "-", ":a0")
    for seq, content in enumerate(contents):
        annotator.seen(delivered(A, seq, content))
    assert carried(*say(annotator, ":a1")) == ("1 2", "")


def test_what_an_earlier_incarnation_said_is_known_if_it_is_seen():
    annotator = Annotator(A, first=10)
    annotator.seen(delivered(A, 7, Content(relation=Relation(near=b"\1"))))
    assert carried(*say(annotator, ":a7")) == ("", "a7 a6")
