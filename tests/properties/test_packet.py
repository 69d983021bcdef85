"""Packets against the plain model: a list of events with holes."""

import struct
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gossamer.messages.event import Content, Event
from gossamer.messages.ids import EventId
from gossamer.messages.packet import Packet, pack
from strategies import contents, numbers, streams

A = "default/a"
reasons = st.builds(EventId, st.sampled_from([A, "default/b"]), st.integers(1_000, 1_002))


@given(streams(), numbers(0, 2**62), st.lists(contents(), min_size=1, max_size=6))
def test_what_is_packed_comes_back(stream: str, first: int, run: list[Content]) -> None:
    packet = pack(stream, first, run)
    packet.verify()
    events = packet.events()
    assert [event.id for event in events] == [EventId(stream, first + n) for n in range(len(run))]
    assert [Content(*(getattr(e, name) for name in Content.__struct_fields__)) for e in events] == run
    assert all(type(event) is Event for event in events)


@dataclass(frozen=True)
class Place:
    """One seq of the model: the bytes of its event, or what it was purged by."""

    seq: int
    event: bytes | None
    by: EventId | None = None


def runs(size: int) -> st.SearchStrategy[list[bytes]]:
    # The events are arbitrary bytes, not even msgpack: whoever decodes or encodes one again would be found out.
    return st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=size)


def packet_of(first: int, events: list[bytes]) -> Packet:
    return Packet(A, first, struct.pack(f"<{len(events)}I", *map(len, events)), b"".join(events))


class AgainstAList(RuleBasedStateMachine):
    """Any history of cutting, thinning and joining."""

    @initialize(first=st.integers(0, 50), events=runs(12))
    def begin(self, first: int, events: list[bytes]) -> None:
        self.packet = packet_of(first, events)
        self.model = [Place(seq, event) for seq, event in enumerate(events, first)]

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        low = data.draw(st.integers(0, min(2, len(self.model) - 1)))
        high = data.draw(st.integers(max(low, len(self.model) - 3), len(self.model) - 1))
        self.packet = self.packet.cut(self.model[low].seq, self.model[high].seq)
        self.model = self.model[low : high + 1]

    @rule(purged=st.dictionaries(st.integers(-2, 14), reasons, max_size=6))
    def thin(self, purged: dict[int, EventId]) -> None:
        # Places are counted from the first; some lie outside and are none of this packet's business.
        named = {self.model[0].seq + at: by for at, by in purged.items()}
        self.packet = self.packet.thin(named.items())
        self.model = [replace(p, event=None, by=named[p.seq]) if p.seq in named else p for p in self.model]

    @rule(events=runs(6))
    def join(self, events: list[bytes]) -> None:
        first = self.model[-1].seq + 1
        self.packet = self.packet.join(packet_of(first, events))
        self.model = [*self.model, *(Place(seq, event) for seq, event in enumerate(events, first))]

    @rule(data=st.data(), by=reasons)
    def part_and_rejoin(self, data: st.DataObject, by: EventId) -> None:
        """As purging a piece on its way does."""
        if len(self.model) > 1:
            middle = data.draw(st.integers(self.model[0].seq, self.model[-1].seq - 1))
            left, right = self.packet.cut(self.model[0].seq, middle), self.packet.cut(middle + 1, self.model[-1].seq)
            assert left.join(right) == self.packet
            self.packet = left.thin([(middle, by)]).join(right.thin([(middle + 1, by)]))
            touched = (middle, middle + 1)
            self.model = [replace(p, event=None, by=by) if p.seq in touched else p for p in self.model]

    @invariant()
    def packet_is_the_list(self) -> None:
        packet, model = self.packet, self.model
        assert (packet.first, packet.last, packet.count) == (model[0].seq, model[-1].seq, len(model))
        assert list(packet.encoded()) == [(place.seq, place.event) for place in model if place.event]
        assert packet.table() == tuple(len(place.event or b"") for place in model)
        explained = {seq: packet.obsoleter(hole) for hole in packet.holes for seq in range(hole.first, hole.last + 1)}
        assert explained == {place.seq: place.by for place in model if place.event is None}
        for left, right in zip(packet.holes, packet.holes[1:], strict=False):
            assert left.last + 1 < right.first or left.by != right.by  # as few holes as can be


AgainstAList.TestCase.settings = settings(max_examples=150, stateful_step_count=12)
TestAgainstAList = AgainstAList.TestCase
