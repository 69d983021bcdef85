"""Whatever is purged lawfully, an observer goes from one state that the publisher committed to another (000 §3.4.3)."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.obsolescence import Told, obsoletes
from gossamer.protocol.transactions import Applied, Assembler, Discarded

S = "default/a"
TRANSACTION = st.lists(st.sampled_from("xyz"), min_size=1, max_size=3)
PLAIN = st.sampled_from("pq")  # keys of their own: a plain event promises nothing about others
SAID = st.lists(TRANSACTION | TRANSACTION | PLAIN, min_size=1, max_size=12)
MIXED = st.lists(TRANSACTION | st.sampled_from("xyz"), min_size=1, max_size=12)


def published(said):
    annotator = Annotator(S)
    contents = []
    for each in said:
        if isinstance(each, list):
            contents += annotator.transaction([Part({"value": annotator.next}, key=key) for key in each])
        else:
            contents.append(annotator.event({}, key=each))
    return [Event(**asdict(content), id=EventId(S, seq)) for seq, content in enumerate(contents)]


def told(event):
    return Told(event.id, Head(event.key, event.rank, event.relation, event.time_ns))


def purge(events, random, share):
    """Seq to obsoleter: what may be out, in any order, each because of something that was still there."""
    left, out = list(events), {}
    for _ in range(int(share * len(events))):
        pairs = [(old.id.seq, new) for old in left for new in left if obsoletes(told(new), told(old))]
        if not pairs:
            break
        seq, by = random.choice(pairs)
        out[seq] = by.id.seq
        left = [event for event in left if event.id.seq != seq]
    return out


def is_commit(event):
    return event.relation is not None and event.relation.commit is not None


def apply(state, events):
    return state | {event.key: event.id.seq for event in events if event.key is not None}


def only(keys, state):
    return {key: seq for key, seq in state.items() if key in keys}


def states(events):
    """The publisher's state at each commit, by its seq."""
    state, waiting, found = {}, [], {-1: {}}
    for event in events:
        waiting.append(event)
        if is_commit(event):
            state, waiting = apply(state, waiting), []
            found[event.id.seq] = state
        elif event.relation is None or event.relation.part is None:
            state, waiting = apply(state, waiting), []
    return found, state


def fed(events, out, lost=()):
    """What an assembler says to each event, or to its absence."""
    assembler = Assembler()
    for event in events:
        seq = event.id.seq
        if seq in lost:
            yield from assembler.on_omitted(S, seq, seq, False)
        elif seq in out:
            yield from assembler.on_omitted(S, seq, seq, True, out[seq])
        else:
            yield from assembler.on_event(event)
    assert assembler.held <= len(events)


RANDOM = st.randoms(use_true_random=False)
SHARE = st.sampled_from([0, 0.2, 0.5, 1])


@settings(max_examples=300)
@given(SAID, RANDOM, SHARE, st.integers(0, 5))
def test_every_state_was_committed_by_the_publisher(said, random, share, cut):
    events = published(said)
    events = events[: max(1, len(events) - cut)]  # its publisher died here: any prefix is lawful (000 §3.4.1)
    out = purge(events, random, share)
    committed, final = states(events)
    state, last = {}, -1
    for outcome in fed(events, out):
        assert isinstance(outcome, Applied)
        state = apply(state, outcome.events)
        if outcome.commit is None:
            (event,) = outcome.events
            assert event.key in "pq"
        else:
            assert outcome.commit.id.seq > last
            last = outcome.commit.id.seq
            assert only("xyz", state) == only("xyz", committed[last])
    assert last == max(committed), "the last commit is never obsolete"
    assert only("xyz", state) == only("xyz", final)
    if not is_part(events[-1]):
        assert state == final


def is_part(event):
    return event.relation is not None and event.relation.part is not None


@settings(max_examples=200)
@given(MIXED, RANDOM, SHARE)
def test_where_plain_events_set_the_same_keys_the_end_is_right(said, random, share):
    events = published(said)
    state, seqs = {}, []
    for outcome in fed(events, purge(events, random, share)):
        state = apply(state, outcome.events)
        seqs += [event.id.seq for event in outcome.events]
    assert state == states(events)[1]
    assert seqs == sorted(seqs), "in the order of the stream"


@settings(max_examples=200)
@given(MIXED, RANDOM, SHARE, st.sets(st.integers(0, 30), max_size=3))
def test_with_losses_each_transaction_is_whole_or_absent(said, random, share, lost):
    events = published(said)
    out = purge([event for event in events if event.id.seq not in lost], random, share)
    outcomes = list(fed(events, out, lost))
    applied = [event.id.seq for outcome in outcomes if isinstance(outcome, Applied) for event in outcome.events]
    assert applied == sorted(set(applied))
    for outcome in outcomes:
        if isinstance(outcome, Discarded):
            assert not set(applied) & set(range(outcome.first, outcome.last + 1))
    for event in events:
        if not is_commit(event):
            continue
        parts = set(range(event.id.seq - event.relation.commit.parts, event.id.seq))
        if parts & lost or event.id.seq in lost:
            assert not parts & set(applied)
        elif parts & set(applied):
            assert parts - set(applied) <= set(out)
    plain = {event.id.seq for event in events if event.relation is None} - lost - set(out)
    assert plain - set(applied) <= {seq for seq in plain if seq > max(applied, default=-1)}
