"""What a subscription is sent, step by step: notices in the queue, commits with what leaves, feeds that are behind."""

from msgspec.structs import asdict

from gossamer.messages.event import Event, Head
from gossamer.messages.ids import EventId
from gossamer.messages.packet import pack
from gossamer.protocol.annotator import Annotator, Part
from gossamer.protocol.delivery import Arrival, Dispatch, Feed, Intake
from gossamer.protocol.obsolescence import Told

A, B = "default/a", "default/b"


class Broker:
    """One subscription, `v > 0`, and two publishers whose events come at once."""

    def __init__(self, events_max=64, semantic="eager"):
        self.intake, self.feed = Intake(), Feed(events_max, semantic=semantic)
        self.annotators = {A: Annotator(A), B: Annotator(B)}

    def publish(self, v, stream=A, **said):
        first = self.annotators[stream].next
        self.deliver(stream, first, [self.annotators[stream].event({"v": v}, **said)])
        return EventId(stream, first)

    def transaction(self, stream=A, **values):
        first = self.annotators[stream].next
        parts = [Part({"v": v}, key=key) for key, v in values.items()]
        self.deliver(stream, first, self.annotators[stream].transaction(parts))

    def deliver(self, stream, first, contents):
        for arrival in self.intake.on_packet(pack(stream, first, contents)):
            self.feed.offer(arrival, matches(arrival.event))

    def sent(self, count=64):
        return [shown(item) for item in self.feed.take(count)]


def matches(event):
    return event.attributes.get("v", 0) > 0


def shown(item):
    words = []
    if item.event is not None:
        words.append(str(item.event.id.seq) if item.is_event else f"commit {item.event.id.seq}")
    words += [f"{left.key or ''}@{left.id.seq} left" for left in item.lefts]
    return ", ".join(words)


def test_a_notice_takes_the_place_of_what_left_and_gives_way_to_what_comes():
    broker = Broker()
    broker.publish(1, key="x")
    assert broker.sent() == ["0"]
    broker.publish(2, key="x")
    broker.publish(0, key="x")
    assert len(broker.feed) == 1
    broker.publish(3, key="x")
    assert broker.sent() == ["3"]
    broker.publish(0, key="x")
    assert broker.sent() == ["x@3 left"]
    assert (broker.feed.delivered, broker.feed.obsoleted, broker.feed.left) == (2, 1, 1)


def test_a_key_of_the_group_leaves_by_whoever_outranks_it():
    broker = Broker()
    broker.publish(1, key="x", scope="group", rank=3)
    broker.publish(0, B, key="x", scope="group", rank=5)
    broker.publish(1, key="x", scope="group", rank=4)
    assert broker.sent() == ["x@0 left"]
    assert broker.feed.obsoleted == 2, "one in the queue, and one that came late"


def test_what_is_named_before_it_comes_is_late_and_yet_replaces_what_was_there():
    broker = Broker()
    broker.publish(1, key="x")
    broker.publish(0, B, obsoletes=[EventId(A, 1)])
    broker.publish(2, key="x")
    assert broker.sent() == ["x@0 left"]


def test_a_named_event_leaves_at_its_own_place():
    broker = Broker()
    broker.publish(1, key="x")
    broker.publish(1)
    assert broker.sent() == ["0", "1"]
    broker.publish(0, B, obsoletes=[EventId(A, 0), EventId(A, 1)])
    assert len(broker.feed) == 2
    broker.publish(2, key="x")
    assert broker.sent() == ["@1 left", "2"]


def test_what_a_purged_event_named_is_told_by_the_notice_that_purged_it():
    broker = Broker()
    named = broker.publish(1, key="y")
    assert broker.sent() == ["0"]
    broker.publish(1, key="x", obsoletes=[named])
    broker.publish(0, key="x")
    assert broker.sent() == ["y@0 left", "x@1 left"]


def test_what_leaves_at_a_commit_is_told_with_it_though_none_of_its_parts_match():
    broker = Broker()
    broker.transaction(x=1, y=1)
    assert broker.sent() == ["0", "1", "commit 2"]
    broker.transaction(x=0, y=0)
    assert broker.sent() == ["commit 5, x@0 left, y@1 left"]


def test_a_commit_takes_along_the_notices_of_the_one_it_purges():
    broker = Broker()
    broker.transaction(x=1, y=1)
    broker.sent()
    broker.transaction(x=0, y=2)
    broker.transaction(y=3)
    assert broker.sent() == ["6", "commit 7, x@0 left"]


def test_a_commit_takes_along_a_notice_of_a_key_that_it_sets():
    broker = Broker()
    broker.publish(1, key="x")
    broker.sent()
    broker.publish(0, key="x")
    broker.transaction(x=0, y=1)
    assert broker.sent() == ["3", "commit 4, x@0 left"]


def test_a_commit_takes_along_what_a_tombstone_told():
    broker = Broker()
    broker.publish(1, key="x")
    broker.sent()
    broker.publish(1, key="x", deleted=True)
    broker.transaction(x=0, y=1)
    assert broker.sent() == ["3", "commit 4, x@1 left"]


def test_a_tombstone_and_a_part_that_does_not_match_in_one_transaction():
    broker = Broker()
    broker.publish(1, key="x")
    broker.sent()
    parts = [Part({"v": 1}, key="x", deleted=True), Part({"v": 0}, key="x")]
    broker.deliver(A, 1, broker.annotators[A].transaction(parts))
    assert broker.sent() == ["commit 3, x@1 left"]


def test_a_lazy_queue_purges_commits_later_and_loses_no_notice():
    for room, sent in (
        (64, ["4", "commit 5, x@0 left", "6", "commit 7", "8"]),
        (4, ["4", "6", "commit 7, x@0 left", "8"]),
        (3, ["4", "6", "commit 7, x@0 left", "8"]),
    ):
        broker = Broker(room, "lazy")
        broker.transaction(x=1, y=1)
        assert broker.sent() == ["0", "1", "commit 2"]
        broker.transaction(x=0, z=1)
        broker.transaction(y=2)
        broker.publish(1, key="w")
        assert broker.sent() + broker.sent() == sent


def test_a_named_event_that_was_purged_by_another_name_is_told_of_all_the_same():
    """1 names 0, and is purged for 3, which names neither, nor matches."""
    broker = Broker()
    first = broker.publish(1)
    assert broker.sent() == ["0"]
    broker.publish(1, key="x", obsoletes=[first])
    for seq in range(2, 300):
        broker.publish(0, key=f"k{seq}")
    broker.publish(0, key="x")
    assert broker.sent() == ["@0 left, x@1 left"]


def test_a_transaction_is_whole_before_it_is_matched():
    intake, annotator = Intake(), Annotator(A)
    part, other, commit = annotator.transaction([Part({"v": 1}, key="x"), Part({"v": 1}, key="y")])
    assert intake.on_packet(pack(A, 0, [part, other])) == []
    assert [arrival.id.seq for arrival in intake.on_packet(pack(A, 2, [commit]))] == [0, 1, 2]
    assert A not in intake.assembler, "nothing is left of it"


def test_a_commit_waits_for_what_parts_before_it_were_left_out_for():
    intake, annotator = Intake(), Annotator(A)
    contents = [*annotator.transaction([Part(key="x"), Part(key="y")]), *annotator.transaction([Part(key="x")])]
    whole = pack(A, 0, contents)
    thin = whole.thin([(0, EventId(A, 4))])
    assert intake.on_packet(thin.cut(0, 2)) == []
    assert [arrival.id.seq for arrival in intake.on_packet(thin.cut(3, 4))] == [1, 3, 4]


def test_a_transaction_that_lacks_a_part_is_lost_whole():
    intake, annotator = Intake(), Annotator(A)
    contents = annotator.transaction([Part(key="x"), Part(key="y")])
    whole = pack(A, 0, contents)
    assert intake.on_packet(whole.cut(0, 0)) == []
    assert intake.on_skip(A, 1, 1) == []
    assert intake.on_packet(whole.cut(2, 2)) == []
    assert (intake.lost, intake.discarded) == (1, 1)


def test_a_full_feed_is_behind_until_it_was_read_to():
    broker = Broker(1)
    broker.publish(1, key="x")
    broker.publish(1, key="y")
    assert (broker.feed.full, broker.feed.behind, len(broker.feed)) == (True, True, 2)
    assert broker.sent(1) == ["0"]
    assert (broker.feed.full, broker.feed.behind) == (False, True)
    assert broker.sent(1) == ["1"]


def arrival(seq, key, v, stream=A):
    event = Event(key=key, attributes={"v": v}, id=EventId(stream, seq))
    return Arrival(event, Head(key), 10)


def test_only_who_matches_or_was_shown_the_key_is_asked():
    dispatch = Dispatch()
    for name in "pq":
        dispatch.add(name, Feed(10))
    dispatch.on_batch([arrival(0, "x", 1), arrival(1, "y", 1)], [["p"], ["q"]])
    asked = []
    offer = dispatch.offer
    dispatch.offer = lambda name, *given: asked.append(name) or offer(name, *given)
    assert dispatch.on_batch([arrival(2, "x", 0), arrival(3, "x", 0), arrival(4, "z", 0)], [[], [], []]) == {}
    assert asked == ["p"]
    assert shown(dispatch.feeds["p"].take(9)[-1]) == "x@0 left"


def test_a_feed_that_falls_behind_is_told_with_how_much_it_took():
    dispatch = Dispatch()
    dispatch.add("p", Feed(1))
    arrivals = [arrival(0, "x", 1), arrival(1, "y", 1), arrival(2, "z", 1)]
    assert dispatch.on_batch(arrivals, [["p"]] * 3) == {"p": 2}
    assert len(dispatch.feeds["p"]) == 2


def test_a_feed_that_is_gone_is_passed_over():
    dispatch = Dispatch()
    dispatch.add("p", Feed(1))
    dispatch.on_batch([arrival(0, "x", 1)], [["p"]])
    dispatch.remove("p")
    assert dispatch.on_batch([arrival(1, "x", 0)], [[]]) == {}


def test_a_notice_says_what_it_is_for():
    broker = Broker()
    broker.publish(1, key="x")
    broker.publish(0, key="x")
    (item,) = broker.feed.take(1)
    assert item.by == Told(EventId(A, 1), Head("x"))


def test_events_are_as_they_were_said():
    broker = Broker()
    content = broker.annotators[A].event({"v": 1}, b"body", key="x")
    broker.deliver(A, 0, [content])
    (item,) = broker.feed.take(1)
    assert item.event == Event(**asdict(content), id=EventId(A, 0))
