"""The properties of a group, checked from what its members' applications saw (shared vocabulary: docs/groups.md).

Safety: no creation and no duplication; FIFO; causal order; one total order, of all members that ever delivered
(uniform) or of those that are still in (plain); the same views, and in each view, among those who go on to the next,
the same messages or some that obsolete them (semantic view synchrony).

Liveness, after healing: what one delivered all deliver, or something that obsoletes it; what a member that is still in
sent, it delivers.
"""

from collections.abc import Iterable

from gossamer.lab.checkers import Violation
from gossamer.lab.groups.world import SERIAL, Life, Seen, World
from gossamer.messages.event import Head
from gossamer.messages.ids import EventId
from gossamer.protocol.groups.effects import Deliver, Discarded, Omit, View
from gossamer.protocol.groups.streams import stream_of
from gossamer.protocol.obsolescence import Told, obsoletes


def check_integrity(world: World) -> None:
    """Every message at most once, only if it was multicast, and as it was."""
    for life in world.lives.values():
        seen: set[EventId] = set()
        for each in life.seen:
            if isinstance(each, Deliver) and (id := each.event.id) is not None:
                if id not in world.sent:
                    raise Violation("no creation", f"{life.name} delivered {id}, which nobody multicast", id)
                if each.event.attributes.get(SERIAL) != world.sent[id].content.attributes[SERIAL]:
                    raise Violation("no creation", f"{life.name} delivered {id} with another content", id)
                if id in seen:
                    raise Violation("no duplication", f"{life.name} delivered {id} twice", id)
                seen.add(id)


def check_fifo(world: World) -> None:
    """No message after a later one of its sender."""
    for life in world.lives.values():
        last: dict[str, int] = {}
        for id in life.delivered():
            if id.seq <= last.get(id.stream, -1):
                raise Violation("FIFO", f"{life.name} delivered {id} after {id.stream}:{last[id.stream]}", id)
            last[id.stream] = id.seq


def check_no_gap(world: World) -> None:
    """Reliable FIFO: no message without the earlier ones of its sender, for groups in which nothing is obsolete."""
    for life in world.lives.values():
        following: dict[str, int] = {}
        for id in life.delivered():
            if id.seq != following.get(id.stream, 0):
                raise Violation("reliable FIFO", f"{life.name} delivered {id} without those before it", id)
            following[id.stream] = id.seq + 1


def check_causal(world: World, settled: bool = True) -> None:
    """The causes of a message are delivered before it, or are obsolete.

    Semantic causal completeness is about the end of a run (000 §4.6): a member that lives then has something that
    obsoletes each message that it lacks. Before, it is enough that there is something that does.
    """
    for life in world.lives.values():
        here = {id: at for at, id in enumerate(life.delivered())}
        for id, at in here.items():
            for before in world.sent[id].after:
                if before in here and here[before] > at:
                    raise Violation("causal order", f"{life.name} delivered {id} before {before}", id)
                if before in here or before in life.state:
                    continue
                if not _replaced(world, before, life.state if settled and life.alive else world.sent):
                    raise Violation("causal order", f"{life.name} delivered {id} without {before}", id)


def check_total_order(world: World, uniform: bool) -> None:
    """One sequence of which everyone delivered a part without a gap; for latecomers from some point on.

    A latecomer may go further than the member with the longest part, once that one is gone.
    """
    lives = [life for life in world.lives.values() if uniform or life.alive]
    sequences = {life.name: _ordered(life) for life in lives}
    reference = [*max(sequences.values(), key=len, default=list[EventId]())]
    place = {id: at for at, id in enumerate(reference)}
    for name, sequence in sequences.items():
        start = None
        for at, id in enumerate(sequence):
            if id not in place:
                if start is None and not any(other in place for other in sequence[at:]):
                    break  # it has nothing in common with the longest: compared below, with the others
                if start is not None and start + at == len(reference):  # it went on when the others were gone
                    place[id] = len(reference)
                    reference.append(id)
                    continue
                raise Violation("total order", f"{name} delivered {id}, where others went on without it", id)
            if start is None:
                start = place[id] - at
            if place[id] - at != start:
                raise Violation("total order", f"{name} delivered {id} in another place than others", id)
        if start is not None and start > 0 and not _joined_late(world.lives[name]):
            raise Violation("total order", f"{name} lacks the first {start} messages", reference[0])
    _check_pairs(sequences)


def _check_pairs(sequences: dict[str, list[EventId]]) -> None:
    """No two in different orders (the definition; quadratic, but members are few)."""
    names = sorted(sequences)
    for index, one in enumerate(names):
        place = {id: at for at, id in enumerate(sequences[one])}
        for other in names[index + 1 :]:
            last = -1
            for id in sequences[other]:
                if id in place:
                    if place[id] < last:
                        raise Violation("total order", f"{one} and {other} delivered {id} in different orders", id)
                    last = place[id]


def check_agreement(world: World, uniform: bool, settled: bool) -> None:
    """What one delivered, all that are still in deliver, or something that obsoletes it; once all is settled."""
    if not settled:
        return
    alive = [life for life in world.lives.values() if life.alive and life.view >= 0]
    # What was delivered before it joined came with the state it was given.
    heard = {life.name: set(life.state) for life in alive}
    for life in world.lives.values():
        if not life.alive and not uniform:
            continue
        for id in life.delivered():
            for other in alive:
                here = heard[other.name]
                if id not in here and not _replaced(world, id, here):
                    rule = "uniform agreement" if not life.alive else "agreement"
                    raise Violation(rule, f"{life.name} delivered {id}, {other.name} never did", id)


def check_discarded(world: World) -> None:
    """What was discarded by agreement, nobody who is in delivers."""
    alive = [life for life in world.lives.values() if life.alive]
    for life in alive:
        for each in life.seen:
            if isinstance(each, Discarded):
                stream = stream_of(world.group, each.node)
                for other in alive:
                    for id in other.delivered():
                        if id.stream == stream and id.seq > each.last:
                            raise Violation("discarded by agreement", f"{other.name} delivered {id} all the same", id)


def check_validity(world: World) -> None:
    """A member that is still in has delivered its own multicasts, once all is settled.

    An outsider asks the founders to let it in: it may wait for ever if none of them is in any more.
    """
    founders = [life for life in world.lives.values() if any(map(_is_first, life.seen))]
    stranded = bool(founders) and not any(life.alive for life in founders)
    for life in world.lives.values():
        if life.alive and not (stranded and life.view < 0):
            here = set(life.delivered())
            for id in life.sent:
                if id not in here and not _replaced(world, id, here):
                    raise Violation("validity", f"{life.name} never delivered its own {id}", id)


def check_views(world: World, *, sending: bool = True) -> None:
    """Primary partition: view i is the same for all. Semantic view synchrony, and delivery in the view of sending."""
    views: dict[int, tuple[str, ...]] = {}
    delivered_in: dict[EventId, int] = {}
    ended: dict[int, tuple[str, dict[EventId, None]]] = {}
    for life in world.lives.values():
        current, delivered = -1, dict[EventId, None]()
        for each in life.seen:
            if isinstance(each, Deliver) and each.event.id is not None:
                delivered[each.event.id] = None
                if sending and delivered_in.setdefault(each.event.id, current) != current:
                    raise Violation(
                        "sending view delivery",
                        f"{life.name} delivered {each.event.id} in view {current}, others in another",
                        each.event.id,
                    )
            elif isinstance(each, View):
                members = views.setdefault(each.number, each.members)
                if members != each.members:
                    raise Violation("primary partition", f"view {each.number} is {members} and {each.members}")
                if life.name not in each.members:
                    raise Violation("primary partition", f"{life.name} installed view {each.number} without itself")
                if current >= 0:
                    if each.number != current + 1:
                        raise Violation("views", f"{life.name} went from view {current} to {each.number}")
                    other = ended.setdefault(current, (life.name, delivered))
                    _check_same(world, current, other, (life.name, delivered))
                current, delivered = each.number, {}


def _check_same(
    world: World, view: int, one: tuple[str, dict[EventId, None]], other: tuple[str, dict[EventId, None]]
) -> None:
    for (name, here), (elsewhere, there) in ((one, other), (other, one)):
        for id in here:
            if id not in there and not _replaced(world, id, there):
                raise Violation(
                    "view synchrony", f"{name} delivered {id} in view {view}, {elsewhere} did not before the next", id
                )


def check_fifo_completeness(world: World) -> None:
    """Semantic FIFO view completeness: who delivered m' of a sender has, by the end of the view, every earlier m of it
    or something that obsoletes m."""
    for life in world.lives.values():
        if not life.alive and not any(isinstance(each, View) and each.number > 0 for each in life.seen):
            continue
        starts: dict[str, int] = {}
        here: dict[EventId, None] = {}
        for each in life.seen:
            if isinstance(each, Deliver) and each.event.id is not None:
                here[each.event.id] = None
                starts.setdefault(each.event.id.stream, each.event.id.seq if _joined_late(life) else 0)
            elif isinstance(each, View):
                _check_prefixes(world, life, here, starts)
        if life.alive:
            _check_prefixes(world, life, here, starts)


def _check_prefixes(world: World, life: Life, here: dict[EventId, None], starts: dict[str, int]) -> None:
    last: dict[str, int] = {}
    for id in here:
        last[id.stream] = max(last.get(id.stream, -1), id.seq)
    for stream, top in last.items():
        for seq in range(starts[stream], top):
            id = EventId(stream, seq)
            if id not in here and not _replaced(world, id, here):
                raise Violation(
                    "semantic FIFO completeness", f"{life.name} delivered {stream}:{top} but nothing for {id}", id
                )


def _ordered(life: Life) -> list[EventId]:
    """What it delivered or left out, in order."""
    found = [
        each.event.id if isinstance(each, Deliver) else each.id
        for each in life.seen
        if isinstance(each, Deliver | Omit)
    ]
    return [id for id in found if id is not None]


def _is_first(seen: Seen) -> bool:
    return isinstance(seen, View) and seen.number == 0


def _joined_late(life: Life) -> bool:
    first = next((each for each in life.seen if isinstance(each, View)), None)
    return first is not None and first.number > 0


def _replaced(world: World, id: EventId, here: Iterable[EventId]) -> bool:
    """Whether something that obsoletes a message, directly or in turn, is here."""
    told = _told(world, id)
    return any(by in world.sent and obsoletes(_told(world, by), told) for by in here)


def _told(world: World, id: EventId) -> Told:
    content = world.sent[id].content
    return Told(id, Head(content.key, content.rank, content.relation, content.time_ns))
