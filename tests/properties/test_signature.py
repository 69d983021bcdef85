"""Signatures: incremental equals a full re-hash, and a descent finds exactly the entries that differ (rpbcast §5.1)."""

import random

from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.wire import Beat, Beats, Digest, Gossip, Roster
from gossamer.protocol.effects import Send
from gossamer.protocol.signature import BUCKETS, DEPTH, FANOUT, SMALL, SignedTable
from machines import S, node, receive

KEYS = st.integers(0, 300).map("k{}".format)
TABLES = st.dictionaries(KEYS, st.integers(0, 3), max_size=60)


def table(entries=()):
    found = SignedTable(str.encode, lambda key, entry: f"{key}={entry}".encode())
    for key, entry in dict(entries).items():
        found.set(key, entry)
    return found


@given(st.lists(st.tuples(KEYS, st.none() | st.integers(0, 3)), max_size=100))
def test_incremental_equals_a_full_rehash(steps):
    fast, slow = table(), {}
    for key, entry in steps:
        if entry is None:
            fast.discard(key)
            slow.pop(key, None)
        else:
            fast.set(key, entry)
            slow[key] = entry
        fast.check()
    assert fast.root == table(slow).root
    assert {key: fast.get(key) for key in fast} == slow
    assert len(fast) == len(slow)


@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_of_updates_does_not_matter(entries, rng):
    shuffled = list(entries.items())
    rng.shuffle(shuffled)
    assert table(shuffled).root == table(entries).root


@given(TABLES, TABLES)
def test_different_tables_have_different_roots(one, other):
    assert (table(one).root == table(other).root) == (one == other)


def test_an_empty_table_that_was_not_always_empty_keeps_nothing():
    emptied = table({"k1": 1})
    emptied.discard("k1")
    emptied.discard("k1")
    assert emptied.root == table().root
    assert not any(any(row) for rows in emptied._sums for row in rows.values())
    assert not emptied._buckets


@given(TABLES, TABLES)
def test_a_descent_finds_the_buckets_of_exactly_the_entries_that_differ(one, other):
    mine, theirs = table(one), table(other)
    differing = (0,) if mine.root != theirs.root else ()
    for level in range(1, DEPTH + 1):
        differing = mine.differing(level, theirs.sums(level, differing))
    found = {key for key in {**one, **other} if mine_or(mine, theirs, key) in differing}
    really = {key for key in {**one, **other} if one.get(key) != other.get(key)}
    assert really <= found
    assert len(differing) <= len(really), "no bucket is looked into for nothing"
    assert len(mine.within(differing)) <= len(one)
    if differing:
        assert {entry for key, entry in one.items() if key in really} <= set(mine.within(differing))


def mine_or(mine, theirs, key):
    return (mine._entries.get(key) or theirs._entries[key])[1]


def test_the_tree_has_the_shape_that_is_told():
    assert BUCKETS == FANOUT**DEPTH
    assert [len(table().sums(level, range(FANOUT ** (level - 1)))) for level in (1, 2)] == [FANOUT, BUCKETS]


def test_an_index_that_is_none_is_ignored_and_one_said_twice_counts_once():
    assert table({"k1": 1}).differing(1, ((FANOUT, 1), (2**63 - 1, 1), (7, 5), (7, 5))) == (7,)


# Between two nodes ---------------------------------------------------------------------------------------------------


def talk(one, other, first):
    """Let two nodes exchange messages about signatures until they are silent; returns how many there were."""
    under_way, count = [(one, other, first)], 0
    while under_way:
        sender, receiver, message = under_way.pop(0)
        count += isinstance(message, Digest | Beats | Roster)
        names = {one: "one", other: "other"}
        sends = [effect for effect in receive(receiver, names[sender], message) if isinstance(effect, Send)]
        kinds = Digest | Beats | Roster
        under_way += [(receiver, sender, send.message) for send in sends if isinstance(send.message, kinds)]
    return count


@given(st.integers(0, 400), st.integers(0, 8), st.integers(0, 8))
def test_two_members_agree_after_one_exchange_of_a_few_messages(common, only_one, only_other):
    one, _ = node("one", brokers=["other"], seek_after_rounds=10**6)
    other, _ = node("other", brokers=["one"])
    beats = [Beat(f"default/~x-1.{number}", -1, False) for number in range(common + only_one + only_other)]
    random.Random(common).shuffle(beats)
    for beat in beats[: common + only_one]:
        one.heartbeats.on_beat(beat)
    for beat in beats[:common] + beats[common + only_one :]:
        other.heartbeats.on_beat(beat)
    gossip = Gossip(1, (), one.heartbeats.table.root, one.membership.table.root)
    count = talk(one, other, gossip)
    assert one.heartbeats.table.root == other.heartbeats.table.root
    assert len(one.heartbeats.table) == len(beats)
    if not only_one and not only_other:
        assert count == 0, "equal tables cost nothing"
    elif common + only_other <= SMALL:
        assert count <= 2, "a small table is sent whole, and answered with what it lacked"
    else:
        assert count <= 4, "groups, buckets, entries, and what they lacked"


def test_a_large_table_is_not_sent_whole_and_equal_sums_are_not_answered():
    one, _ = node("one", brokers=["other"])
    for number in range(SMALL + 1):
        one.heartbeats.on_beat(Beat(f"default/~x-1.{number}", -1))
    other_root = one.heartbeats.table.root + 1
    _, compare = receive(one, "other", Gossip(1, (), other_root, one.membership.table.root))
    assert compare.message == Digest("beats", 1, one.heartbeats.table.sums(1, (0,)))
    assert receive(one, "other", compare.message) == []


def test_entries_that_agree_are_not_sent():
    one, _ = node("one", brokers=["other"])
    other, _ = node("other", brokers=["one"])
    for number in range(500):
        one.heartbeats.on_beat(Beat(f"default/~x-1.{number}", -1))
        other.heartbeats.on_beat(Beat(f"default/~x-1.{number}", -1))
    other.heartbeats.on_beat(Beat(S, -1))
    sums = one.heartbeats.table.sums(1, (0,))
    (groups,) = receive(other, "one", Digest("beats", 1, sums))
    assert len(groups.message.sums) == FANOUT
    (entries,) = receive(one, "other", groups.message)
    assert entries.message.buckets
    assert len(entries.message.beats) <= 3
    (answer,) = receive(other, "one", entries.message)
    assert answer.message.beats == (Beat(S, -1),)
