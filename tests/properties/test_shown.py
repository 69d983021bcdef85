"""What a subscription is told agrees with a memory that forgets nothing, and leaves nobody with what is obsolete."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.messages.ids import group_of
from gossamer.protocol.obsolescence import obsoletes
from gossamer.protocol.shown import Shown
from properties.test_obsolescence import histories


def replaces(newer, older):
    """Whether it says that the older one is no longer so: it obsoletes it, or it sets its key anew."""
    by = newer.head.relation
    outside = by is None or not (by.group or by.part or by.commit)
    same = older.id.stream == newer.id.stream and older.head.key is not None and older.head.key == newer.head.key
    grouped = older.head.relation is not None and older.head.relation.group
    return obsoletes(newer, older) or (outside and same and not grouped and older.id.seq < newer.id.seq)


class Naive:
    """Every event that is shown, in a list."""

    def __init__(self):
        self.shown = []
        self.parts = []
        """Not committed, each with the plain events that have come since."""

    def on_event(self, told, matches, deleted):
        relation = told.head.relation
        if relation is not None and relation.part is not None:
            self.parts.append([told, matches, deleted, []])
            return matches, set()
        if relation is not None and relation.commit is not None:
            return self.on_commit(told)
        for *_, since in (waits for waits in self.parts if waits[0].id.stream == told.id.stream):
            since.append((told, matches))
        gone = self.take(lambda old: replaces(told, old))
        if matches and not deleted:
            self.shown.append(told)
        return matches, set() if matches else gone

    def on_commit(self, commit):
        stream = commit.id.stream
        parts = [waits for waits in self.parts if waits[0].id.stream == stream]
        self.parts = [waits for waits in self.parts if waits[0].id.stream != stream]
        first, keys = commit.id.seq - commit.head.relation.commit.parts, commit.head.relation.commit.keys
        left = {}
        for told, matches, deleted, since in parts:
            key = told.head.key
            same = [known for by, known in since if key is not None and by.head.key == key and is_publisher(by)]
            obsolete = key in keys and told.id.seq < first
            gone = set() if key is None or same else self.take(partial(is_set, stream, key))
            if same:
                left[key] = {told.id} if matches and not same[-1] else left.get(key, set())
            elif matches and not obsolete:
                left[key] = set()
                if not deleted:
                    self.shown.append(told)
            else:
                left[key] = {told.id} if matches else gone or left.get(key, set())
        gone = self.take(lambda old: obsoletes(commit, old))
        return any(matches for _, matches, *_ in parts), gone.union(*left.values())

    def take(self, out):
        gone = {old.id for old in self.shown if out(old)}
        self.shown = [old for old in self.shown if old.id not in gone]
        return gone


def is_set(stream, key, told):
    return told.id.stream == stream and told.head.key == key and is_publisher(told)


def is_publisher(told):
    return told.head.relation is None or not told.head.relation.group


def feed(history, random, share):
    """All that a broker would feed: not what is obsolete by something before it, nor some of what is purged."""
    told = [told for told in history.told if not (random.random() < share and purgeable(history, told))]
    before = []
    for each in told:
        if not any(obsoletes(by, each) for by in before):
            before.append(each)
    return before


def purgeable(history, told):
    index = history.told.index(told)
    return any(obsoletes(by, told) for by in history.told[index + 1 :])


RANDOM = st.randoms(use_true_random=False)


@settings(max_examples=150)
@given(histories() | histories(reach=2), RANDOM, st.sampled_from([0, 0.3]), st.sampled_from([0.2, 0.5, 0.8]))
def test_verdicts_agree_with_full_memory(history, random, share, matching):
    shown, naive = Shown(), Naive()
    for told in feed(history, random, share):
        matches = random.random() < matching
        deleted = told.head.key is not None and random.random() < 0.2
        verdict = shown.on_event(told.id, told.head, matches, deleted)
        assert len({one.id for one in verdict.left}) == len(verdict.left)
        assert (verdict.deliver, {one.id for one in verdict.left}) == naive.on_event(told, matches, deleted)


@settings(max_examples=150)
@given(histories(), RANDOM, st.sampled_from([0.2, 0.5, 0.8]))
def test_nobody_is_left_with_what_is_obsolete(history, random, matching):
    """Seen from outside: what a subscriber has, after all it was delivered and told, is still so."""
    shown, view, waiting, fed = Shown(), {}, {}, feed(history, random, 0)
    for told in fed:
        relation = told.head.relation
        verdict = shown.on_event(told.id, told.head, random.random() < matching, False)
        if verdict.deliver:
            if relation is not None and relation.part is not None:
                waiting.setdefault(told.id.stream, []).append(told)
                continue
            new = [told]
            if relation is not None and relation.commit is not None:
                new = waiting.pop(told.id.stream)
            view = {id: old for id, old in view.items() if not replaces(told, old)}
            for each in new:
                view = {id: old for id, old in view.items() if not sets_again(each, old)}
                view[each.id] = each
        for left in verdict.left:
            assert left.id in view or verdict.deliver
            assert left.key is None or left.key == {told.id: told for told in fed}[left.id].head.key
            view.pop(left.id, None)
    for by in fed:
        for old in view.values():
            assert not obsoletes(by, old)
    slots = [slot(told) for told in view.values() if told.head.key is not None]
    assert len(slots) == len(set(slots))


def sets_again(newer, older):
    return slot(newer) == slot(older) and newer.head.key is not None and older.id != newer.id


def slot(told):
    return (told.id.stream if is_publisher(told) else group_of(told.id.stream)), told.head.key
