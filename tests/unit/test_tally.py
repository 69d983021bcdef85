"""What is counted of repairs and purges."""

from gossamer.messages.wire import Data, Repair
from gossamer.protocol.delivery import Feed, Intake
from gossamer.protocol.tally import KEYS_MAX, Tally
from machines import S, keyed, node, packet, receive


def test_a_gap_is_closed_by_the_event_itself_by_gossip_or_by_a_logger():
    me, _ = node(brokers="ab", loggers="L", repair_first="gossip")
    receive(me, "a", Data("a", packet(0)))
    receive(me, "a", Data("a", packet(4, 5)))
    receive(me, "a", Data("a", packet(1)))
    me.on_round()
    receive(me, "b", Repair((packet(2),)))
    me.on_round()
    me.on_round()
    receive(me, "L", Repair((packet(0, 3),)))
    assert me.tally.repaired == {("late", 0): 1, ("gossip", 1): 1, ("logger", 3): 1}
    assert me.receiver.streams[S].gaps is None


def test_what_is_in_order_is_no_repair():
    me, _ = node()
    for seq in range(3):
        receive(me, "a", Data("a", packet(seq)))
    receive(me, "b", Repair((packet(0, 3),)))
    assert not me.tally.repaired


def test_the_memory_of_gaps_goes_with_them():
    me, _ = node()
    for seq in range(2, 2_000, 2):
        receive(me, "a", Data("a", packet(seq)))
        receive(me, "b", Repair((packet(seq - 3 if seq > 2 else 0, seq - 3 if seq > 2 else 0),)))
    gaps = me.receiver.streams[S].gaps
    assert gaps is not None
    assert len(gaps.opened) < 5


def test_purges_of_a_queue_are_counted_by_key():
    tally = Tally()
    intake, feed = Intake(), Feed(10, tally=tally)
    for arrival in intake.on_packet(keyed(0, "x", "y", "x", "x", None)):
        feed.offer(arrival, True)
    assert tally.purged == {("queue", "obsolete"): 2}
    assert tally.purged_keys == {("queue", "default", "x"): 2}


def test_keys_are_bounded():
    tally = Tally()
    for number in range(KEYS_MAX + 10):
        tally.purge("link", "obsolete", S, str(number))
    tally.purge("link", "obsolete", S, "0")
    assert (len(tally.purged_keys), tally.purged_keys["link", "default", "0"]) == (KEYS_MAX, 2)
    assert tally.purged["link", "obsolete"] == KEYS_MAX + 11
