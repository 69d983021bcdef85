"""A table of where each key was last seen is the queue that a purging buffer would be."""

from itertools import islice

from hypothesis import example, given
from hypothesis import strategies as st

from gossamer.messages.event import Head
from gossamer.protocol import conflation
from gossamer.protocol.conflation import Conflation
from gossamer.protocol.purging import PurgingBuffer

STREAMS = ("default/~a-1.0", "default/~a-1.1")


class Run:
    """Events of one stream; an arrival is its stream, its seq and its key."""

    def __init__(self, stream: str, first: int, keys: list[str | None]) -> None:
        self.stream, self.first, self.keys = stream, first, keys
        self.slots = [None if key is None else (stream, key) for key in keys]
        self.seqs = range(first, first + len(keys))
        self.sizes = [len(key or "") + 1 for key in keys]
        self.size = sum(self.sizes)

    def arrival(self, place: int) -> tuple[str, int, str | None]:
        return self.stream, self.first + place, self.keys[place]

    def rest(self) -> None:
        pass


keys = st.sampled_from(["a", "bb", "ccc", "d", "e", "f"])
some = st.lists(keys, min_size=1, max_size=4)
puts = st.tuples(st.sampled_from(STREAMS), st.one_of(*[some] * 7, st.lists(st.one_of(keys, st.none()), min_size=1)))
steps = st.lists(st.one_of(*[puts] * 5, st.integers(0, 5)), max_size=40)


@example([(STREAMS[0], ["a"]), (STREAMS[0], ["bb"]), (STREAMS[0], ["a"]), 1], 12, 2**16 - 1, 1)
@given(steps, st.integers(1, 12), st.integers(0, 2**16 - 1), st.integers(1, 3))
def test_it_is_an_eager_queue(steps, events_max, chosen, runs_max):
    naive = PurgingBuffer(events_max, 10**6, semantic="eager", overflow="refuse")
    quick: Conflation[tuple[str, int, str | None]] = Conflation()
    seqs, came, told = dict.fromkeys(STREAMS, 0), 0, 0
    before, conflation.RUNS_MAX = conflation.RUNS_MAX, runs_max
    try:
        for number, step in enumerate(steps):
            if isinstance(step, int):
                taken = list(islice(quick.take(), step))
                assert [arrival for _, arrival, _ in taken] == [
                    (entry.stream, entry.seq, entry.head.key) for entry in naive.take(step)
                ]
                told += sum(count for _, _, count in taken)
            else:
                stream, every = step
                run = Run(stream, seqs[stream], every)
                seqs[stream] += len(every)
                places = [place for place in range(len(every)) if chosen >> (place + number) % 16 & 1]
                if not places:
                    continue
                slots = {run.slots[place] for place in places}
                fits = None not in slots and len(slots | {(each.stream, each.head.key) for each in naive}) <= events_max
                obsolete = quick.put(run, places, events_max)
                assert (obsolete is not None) == fits
                if fits:
                    omitted = []
                    for place in places:
                        key = every[place]
                        omitted += naive.append(stream, run.first + place, Head(key), run.sizes[place], None)
                    assert obsolete == len(omitted)
                    came += len(places)
            assert (len(quick), quick.bytes) == (len(naive), naive.bytes)
            if len(naive):
                oldest = next(iter(naive))
                assert quick.first() == (oldest.stream, oldest.seq, oldest.head.key)
            assert len(quick._runs) <= runs_max
        told += sum(count for _, _, count in quick.take())
        assert told == came
        assert not quick._runs
        assert not quick._kept
        assert not quick._came
        assert quick._runs_bytes == 0
    finally:
        conflation.RUNS_MAX = before
