"""The relation that annotators make is a strict partial order, whoever said what in which way (000 §3.2)."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from gossamer.messages.event import Event, Head, Relation
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part, truncate
from gossamer.protocol.obsolescence import Told, obsoletes, order

STREAMS = ["default/a", "default/b", "other/c"]
KEYS = st.sampled_from(["x", "y", "z", None])


def head(content):
    return Head(content.key, content.rank, content.relation, content.time_ns)


class History:
    """Publishers who see each other's events, each stream in order, some later than others."""

    def __init__(self, reach=256):
        self.reach = reach
        self.publishers = {stream: Annotator(stream, reach=reach) for stream in STREAMS}
        self.told = []
        """All events, in the order in which they were said."""
        self.contents = {}
        self.meant = {}
        """What an event outside of scope group was said to obsolete, and nothing that follows from it."""
        self.jumped = dict.fromkeys(STREAMS, 0)
        self.floor = {}
        """Where the last jump before an event ended."""
        self.seen = dict.fromkeys(STREAMS, 0)
        """How much of `told` each publisher has been delivered."""

    def say(self, stream, step):
        annotator = self.publishers[stream]
        kind, draw = step
        first = annotator.next
        if kind == "see":
            self.see(stream, draw)
            contents = []
        elif kind == "jump":
            annotator.skip_to(annotator.next + draw)
            self.jumped[stream] = annotator.next
            contents = []
        elif kind == "group":
            key, rank, time_ns = draw
            contents = [annotator.event({}, key=key, rank=rank, scope="group", time_ns=time_ns)]
        elif kind == "transaction":
            parts = [Part(key=key, obsoletes=self.named(stream, picks)) for key, picks in draw]
            contents = annotator.transaction(parts)
            self.meant[EventId(stream, annotator.next - 1)] = self.meant_by_commit(stream, first, parts)
        else:
            key, picks = draw
            named = self.named(stream, picks)
            contents = [annotator.event({}, key=key, obsoletes=named)]
            self.meant[EventId(stream, first)] = {*named, *self.plain(stream, {key} - {None})}
        for seq, content in enumerate(contents, first):
            id = EventId(stream, seq)
            self.contents[id] = content
            self.floor[id] = self.jumped[stream]
            self.told.append(Told(id, head(content)))

    def plain(self, stream, keys):
        told = [told for told in self.told if is_plain(told)]
        return {told.id for told in told if told.id.stream == stream and told.head.key in keys}

    def meant_by_commit(self, stream, first, parts):
        """000 §3.4.3, in so many words."""
        keys = {part.key for part in parts} - {None}
        meant = {id for part in parts for id in part.obsoletes}
        for (of, seq), by in self.told:
            if of == stream and by.relation is not None and by.relation.commit:
                meant.add(EventId(of, seq))
            if of == stream and by.key in keys and not (by.relation is not None and by.relation.group):
                meant.add(EventId(of, seq))
        later = [part.key for part in parts]
        for index, part in enumerate(parts):
            if part.key is not None and part.key in later[index + 1 :]:
                meant.add(EventId(stream, first + index))
        return meant

    def meaning(self):
        """What was meant, and all that follows from it."""
        below = {}
        for told in self.told:  # said in this order, so that what is meant is always known already
            meant = self.meant.get(told.id, set())
            below[told.id] = set(meant).union(*(below[id] for id in meant))
        return {(older, newer) for newer, olders in below.items() for older in olders}

    def see(self, stream, count):
        annotator = self.publishers[stream]
        for id, _ in self.told[self.seen[stream] :][:count]:
            annotator.seen(Event(**asdict(self.contents[id]), id=id))
            self.seen[stream] += 1

    def named(self, stream, picks):
        """Plain events that this publisher knows: its own, and what it has been delivered."""
        known = [
            told.id
            for index, told in enumerate(self.told)
            if is_plain(told) and (told.id.stream == stream or index < self.seen[stream])
        ]
        return [known[pick] for pick in picks if pick >= -len(known)]


def is_plain(told):
    relation = told.head.relation
    return relation is None or not (relation.group or relation.part or relation.commit)


PICKS = st.lists(st.integers(-6, -1), max_size=2)
"""Which of the events it knows an event names, counted from the last."""
PLAIN = st.tuples(st.just("plain"), st.tuples(KEYS, PICKS))
GROUP = st.tuples(
    st.just("group"),
    st.tuples(st.sampled_from("xy"), st.none() | st.integers(0, 2) | st.sampled_from([0.5, 1.0]), st.integers(0, 3)),
)
TRANSACTION = st.tuples(st.just("transaction"), st.lists(st.tuples(KEYS, PICKS), min_size=1, max_size=3))
SEE = st.tuples(st.just("see"), st.sampled_from([1, 4, 1_000]))
JUMP = st.tuples(st.just("jump"), st.integers(1, 3))
STEPS = PLAIN | PLAIN | PLAIN | GROUP | TRANSACTION | SEE | SEE


@st.composite
def histories(draw, steps=STEPS, size=30, reach=256):
    history = History(reach)
    least = draw(st.sampled_from([0, size // 2, size]))  # left to itself, Hypothesis prefers short ones
    streams = st.sampled_from(STREAMS[: draw(st.sampled_from([1, 2, 2, 3]))])
    for stream, step in draw(st.lists(st.tuples(streams, steps), min_size=least, max_size=size)):
        history.say(stream, step)
    return history


def relation(told):
    return {(older.id, newer.id) for older in told for newer in told if obsoletes(newer, older)}


@settings(max_examples=120)
@given(histories())
def test_the_relation_is_a_strict_partial_order(history):
    below = relation(history.told)
    for older, newer in below:
        assert older != newer
        assert (newer, older) not in below
    obsoleted_by = {}
    for older, newer in below:
        obsoleted_by.setdefault(older, set()).add(newer)
    for older, middles in obsoleted_by.items():
        for middle in middles:
            missing = obsoleted_by.get(middle, set()) - middles
            assert not missing, f"{older} ⊏ {middle} ⊏ {missing}"


@settings(max_examples=50)
@given(histories(), st.randoms(use_true_random=False))
def test_whatever_was_purged_is_obsolete_by_something_that_is_left(history, random):
    """Transitivity where the middle is gone: purge at random, and each event still has its obsoleter among the rest."""
    left = list(history.told)
    gone = []
    while purgeable := [told for told in left if any(obsoletes(by, told) for by in left)]:
        out = random.choice(purgeable)
        left.remove(out)
        gone.append(out)
    for told in gone:
        assert any(obsoletes(by, told) for by in left)


@settings(max_examples=60)
@given(histories())
def test_parts_obsolete_nothing_and_only_commits_obsolete_parts(history):
    for older in history.told:
        for newer in history.told:
            if obsoletes(newer, older):
                assert newer.head.relation is None or newer.head.relation.part is None
                if older.head.relation is not None and (older.head.relation.part or older.head.relation.commit):
                    assert newer.head.relation is not None
                    assert newer.head.relation.commit is not None
                    assert newer.id.stream == older.id.stream


@settings(max_examples=60)
@given(histories(), st.sampled_from(STREAMS), st.lists(st.tuples(KEYS, PICKS), min_size=1, max_size=3))
def test_an_uncommitted_transaction_obsoletes_nothing(history, stream, parts):
    before = len(history.told)
    history.say(stream, ("transaction", parts))
    *uncommitted, commit = history.told[before:]
    for part in uncommitted:
        assert not any(obsoletes(part, older) for older in history.told)
    for older in uncommitted:
        again = [part.head.key for part in uncommitted if part.id.seq > older.id.seq]
        twice = older.head.key is not None and older.head.key in again
        assert obsoletes(commit, older) == twice, "a commit obsoletes none of its own, save what it set again"


@settings(max_examples=120)
@given(histories())
def test_within_reach_all_is_told_that_was_meant_and_nothing_else(history):
    told = [each for each in history.told if not is_group(each)]
    assert relation(told) == history.meaning()


@settings(max_examples=120)
@given(histories(STEPS | JUMP, size=30, reach=5), st.integers(0, 6))
def test_beyond_reach_and_jumps_less_is_told_and_never_what_is_wrong(history, reach):
    meant, exist = history.meaning(), set(history.contents)
    for told in history.told:
        content = history.contents[told.id]
        cut = Told(told.id, head(truncate(content, reach)))
        for older in history.told:
            if obsoletes(told, older):
                assert is_group(older) or (older.id, told.id) in meant
            else:
                assert not obsoletes(cut, older)
        for distance in distances(content):
            assert distance <= 5
            assert EventId(told.id.stream, told.id.seq - distance) in exist
            assert told.id.seq - distance >= history.floor[told.id]
        assert distances(cut.head) == [distance for distance in distances(content) if distance <= reach]


def distances(said):
    near = 0 if said.relation is None else int.from_bytes(said.relation.near, "little")
    return [at + 1 for at in range(near.bit_length()) if near >> at & 1]


@given(st.lists(st.sampled_from("xyz"), max_size=20))
def test_the_three_representations_agree(keys):
    """One history of single items (000 §3.4.2), said by tags, by bits and by ids."""
    stream = STREAMS[0]
    annotator = Annotator(stream)
    last, tags, bits, ids = {}, [], [], []
    for seq, key in enumerate(keys):
        id = EventId(stream, seq)
        named = [EventId(stream, last[key])] if key in last else []
        earlier = tuple(EventId(stream, at) for at in range(seq) if keys[at] == key)
        tags.append(Told(id, Head(key)))
        bits.append(Told(id, head(annotator.event({}, obsoletes=named))))
        ids.append(Told(id, Head(relation=Relation(ids=earlier))))
        last[key] = seq
    assert relation(tags) == relation(bits) == relation(ids)
    expected = {(older, newer) for older, newer in combinations(range(len(keys)), 2) if keys[older] == keys[newer]}
    assert relation(tags) == {(EventId(stream, older), EventId(stream, newer)) for older, newer in expected}


@given(st.lists(st.tuples(st.sampled_from(STREAMS), GROUP), max_size=15), st.randoms(use_true_random=False))
def test_scope_group_is_one_total_order_whatever_arrives_first(said, random):
    history = History()
    for stream, step in said:
        history.say(stream, step)
    arrived = list(history.told)
    random.shuffle(arrived)
    for group in ("default", "other"):
        for key in "xy":
            items = [told for told in arrived if told.id.stream.startswith(f"{group}/") and told.head.key == key]
            left = []
            for told in items:  # as a receiver would: what comes late and is obsolete is rejected
                if not any(obsoletes(by, told) for by in left):
                    left = [old for old in left if not obsoletes(told, old)]
                    left.append(told)
            assert left == ([max(items, key=order)] if items else [])
            for one, other in combinations(items, 2):
                assert obsoletes(one, other) != obsoletes(other, one)


def is_group(told):
    return told.head.relation is not None and told.head.relation.group
