"""Whatever is purged lawfully, a backup goes from one state that its primary was in to a later one (000 §3.4.3)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.protocol.annotator import Annotator
from gossamer.protocol.groups.items import Items
from gossamer.protocol.groups.streams import event_of
from gossamer.protocol.obsolescence import Told, obsoletes
from gossamer.protocol.purging import PurgingBuffer

S = "g/~a.0"
UPDATE = st.dictionaries(st.sampled_from("uvwxyz"), st.integers(0, 9), min_size=1, max_size=4)
UPDATES = st.lists(UPDATE, min_size=1, max_size=14)


def issued(updates):
    """The events of a primary, and its state after each operation."""
    items, annotator, states, events = Items(), Annotator(S), [{}], []
    items.take_over()

    def multicast(parts):
        if len(parts) == 1:
            contents = [annotator.event(parts[0].attributes, parts[0].body, key=parts[0].key)]
        else:
            contents = annotator.transaction(parts)
        events.extend(event_of(content, S, at) for at, content in enumerate(contents, len(events)))
        return EventId(S, len(events) - 1)

    for update in updates:
        items.issue(update, multicast)
        states.append(states[-1] | update)
    return events, states


def head(event: Event) -> Head:
    return Head(event.key, event.rank, event.relation, event.time_ns)


def check(backup, states, last):
    """The backup is in the state after an operation, and not in an earlier one than before."""
    assert backup.values == states[backup.operation]
    assert backup.operation >= last
    return backup.operation


@settings(max_examples=150, deadline=None)
@given(UPDATES, st.randoms(use_true_random=False), st.floats(0.0, 1.0))
def test_a_backup_shows_only_states_of_the_primary(updates, random, share) -> None:
    events, states = issued(updates)
    left = list(events)
    for _ in range(int(share * len(events))):
        pairs = [
            old for old in left for new in left if obsoletes(Told(new.id, head(new)), Told(old.id, head(old)))
        ]  # fmt: skip
        if not pairs:
            break
        left.remove(random.choice(pairs))
    backup, last = Items(), 0
    for event in left:
        backup.take(event)
        last = check(backup, states, last)
    assert (backup.values, backup.operation) == (states[-1], len(updates))


@settings(max_examples=150, deadline=None)
@given(UPDATES, st.randoms(use_true_random=False))
def test_a_backup_behind_a_queue_shows_only_states_of_the_primary(updates, random) -> None:
    """The queue of a slow application purges while the backup takes events from it."""
    events, states = issued(updates)
    queue, backup, last = PurgingBuffer(10_000, overflow="drop-new"), Items(), 0
    for event in events:
        queue.append(S, event.id.seq, head(event), 1, event)
        for entry in queue.take(random.choice((0, 0, 0, 1, 2))):
            backup.take(entry.payload)
            last = check(backup, states, last)
    for entry in queue.take(10_000):
        backup.take(entry.payload)
        last = check(backup, states, last)
    assert backup.operation == len(updates)
