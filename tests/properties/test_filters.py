"""Filters and obsolescence end to end (design §5): however slow the links and the consumers and whatever is purged on
the way, each subscriber ends with what a loss-free run without purging would have shown it, or was told that it left.

Publishers say all that can be said of obsolescence, save two things that no annotation expresses and docs/semantics.md
warns of: naming an event of *another* stream that has a key, and naming one whose key a transaction has set.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from gossamer.lab.mesh import Mesh
from gossamer.lab.subscriber import Subscriber, Subscriptions, slot_of
from gossamer.matching import Selector
from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol import delivery, reception
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.config import Config
from gossamer.protocol.obsolescence import Told, obsoletes, order
from gossamer.protocol.purge_index import Index
from gossamer.protocol.shown import Left
from gossamer.protocol.transactions import Applied, Assembler
from properties.selectors import attributes as any_attributes
from properties.selectors import selectors as any_selectors

NODES = "abc"
STREAMS = {node: f"default/~{node}-1.0" for node in NODES}


def told(event):
    return Told(event.id, Head(event.key, event.rank, event.relation, event.time_ns))


def has(event, what):
    return event.relation is not None and bool(getattr(event.relation, what))


class History:
    """What was published, in order, by publishers who have seen all that was published before."""

    def __init__(self, reach=256):
        self.events = []
        self.reach = reach
        self.publishers = {node: Annotator(stream, reach=reach) for node, stream in STREAMS.items()}
        self.packets = []
        """`(pause_s, node, contents)` each."""

    def say(self, node, step, pause_s, split):
        annotator = self.publishers[node]
        kind, said = step
        first = annotator.next
        if kind == "transaction":
            contents = annotator.transaction(
                [Part(a, key=key, deleted=gone, obsoletes=self.named(node, picks)) for key, a, gone, picks in said]
            )
        elif kind == "group":
            key, a, gone, rank, time_ns = said
            contents = [annotator.event(a, key=key, deleted=gone, rank=rank, scope="group", time_ns=time_ns)]
        else:
            key, a, gone, picks = said
            contents = [annotator.event(a, key=key, deleted=gone, obsoletes=self.named(node, picks))]
        for seq, content in enumerate(contents, first):
            event = Event(**asdict(content), id=EventId(STREAMS[node], seq))
            self.events.append(event)
            for other in self.publishers.values():
                if other is not annotator:
                    other.seen(event)
        runs = [(content,) for content in contents] if split else [tuple(contents)]
        self.packets += [(pause_s, node, run) for run in runs]

    def named(self, node, picks):
        if self.reach < 256:
            return []  # what is named is then not carried as far as it would have to be
        known = [event.id for event in self.events if self.may_name(node, event)]
        return [known[pick] for pick in picks if pick >= -len(known)]

    def may_name(self, node, event):
        if has(event, "group") or has(event, "part") or has(event, "commit"):
            return False
        return event.key is None or (event.key[0] == "n" and event.id.stream == STREAMS[node])

    def shown(self, selector):
        """What a subscriber has in the end, by the definition of obsolescence."""
        newest = {}
        for event in self.events:
            if has(event, "commit"):
                continue
            slot = event.id if event.key is None else slot_of(event)
            if slot not in newest or not has(event, "group") or order(told(event)) > order(told(newest[slot])):
                newest[slot] = event
        return {
            slot: event.id
            for slot, event in newest.items()
            if not event.deleted and selector.matches(event.attributes) and not self.is_obsolete(event)
        }

    def is_obsolete(self, event):
        return any(obsoletes(told(by), told(event)) for by in self.events)

    def transactions(self, selector):
        """The parts that match, of each transaction."""
        found = {}
        for event in self.events:
            if has(event, "part") and selector.matches(event.attributes):
                found.setdefault((event.id.stream, event.id.seq - event.relation.part[0]), []).append(event)
        return list(found.values())

    def committed(self, selector):
        """For each stream, what its transactions had shown of the keys that only they set, commit by commit."""
        states = {}
        for stream in STREAMS.values():
            state, waiting, states[stream] = {}, [], [{}]
            for event in self.events:
                if event.id.stream == stream and has(event, "part") and event.key is not None and event.key[0] == "t":
                    waiting.append(event)
                elif event.id.stream == stream and has(event, "commit"):
                    for part in waiting:
                        state = {key: id for key, id in state.items() if key != part.key}
                        if not part.deleted and selector.matches(part.attributes):
                            state[part.key] = part.id
                    waiting = []
                    states[stream].append(state)
        return states


class Witness:
    """Looks on after each step: no event is applied twice, no transaction in part, no key of the group goes back."""

    def __init__(self, history, selector):
        self.committed = history.committed(selector)
        self.transactions = history.transactions(selector)
        self.commits = [event for event in history.events if has(event, "commit")]
        self.at = dict.fromkeys(self.committed, 0)
        self.seen = set()
        self.highest = {}
        self.left = 0

    def __call__(self, subscriber, step):
        for said in step.said:
            if isinstance(said, Left):
                self.left += 1
                continue
            assert said.id not in self.seen, f"{said.id} is applied twice"
            self.seen.add(said.id)
            if has(said, "group"):
                place = order(told(said))
                assert place > self.highest.get(said.key, (-1,)), f"{said.key} goes back in time"
                self.highest[said.key] = place
        if step.commit is not None:
            self.check_whole(step)
        for stream, states in self.committed.items():
            now = {
                slot[1]: event.id
                for slot, event in subscriber.state.items()
                if not isinstance(slot, EventId) and slot[0] == stream and slot[1][0] == "t"
            }
            while self.at[stream] < len(states) and states[self.at[stream]] != now:
                self.at[stream] += 1
            assert self.at[stream] < len(states), f"{now} was never a state of {stream}: {states}"

    def check_whole(self, step):
        """Whatever is applied of a transaction, the rest is there too, or obsolete by what is applied with it."""
        applied = {said.id for said in step.said if not isinstance(said, Left)}
        commits = [by for by in self.commits if by.id.stream == step.commit.id.stream and by.id <= step.commit.id]
        for transaction in self.transactions:
            if any(part.id in applied for part in transaction):
                for part in transaction:
                    obsolete = any(obsoletes(told(by), told(part)) for by in commits)  # the last stands for the others
                    assert part.id in applied or obsolete, f"{step} lacks {part.id}"


@dataclass
class Plan:
    history: History
    config: Config
    loss: float
    subscriptions: list = field(default_factory=list)
    """`(node, selector, delay_s, events_max, semantic)` each."""


def run(plan, seed=1):
    mesh = Mesh(NODES, "L", seed=seed, config=plan.config, wire=False)
    found = {node: Subscriptions(mesh.world, node) for node in NODES}
    subscribers = []
    for number, (node, selector, delay_s, events_max, semantic) in enumerate(plan.subscriptions):
        witness = Witness(plan.history, selector)
        subscriber = Subscriber(mesh.world, delay_s=delay_s, events_max=events_max, semantic=semantic, on_step=witness)
        subscribers.append((selector, found[node].add(str(number), selector, subscriber)))
    if plan.loss:
        mesh.lose(plan.loss)
    for pause_s, node, contents in plan.history.packets:
        mesh.run(pause_s)
        assert mesh.stream(node) == STREAMS[node]
        mesh.world.publish(node, STREAMS[node], contents)
    mesh.heal()
    assert mesh.settle(300.0), mesh.lacking()
    assert mesh.run_until(lambda: all(each.idle for each in found.values()), 600.0)
    for at in found.values():
        assert at.losses == 0
    return subscribers


def check(plan, seed=1):
    for selector, subscriber in run(plan, seed):
        state = {slot: event.id for slot, event in subscriber.state.items()}
        assert state == plan.history.shown(selector), f"{selector}: wrong in the end"
        assert subscriber.reception.held == 0
        assert subscriber.unaccounted == 0, f"{selector}: events in no counter, or in two"


# Drawing -------------------------------------------------------------------------------------------------------------

VALUES = st.integers(0, 3)
ATTRIBUTES = st.fixed_dictionaries({"a": VALUES, "b": VALUES}) | any_attributes
SELECTORS = st.sampled_from(["a > 0", "a > 1", "a = 2", "b < 2", "a < b", "", "a > 0 AND b > 0"]).map(Selector)
GONE = st.sampled_from([False, False, False, False, True])
PICKS = st.lists(st.integers(-5, -1), max_size=2)
NONE = st.just([])
KEYED = st.tuples(st.sampled_from("xy"), ATTRIBUTES, GONE, NONE)
NAMED = st.tuples(st.sampled_from(["n0", "n1", None, None]), ATTRIBUTES, st.just(False), PICKS)
GROUP = st.tuples(
    st.sampled_from("gh"), ATTRIBUTES, GONE, st.none() | st.integers(0, 9) | st.just(2.5), st.integers(0, 40)
)
PART = st.tuples(st.sampled_from(["t0", "t1", "t2"]), ATTRIBUTES, GONE, NONE) | st.one_of(
    KEYED, st.tuples(st.none(), ATTRIBUTES, st.just(False), PICKS)
)
PLAIN = st.tuples(st.just("plain"), KEYED)
NAMING = st.tuples(st.just("plain"), NAMED)
GROUPED = st.tuples(st.just("group"), GROUP)
TRANSACTION = st.tuples(st.just("transaction"), st.lists(PART, min_size=1, max_size=4))
FLAVOURS = [
    PLAIN | NAMING | GROUPED | TRANSACTION,
    TRANSACTION,
    TRANSACTION | PLAIN,
    TRANSACTION | GROUPED,
    PLAIN | NAMING,
]
"""What is said: each alone meets more often what is rare when everything is said."""
PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.01, 0.1])
CONFIGS = st.builds(
    Config,
    round_interval_s=st.just(0.1),
    round_interval_max_s=st.just(0.4),
    strategy=st.sampled_from(["multicast", "multicast", "gossip"]),
    link_window_bytes=st.sampled_from([None, 100, 300, 2_000]),
    link_bandwidth_bps=st.sampled_from([None, None, 20_000.0]),
    link_buffer_events_max=st.sampled_from([3, 10, 1_024]),
    link_policy=st.sampled_from(["eager", "eager", "lazy"]),
    link_patience_s=st.sampled_from([0.0, 0.0, 0.05]),
    purge_above_bytes=st.sampled_from([0, 200, 32 * 2**20]),
    purge_send_buffer=st.booleans(),
    hold_bytes_max=st.sampled_from([500, 64 * 2**20]),
)
SUBSCRIPTIONS = st.tuples(
    st.sampled_from(NODES),
    SELECTORS | SELECTORS | any_selectors,
    st.sampled_from([0.0, 0.005, 0.05, 0.3]),
    st.sampled_from([1, 2, 4, 64]),
    st.sampled_from(["eager", "eager", "lazy", "off"]),
)


@st.composite
def plans(draw, size=30):
    history = History(draw(st.sampled_from([2, 256, 256])))
    steps = draw(st.sampled_from(FLAVOURS))
    least = draw(st.sampled_from([0, size // 2, size]))
    nodes = st.sampled_from(NODES[: draw(st.integers(1, 3))])
    for node, step, pause_s, split in draw(
        st.lists(st.tuples(nodes, steps, PAUSES, st.booleans()), min_size=least, max_size=size)
    ):
        history.say(node, step, pause_s, split)
    subscriptions = draw(st.lists(SUBSCRIPTIONS, min_size=1, max_size=4))
    return Plan(history, draw(CONFIGS), draw(st.sampled_from([0.0, 0.1, 0.3])), subscriptions)


@settings(max_examples=60)
@given(plans(), st.integers(0, 2**16))
def test_every_subscriber_ends_with_what_holds(plan, seed):
    check(plan, seed)


@pytest.mark.slow
@settings(max_examples=1_500)
@given(plans(size=70), st.integers(0, 2**16))
def test_every_subscriber_ends_with_what_holds_at_length(plan, seed):
    check(plan, seed)


# What it would find -------------------------------------------------------------------------------------------------


def drop_notices(monkeypatch):
    put = delivery.Feed._put

    def silent(self, entry):
        entry.payload.lefts = ()
        if entry.payload.event is not None:
            put(self, entry)

    monkeypatch.setattr(delivery.Feed, "_put", silent)


def let_late_ones_through(monkeypatch):
    monkeypatch.setattr(delivery.Intake, "_obsoleter", lambda *_: None)


def apply_parts_at_once(monkeypatch):
    class Hasty(Assembler):
        def on_event(self, event):
            return [Applied((event,))]

    monkeypatch.setattr(reception, "Assembler", Hasty)


def match_before_it_is_whole(monkeypatch):
    class Hasty(Assembler):
        def on_event(self, event):
            return [Applied((event,))]

        def on_omitted(self, *_):
            return []

    monkeypatch.setattr(delivery, "Assembler", Hasty)


def purge_parts_for_a_plain_event(monkeypatch):
    obsoleted = Index.obsoleted

    def greedy(self, stream, seq, head):
        state = self.streams.get(stream)
        parts = {} if state is None or head.relation is not None else state.parts.get(head.key, {})
        return list(dict.fromkeys([*obsoleted(self, stream, seq, head), *parts.values()]))

    monkeypatch.setattr(Index, "obsoleted", greedy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "breaks",
    [
        drop_notices,
        let_late_ones_through,
        apply_parts_at_once,
        match_before_it_is_whole,
        purge_parts_for_a_plain_event,
    ],
)
def test_a_broken_broker_is_found(breaks, monkeypatch):
    breaks(monkeypatch)

    @settings(max_examples=500, database=None, phases=[Phase.generate])
    @given(plans(), st.integers(0, 2**16))
    def every_subscriber_ends_with_what_holds(plan, seed):
        check(plan, seed)

    with pytest.raises(AssertionError):
        every_subscriber_ends_with_what_holds()
