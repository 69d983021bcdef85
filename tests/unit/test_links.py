"""Links' purging buffers: nothing waits while a link admits; what waits is purged, and marks are told (003 §3.1)."""

import random

import pytest

from gossamer.messages.event import Commit, Content, Relation
from gossamer.messages.ids import EventId
from gossamer.messages.packet import EVENTS_MAX, Hole, Packet, pack
from gossamer.messages.wire import Beat, Data, Echo, Idle, Member, Repair, Roster, Sent, Taken
from gossamer.protocol import links as links_module
from gossamer.protocol.config import Group
from gossamer.protocol.effects import Deliver, Send
from gossamer.protocol.inputs import Connected, Publish, Wake
from gossamer.protocol.links import BURST_S, CONTROL_BYTES, NEVER, WHOLE_EVENTS, Links, cost
from machines import S, T, context, keyed, marked, node, packet, receive, sent

SIZE = cost(packet(0))
"""What an event without a key takes on a link; one with a key takes a byte more."""
KINDS = (Data, Repair)


def by(event: Packet, to: str = "b") -> Send:
    return Send((to,), Data("a", event))


def closed(**config):
    """Links of which that to b admits nothing for now, and nothing waits for it."""
    bench = Bench(**({"link_window_bytes": 4 * SIZE} | config))
    bench.saturate()
    return bench


class Bench:
    """The links of a node. What goes out is told as `kind first-last [holes]`."""

    def __init__(self, safe=(), loggers=(), **config):
        self.ctx = context(**({"link_window_bytes": SIZE, "link_patience_s": 0.0} | config))
        self.safe = set(safe)
        self.links = Links(self.ctx, lambda event: event in self.safe, lambda node: node in loggers)
        self.epoch = {}

    def send(self, *effects):
        """Effects of one step, and what of them is done now."""
        return self._seen(self.links.admit(list(effects)))

    def events(self, *packets, to="b"):
        return events_in(self.send(*(by(event, to) for event in packets)))

    def send_taken(self, to="b"):
        self.links.on_taken(to, Taken(self.epoch[to], self.links._links[to].sent))
        return self.send()

    def taken(self, count, to="b"):
        """The peer has taken in so many bytes of what it was sent in this session."""
        self.links.on_taken(to, Taken(self.epoch[to], count))
        return events_in(self.send())

    def everything_taken(self, to="b"):
        return self.taken(self.links._links[to].sent, to)

    def round(self):
        self.ctx.effects = []
        self.links.on_round()
        return self._seen(self.links.admit(self.ctx.effects))

    def at(self, now):
        self.ctx.now = now
        return events_in(self.send())

    def saturate(self, to="b"):
        """As much goes as the window takes, and nothing after it."""
        while not self.links.saturated or to not in self.links.waiting():
            self.events(packet(0, stream=T), to=to)
        link = self.links._links[to]
        link.buffer.clear()
        link.seqs.clear()

    def _seen(self, effects):
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Sent):
                self.epoch[effect.to[0]] = effect.message.epoch
        return effects


def events_in(effects):
    """`3` for an event, `1-2→3` for a mark, `1-2⇒3` for a final one; packets apart."""
    told = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, KINDS):
            packets = effect.message.packets if isinstance(effect.message, Repair) else (effect.message.packet,)
            told += [" ".join(_pieces(each)) for each in packets]
    return told


def _pieces(found):
    pieces = [(seq, str(seq)) for seq, _ in found.encoded()]
    for hole in found.holes:
        span = f"{hole.first}" if hole.first == hole.last else f"{hole.first}-{hole.last}"
        name = hole.by if isinstance(hole.by, int) else f"{hole.by.stream}:{hole.by.seq}"
        pieces.append((hole.first, f"{span}{'⇒' if hole.final else '→'}{name}"))
    return [piece for _, piece in sorted(pieces)]


# A link that admits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"link_window_bytes": 100 * SIZE}, {"link_bandwidth_bps": 1e9}])
def test_an_unsaturated_link_passes_the_very_same_packets_at_once(limits):
    bench = Bench(**{"link_window_bytes": None, **limits})
    effects = [
        by(keyed(0, "x")),
        by(keyed(1, "x")),
        Send(("b",), Echo(1)),
        Send(("b",), Repair((keyed(2, "x"), packet(0, stream=T)))),
        Deliver(packet(0)),
    ]
    admitted = bench.send(*effects)
    assert [one for one in admitted if not sent([one], Sent)] == effects
    assert all(one.message is other.message for one, other in zip(admitted[:3], effects[:3], strict=True))
    assert bench.ctx.tally.purged["link", "obsolete"] == 0
    assert not bench.links.saturated
    assert bench.links.next_deadline() == NEVER


def test_a_multicast_stays_one_send_for_the_links_that_admit_it():
    bench = closed()
    admitted = bench.send(Send(("b", "c", "d"), Data("a", packet(1))))
    assert sent(admitted, Data) == [(("c", "d"), Data("a", packet(1)))]
    assert bench.links.waiting() == {"b": (1, len(packet(1).blob))}


def test_without_window_and_bandwidth_there_are_no_links():
    me, _ = node(brokers="ab", link_window_bytes=None)
    assert not me.links.enabled
    me.handle(Publish(S.replace("~a", "~me"), (keyed(0, "x").events()[0],)), 0.0)
    assert me.links.waiting() == {}


# The window ----------------------------------------------------------------------------------------------------------


def test_a_window_closes_when_so_much_is_under_way_and_opens_when_it_is_taken():
    events = [packet(seq, body=bytes(100)) for seq in range(4)]
    bench = Bench(link_window_bytes=2 * cost(events[0]))
    assert bench.events(*events) == ["0", "1"]
    assert bench.taken(cost(events[0])) == ["2"]
    assert bench.taken(cost(events[0])) == [], "said twice"
    assert bench.everything_taken() == ["3"]
    assert not bench.links.saturated


def test_what_waits_goes_before_what_comes():
    bench = Bench()
    assert bench.events(packet(0), packet(1)) == ["0"]
    bench.links.on_taken("b", Taken(bench.epoch["b"], SIZE))
    assert bench.events(packet(2)) == ["1"]
    assert bench.everything_taken() == ["2"]


def test_what_waited_goes_together():
    bench = Bench(link_window_bytes=8 * SIZE)
    assert bench.events(*map(packet, range(12))) == [*"01234567"]
    assert bench.everything_taken() == ["8 9 10 11"], "as one packet, up to a quarter of the window"


def test_a_probe_follows_each_quarter_of_the_window():
    bench = Bench(link_window_bytes=8 * SIZE)
    effects = bench.send(*(by(packet(seq)) for seq in range(8)))
    assert [message.bytes for _, message in sent(effects, Sent)] == [SIZE * count for count in (2, 4, 6, 8)]


def test_a_lost_answer_is_asked_for_again_at_a_round():
    bench = Bench()
    bench.events(packet(0), packet(1))
    ((to, probe),) = sent(bench.round(), Sent)
    assert (to, probe.bytes) == (("b",), SIZE)
    assert bench.taken(probe.bytes) == ["1"]
    bench.everything_taken()
    assert bench.round() == [], "all is taken, there is nothing to ask"


def test_a_round_asks_nothing_of_a_link_that_is_far_from_its_window():
    bench = Bench(link_window_bytes=8 * SIZE)
    assert sent(bench.send(by(packet(0))), Sent) == []
    assert bench.round() == []


def test_an_answer_from_an_earlier_session_means_nothing():
    bench = Bench()
    assert bench.events(packet(0), packet(1, body=bytes(SIZE)), packet(2)) == ["0"]
    old = bench.epoch["b"]
    bench.links.on_connected("b")
    assert events_in(bench.send()) == ["1"], "a new session: nothing is under way"
    assert bench.epoch["b"] > old
    bench.links.on_taken("b", Taken(old, SIZE))
    assert events_in(bench.send()) == []
    assert bench.everything_taken() == ["2"]


@pytest.mark.parametrize("claimed", [SIZE + 1, 10**9])
def test_a_peer_that_has_taken_more_than_it_was_sent_is_not_believed(claimed):
    bench = Bench()
    bench.events(packet(0), packet(1))
    assert bench.taken(claimed) == []
    assert bench.taken(SIZE) == ["1"]


def test_a_member_that_left_is_waited_for_no_longer():
    bench = Bench()
    bench.events(packet(0), packet(1))
    bench.links.forget("b")
    assert not bench.links.saturated
    bench.links.on_taken("b", Taken(1, SIZE))
    assert bench.send() == []


def test_epochs_of_two_lives_differ():
    one, other = (Links(context(incarnation=life, link_window_bytes=1), lambda _: False) for life in (1, 2))
    assert one._link("b").epoch != other._link("b").epoch


# Bandwidth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_per_s", [1000, 777.7, 31, 1e5 / 3])
def test_a_bandwidth_admits_one_event_after_the_other_by_deadline_and_without_spinning(bytes_per_s):
    bench = Bench(link_window_bytes=None, link_bandwidth_bps=8 * bytes_per_s)
    went = [(0.0, told) for told in bench.events(*map(packet, range(120)))]
    assert len(went) == 1 + int(BURST_S * bytes_per_s / SIZE), "a little ahead"
    while (due := bench.links.next_deadline()) < NEVER:
        assert due > bench.ctx.now, "it would be woken again and again at the same time"
        (told,) = bench.at(due)
        went.append((due, told))
    assert [told for _, told in went] == [*map(str, range(120))]
    assert went[-1][0] == pytest.approx(119 * SIZE / bytes_per_s - BURST_S, rel=0.05)


def test_a_link_that_was_idle_may_be_a_little_ahead_of_its_bandwidth():
    bytes_per_s = 4 * SIZE / BURST_S
    bench = Bench(link_window_bytes=None, link_bandwidth_bps=8 * bytes_per_s)
    assert bench.events(*map(packet, range(9))) == [*"01234"], "four, and one more that it begins"
    assert bench.at(100.0) == [*"5678"]
    bench.ctx.now = 200.0
    assert bench.events(*map(packet, range(10, 20))) == ["10", "11", "12", "13", "14"], "however long"


def test_control_messages_count_and_never_wait():
    bench = Bench(link_window_bytes=None, link_bandwidth_bps=8 * CONTROL_BYTES)
    bench.events(packet(0), packet(1))
    due = bench.links.next_deadline()
    control = [Send(("b",), Echo(1)), Send(("b", "c"), Idle((Beat(S, 1),)))]
    assert bench.send(*control) == control
    assert bench.at(due) == [], "two seconds' worth of control messages are in the way"
    assert bench.at(due + 2.0) == ["1"]


def test_window_and_bandwidth_both_have_to_admit():
    bench = Bench(link_window_bytes=2 * SIZE, link_bandwidth_bps=8 * SIZE)
    assert bench.events(packet(0), packet(1), packet(2)) == ["0"]
    assert bench.at(1.0 + CONTROL_BYTES / SIZE) == ["1"]
    assert bench.links.next_deadline() == NEVER, "it is the peer's turn"
    bench.ctx.now = 10.0
    assert bench.everything_taken() == ["2"]


# Purging -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "safe", "goes"),
    [
        ([keyed(1, "x"), keyed(2, "y")], [], ["1 2"]),
        ([keyed(1, "x"), keyed(2, "x")], [], ["1→2 2"]),
        ([keyed(1, "x"), keyed(2, "x"), keyed(3, "x")], [], ["1-2→3 3"]),
        ([keyed(1, "x"), keyed(2, "x"), keyed(3, "x")], [2], ["1⇒3 2→3 3"]),
        ([keyed(1, "x"), keyed(2, "x"), keyed(3, "x")], [3], ["1-2⇒3 3"]),
        ([keyed(1, "x", "y"), keyed(3, "y", "x")], [], ["1→4 2→3 3 4"]),
        ([keyed(1, "x", None, "x")], [], ["1→3 2 3"]),
        ([keyed(1, "x"), keyed(3, "x")], [], ["3", "1→3"]),
    ],
    ids=[
        "nothing",
        "one",
        "the-last-one-is-named",
        "safe-middle",
        "final-iff-safe",
        "two-keys",
        "in-a-packet",
        "apart",
    ],
)
def test_what_is_purged_leaves_a_mark_that_names_what_came_in_the_end(waiting, safe, goes):
    bench = closed(safe=[EventId(S, seq) for seq in safe])
    assert bench.events(*waiting) == []
    assert bench.everything_taken() == goes


def test_a_mark_of_another_stream_names_it_in_full():
    bench = closed()
    rivals = [Relation(group=True), Relation(group=True)]
    low, high = (Content(key="bid", rank=rank, relation=relation) for rank, relation in enumerate(rivals))
    bench.events(pack(S, 4, [low]), pack(T, 7, [high]))
    assert bench.everything_taken() == ["7", f"4→{T}:7"]


def test_marks_that_come_through_are_kept_and_follow_what_is_purged_in_turn():
    bench = closed()
    bench.events(marked(1, 1, 2, final=True), keyed(2, "x"), keyed(3, "x"))
    assert bench.everything_taken() == ["1-2→3 3"], "2 was safe, but 3 is what comes"


@pytest.mark.parametrize(
    ("keys", "goes"),
    [
        ([None, None, "x", None, "x"], ["1", "2 3→5", "4", "5"]),
        ([None, None, "x", None, "x", None, "x"], ["1", "2 3→7", "4 5→7", "6", "7"]),
        (["x", None, "x"], ["1→3 2", "3"]),
    ],
)
def test_a_mark_does_not_overtake_what_still_waits(keys, goes):
    """The peer would learn from it that there is more, and ask for what is on its way."""
    bench = Bench(link_window_bytes=None, link_bandwidth_bps=8 * SIZE)
    bench.events(packet(0, stream=T))
    assert bench.events(*(keyed(seq, key) for seq, key in enumerate(keys, 1))) == []
    went = []
    while bench.links.saturated:
        went += bench.at(bench.links.next_deadline())
    assert went == goes


def test_marks_in_a_circle_are_told_as_they_came():
    """No honest peer has such."""
    bench = closed()
    bench.events(marked(1, 1, 2), marked(2, 2, 1))
    assert bench.everything_taken() == ["1→2 2→1"]


def test_rubbish_is_passed_on_as_it_is():
    rubbish = Packet(S, 1, b"\3\0\0\0", b"\xc1\xc1\xc1")
    bench = closed()
    bench.events(rubbish, keyed(2, "x"))
    bench.links.passing(rubbish)
    assert bench.everything_taken() == ["1 2"]


def test_what_passes_through_the_node_purges_all_saturated_links():
    bench = closed()
    bench.saturate("c")
    bench.saturate("d")
    bench.events(keyed(1, "x"), keyed(2, "y"), to="b")
    bench.events(keyed(1, "x"), to="c")
    bench.links.passing(keyed(3, "x"))
    assert bench.ctx.tally.purged["link", "obsolete"] == 2
    assert bench.everything_taken("b") == ["1→3 2"]
    assert bench.everything_taken("c") == ["1→3"], "the marks go even if nothing else does"
    assert bench.everything_taken("d") == []


def test_an_event_that_is_asked_for_again_while_it_waits_goes_once():
    bench = closed()
    bench.events(packet(0), packet(1))
    bench.send(Send(("b",), Repair((packet(0), packet(2)))))
    assert bench.everything_taken() == ["0 1", "2"]


def test_an_event_that_is_asked_for_after_it_was_purged_is_a_mark_again():
    bench = closed()
    bench.events(keyed(0, "x"), keyed(1, "x"))
    bench.send(Send(("b",), Repair((keyed(0, "x"),))))
    assert bench.everything_taken() == ["0→1 1"]


def test_first_ways_and_repairs_do_not_mix():
    bench = closed()
    bench.send(by(packet(0)), Send(("b",), Repair((packet(1),))), Send(("b",), Data("c", packet(2), 3)))
    bench.links.on_taken("b", Taken(bench.epoch["b"], bench.links._links["b"].sent))
    messages = [message for _, message in sent(bench.send()) if isinstance(message, KINDS)]
    assert messages == [Data("a", packet(0)), Repair((packet(1),)), Data("c", packet(2), 3)]


def test_a_group_without_purging_is_never_purged():
    bench = closed(groups={"default": Group(purging=False)})
    bench.events(keyed(0, "x", "x"), keyed(2, "x"))
    bench.links.passing(keyed(3, "x"))
    assert bench.ctx.tally.purged["link", "obsolete"] == 0
    assert bench.everything_taken() == ["0 1 2"]


# Policies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "purged", "dropped", "goes"),
    [
        ("eager", 1, 0, ["1→2 2 3"]),
        ("lazy", 1, 0, ["1→2 2 3"]),
        ("drop-new", 0, 1, ["1 2"]),
        ("random", 0, 1, None),
    ],
)
def test_what_a_full_link_drops(policy, purged, dropped, goes):
    bench = closed(link_policy=policy, link_buffer_events_max=2)
    assert bench.events(keyed(1, "x"), keyed(2, "x"), keyed(3, "y")) == []
    assert (bench.ctx.tally.purged["link", "obsolete"], bench.links._links["b"].dropped) == (purged, dropped)
    went = bench.everything_taken()
    assert goes is None or went == goes
    assert policy != "random" or sorted(" ".join(went).split()) in (["1", "2"], ["1", "3"], ["2", "3"])


def test_lazily_what_is_obsolete_is_passed_on_while_there_is_room():
    bench = closed(link_policy="lazy")
    bench.events(keyed(1, "x"), keyed(2, "x"))
    bench.links.passing(keyed(3, "x"))
    assert bench.everything_taken() == ["1 2"]


def test_semantic_first_then_random_and_what_overflows_leaves_no_mark():
    bench = closed(link_buffer_events_max=3)
    bench.events(keyed(1, "x"), keyed(2, "y"), keyed(3, "x"), packet(4), packet(5))
    assert (bench.ctx.tally.purged["link", "obsolete"], bench.links._links["b"].dropped) == (1, 1)
    pieces = " ".join(bench.everything_taken()).split()
    assert len([piece for piece in pieces if "→" not in piece]) == 3
    assert [piece for piece in pieces if "→" in piece] == ["1→3"], "what was dropped is for repair to find"


def test_what_was_dropped_may_be_asked_for_and_comes():
    bench = closed(link_policy="drop-new", link_buffer_events_max=1)
    bench.events(packet(0), packet(1))
    assert bench.everything_taken() == ["0"]
    assert events_in(bench.send(Send(("b",), Repair((packet(1),))))) == ["1"]


def test_a_repair_throws_nothing_out_of_a_full_link():
    bench = closed(link_buffer_events_max=2)
    bench.events(packet(5), packet(6))
    assert events_in(bench.send(Send(("b",), Repair((packet(1, 4),))))) == []
    assert bench.everything_taken() == ["5 6"]
    assert bench.links._links["b"].dropped == 4


def test_nothing_is_purged_on_the_way_to_a_logger():
    bench = closed(loggers=["b"])
    bench.events(keyed(1, "x"), keyed(2, "x"))
    bench.links.passing(keyed(3, "x"))
    assert bench.everything_taken() == ["1 2"]


def test_a_commit_obsoletes_nothing_on_a_link():
    """What it does is done by its parts, and one of those may be lost behind it."""
    bench = closed()
    part = Content(key="x", relation=Relation(part=(0, 1)))
    commit = Content(relation=Relation(commit=Commit(1, ("x",)), near=b"\x02"))
    bench.events(keyed(1, "x"), pack(S, 2, [part, commit]))
    assert bench.everything_taken() == ["1 2 3"]


def test_marks_for_a_peer_that_takes_nothing_are_bounded(monkeypatch):
    monkeypatch.setattr(links_module, "MARKS_MAX", 10)
    bench = closed()
    for seq in range(100):
        bench.events(keyed(seq, "x"))
        bench.events(keyed(seq, "x", stream=T))
    link = bench.links._links["b"]
    assert link.marked == sum(map(len, link.marks.values())) <= 10


def test_scattered_marks_go_in_as_many_messages_as_it_takes(monkeypatch):
    monkeypatch.setattr(links_module, "MARKS_A_MESSAGE", 3)
    bench = closed()
    for seq in range(0, 14, 2):
        bench.events(marked(seq, seq, 99))
    sends = bench.send()
    assert sends == []
    bench.links.on_taken("b", Taken(bench.epoch["b"], bench.links._links["b"].sent))
    repairs = [effect.message for effect in bench.send() if isinstance(effect.message, Repair)]
    assert [len(repair.packets) for repair in repairs] == [3, 3, 1]


# In a node -----------------------------------------------------------------------------------------------------------


def test_a_node_answers_a_probe_when_it_has_come_to_it():
    me, _ = node(brokers="ab")
    assert sent(receive(me, "a", Sent(7, 1234))) == [(("a",), Taken(7, 1234))]


def test_a_node_whose_link_is_due_is_woken_for_it():
    me, _ = node(brokers="b", link_bandwidth_bps=8 * 100)
    own = S.replace("~a", "~me")
    contents = tuple(keyed(0, "x", "y").events())
    me.handle(Publish(own, contents[:1]), 0.0)
    assert sent(me.handle(Publish(own, contents[1:]), 0.0), Data) == []
    due = me.links.next_deadline()
    assert me.next_deadline() <= due < NEVER
    assert [message.packet.first for _, message in sent(me.handle(Wake(), due), Data)] == [1]


@pytest.mark.parametrize("restart", [False, True])
def test_a_new_connection_or_a_new_life_of_a_peer_begins_a_new_session(restart):
    me, _ = node(brokers="b", link_window_bytes=1, link_patience_s=0.0)
    own = S.replace("~a", "~me")
    for content in keyed(0, "x", "y").events():
        me.handle(Publish(own, (content,)), 0.0)
    assert me.links.saturated
    if restart:
        effects = receive(me, "b", Roster((), (Member("b", "member", 2),), False))
    else:
        effects = me.handle(Connected("b"), 0.0)
    assert [message.packet.first for _, message in sent(effects, Data)] == [1]


def test_what_comes_to_a_node_thins_what_it_has_waiting():
    me, _ = node(brokers="ab", link_window_bytes=1, link_patience_s=0.0, strategy="gossip", fanout=2, hops=2)
    receive(me, "a", Data("a", keyed(0, "x"), 1))
    receive(me, "a", Data("a", keyed(1, "x"), 1))
    assert me.links.waiting() == {"b": (1, len(keyed(1, "x").blob))}
    receive(me, "a", Data("a", keyed(2, "x")))
    assert me.links.waiting() == {"b": (0, 0)}
    ((_, repair),) = sent(me.handle(Connected("b"), 0.1), Repair)
    assert repair.packets[0].holes == (Hole(1, 1, 2),)


# Against the definition ----------------------------------------------------------------------------------------------


def test_every_event_goes_as_itself_or_as_a_mark_whatever_the_peer_takes_when():
    for seed in range(50):
        rng = random.Random(seed)
        bench = Bench(link_window_bytes=3 * SIZE)
        got, marks = set(), {}

        def note(effects, got=got, marks=marks):
            for told in events_in(effects):
                for piece in told.split():
                    span, mark, name = piece.partition("→")
                    first, _, last = span.partition("-")
                    if mark:
                        marks.update(dict.fromkeys(range(int(first), int(last or first) + 1), int(name)))
                    else:
                        assert int(piece) not in got, "each goes once"
                        got.add(int(piece))

        for seq in range(60):
            note(bench.send(by(keyed(seq, rng.choice(["x", "y", None])))))
            if rng.random() < 0.2:
                bench.links.on_taken("b", Taken(bench.epoch["b"], rng.randint(0, bench.links._links["b"].sent)))
        while bench.links.saturated:
            bench.links.on_taken("b", Taken(bench.epoch["b"], bench.links._links["b"].sent))
            note(bench.send())
        assert got | marks.keys() == set(range(60))
        assert not got & marks.keys()
        for name in marks.values():
            while name in marks:
                name = marks[name]
            assert name in got, "what a mark names has come, or was replaced in turn"


# Whole packets --------------------------------------------------------------------------------------------------------


def test_a_large_packet_of_which_nothing_can_be_obsolete_waits_as_it_is():
    bench = closed()
    large, larger = packet(0, WHOLE_EVENTS - 1), packet(0, 2 * WHOLE_EVENTS - 1)
    assert bench.events(large) == []
    assert bench.links.waiting() == {"b": (1, len(large.blob))}
    assert bench.events(larger) == []
    assert bench.links.waiting() == {"b": (2, len(larger.blob))}, "what is new of it"
    told = [" ".join(map(str, range(first, first + WHOLE_EVENTS))) for first in (0, WHOLE_EVENTS)]
    assert bench.everything_taken() + bench.everything_taken() == told
    assert not bench.links.saturated


def test_a_repair_of_what_was_purged_here_adds_nothing_to_the_mark_that_tells_so():
    bench = closed()
    assert bench.events(keyed(0, "x"), keyed(1, "x")) == []
    bench.send(Send(("b",), Repair((keyed(0, "x"),))))
    assert bench.links.waiting() == {"b": (1, len(keyed(1, "x").blob))}
    assert bench.everything_taken() == ["0→1 1"]


def test_marks_alone_go_after_what_they_name():
    bench = closed(link_window_bytes=100 * SIZE)
    bench.events(*(keyed(seq, "x") for seq in range(EVENTS_MAX + 10)))
    packets = [message.packet for _, message in sent(bench.send_taken(), Data)]
    assert [bool(each.blob) for each in packets] == [True, False]
    assert packets[0].last == EVENTS_MAX + 9


# Patience -------------------------------------------------------------------------------------------------------------


def test_nothing_is_purged_before_something_has_waited_for_long():
    bench = closed(link_patience_s=1.0)
    assert bench.events(keyed(0, "x"), keyed(1, "x")) == []
    assert len(bench.links._links["b"].buffer) == 2
    assert bench.everything_taken() == ["0 1"], "a link that was behind for a moment"
    bench.saturate()
    assert bench.events(keyed(2, "x"), keyed(3, "x")) == []
    bench.ctx.now += 1.0
    assert bench.events(keyed(4, "x")) == []
    assert bench.everything_taken() == ["2-3→4 4"]


def test_without_room_there_is_no_patience():
    bench = closed(link_patience_s=1.0, link_buffer_events_max=2)
    assert bench.events(keyed(0, "x"), keyed(1, "x"), keyed(2, "y")) == []
    assert bench.everything_taken() == ["0→1 1 2"]
