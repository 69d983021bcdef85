"""The store on disk does what the simulator's storage does, through restarts and crashes before a commit."""

import shutil
import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gossamer.lab.storage import Storage
from gossamer.logger.keeper import Keeper
from gossamer.logger.store import Store
from gossamer.messages.event import Content
from gossamer.messages.ids import EventId
from gossamer.messages.packet import pack
from gossamer.messages.wire import Member, Position, Span
from gossamer.protocol.effects import Marked, Moved, Over, Promise, Void

SEQS = 16
STREAMS = ("default/a", "default/~b-1.0")


def whole(stream: str):
    """All there will ever be of a stream: with holes, and parts that are nothing but holes."""
    events = pack(stream, 0, [Content(body=b"%d" % seq) for seq in range(SEQS)])
    purged = [(seq, EventId(stream, 15)) for seq in (3, 4, 5, 9)]
    return events.thin([*purged, (12, EventId("default/other", 7))])


EVERYWHERE = [
    {stream: last for stream, last in zip(STREAMS, lasts, strict=True) if last is not None}
    for lasts in product((None, 0, 4, 9, SEQS), repeat=len(STREAMS))
]
"""Positions all over the streams, some without the one or the other: those that matter are seldom drawn."""
WHOLE = {stream: whole(stream) for stream in STREAMS}
streams = st.sampled_from(STREAMS)
ranges = st.tuples(st.integers(0, SEQS - 1), st.integers(0, 9)).map(lambda t: (t[0], min(t[0] + t[1], SEQS - 1)))
packets = st.builds(lambda stream, part: WHOLE[stream].cut(*part), streams, ranges)
voids = st.builds(lambda stream, part: Void(Span(stream, (part,))), streams, ranges)
promises = st.builds(Promise, st.just(STREAMS[0]), st.integers(1, 9), st.sampled_from("xy"), st.integers(0, 99))
members = st.builds(
    Member, st.sampled_from("xyz"), st.sampled_from(["member", "left"]), st.integers(1, 9), st.booleans(), st.just("")
)
marks = st.builds(
    Marked,
    st.sampled_from(["~default/x", "~default/y"]),
    st.one_of(
        st.none(), st.lists(st.builds(Position, st.sampled_from(["default/a", "default/c"]), st.integers(0, 99)))
    ),
)
records = st.one_of(packets, packets, packets, voids, promises, members, marks)


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def open(self):
        self.url = self.empty()
        self.model = Storage()
        self.over: set[str] = set()
        self.now_ns = 0
        self.cursor = 0
        self.followed: list[tuple[str, int]] = []
        self.collected: dict[str, int] = {}
        self._reopen()

    def empty(self):
        memory = Path("/dev/shm")  # what is tested is not whether the disk syncs
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        return f"sqlite:///{self.folder / 'log.db'}"

    def _reopen(self):
        if hasattr(self, "store"):
            self.close()
        self.store = Store(self.url, clock_ns=lambda: self.now_ns)
        self.keeper = Keeper(self.store.database, self.store.on_swept)

    def close(self):
        self.keeper.close()
        self.store.close()

    @rule(given=st.lists(records, max_size=6))
    def apply(self, given):
        given = [record for record in given if _stream(record) not in self.over]
        self.store.apply(given)
        self.store.commit()
        self.model.apply(given)

    @rule(given=st.lists(st.one_of(records, st.tuples(streams, st.integers(0, SEQS - 1))), max_size=8))
    def apply_and_collect_in_one_commit(self, given):
        for record in given:
            if isinstance(record, tuple):
                self._collect(*record)
            elif _stream(record) not in self.over:
                self.store.apply([record])
                self.model.apply([record])
        self.store.commit()

    @rule(stream=streams, last=st.integers(0, SEQS - 1))
    def collect(self, stream, last):
        if stream not in self.over or self.store._streams.get(stream):
            self._collect(stream, last)
            self.store.commit()

    def _collect(self, stream, last):
        self.store.collect(stream, last)
        self.model.collect(stream, last)
        self.collected[stream] = max(last, self.collected.get(stream, -1))

    @rule()
    def retire(self):
        stream = STREAMS[1]
        self.over.add(stream)
        self.store.apply([Over(stream)])
        self.store.commit()
        self.model.apply([Over(stream)])

    @rule(stream=streams, given=st.lists(records, max_size=3))
    def move(self, stream, given):
        """Others keep it now; it may come back in the same commit."""
        if stream not in self.over:
            given = [Moved(stream), *(record for record in given if _stream(record) not in self.over)]
            self.store.apply(given)
            self.store.commit()
            self.model.apply(given)
            self.followed = [each for each in self.followed if each[0] != stream]
            self.collected.pop(stream, None)

    @rule()
    def restart(self):
        self._reopen()

    @rule(given=st.lists(records, max_size=6), stream=streams)
    def crash_before_the_commit(self, given, stream):
        self.store.apply(given)
        self.store.collect(stream, SEQS // 2)
        self._reopen()

    @rule(stream=streams, parts=st.lists(ranges, max_size=3))
    def load(self, stream, parts):
        spans = [Span(stream, (part,)) for part in parts]
        assert self.store.load(spans) == self.model.load(spans)

    @rule()
    def keep(self):
        """Events are derived, and what was collected is swept, whenever it is."""
        self.keeper.work()
        self.keeper.sweep()
        self.store.commit()
        with self.store._engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT stream, seq, size FROM events ORDER BY id").fetchall()
            left = connection.exec_driver_sql("SELECT stream, first, last FROM packets").fetchall()
        log = self.store.page(0, 10**6, collected=True).rows
        assert [tuple(row) for row in rows] == [
            (packet.stream, seq, len(piece)) for _, _, packet in log for seq, piece in packet.encoded()
        ]
        collected = {stream: of.collected for stream, of in self.model.stored().streams.items()}
        assert all(last > collected.get(stream, -1) for stream, _, last in left)
        assert {stream for stream, _, _ in left} <= set(collected)

    @rule(now_ns=st.integers(0, 20))
    def the_clock_jumps(self, now_ns):
        self.now_ns = now_ns

    @rule(bytes_max=st.integers(0, 300))
    def follow(self, bytes_max):
        """Whoever reads along gets everything, once, however the log is cut into pages."""
        end = False
        while not end:
            page = self.store.page(self.cursor, bytes_max)
            self.followed += [(packet.stream, seq) for _, _, packet in page.rows for seq in _seqs(packet)]
            assert self.cursor <= page.last
            assert [row[0] for row in page.rows] == sorted({row[0] for row in page.rows})
            self.cursor, end = page.last, page.end
        assert len(self.followed) == len(set(self.followed))
        stored = self.model.load([Span(stream, ((0, SEQS - 1),)) for stream in STREAMS])
        assert set(self.followed) >= {(packet.stream, seq) for packet in stored for seq in _seqs(packet)}

    @rule(time_ns=st.integers(0, 20))
    def since_a_time(self, time_ns):
        cursor = self.store.number_at(time_ns)
        assert all(logged_ns < time_ns for number, logged_ns, _ in self._log() if number <= cursor)

    @rule(positions=st.dictionaries(streams, st.integers(-1, SEQS)))
    def since_positions(self, positions):
        """Nothing is left out. Where nothing beyond the positions was collected, nothing comes first that was had: else
        the log is read from where that was."""
        log = self._log()
        for asked in (positions, *EVERYWHERE):
            cursor = self.store.number_after(asked)
            behind = [packet for number, _, packet in log if number <= cursor]
            assert all(packet.last <= asked.get(packet.stream, -1) for packet in behind)
            if all(last <= asked.get(stream, -1) for stream, last in self.collected.items()):
                following = next((packet for number, _, packet in log if number > cursor), None)
                assert following is None or following.last > asked.get(following.stream, -1)

    def _log(self):
        return self.store.page(0, 10**6).rows

    @invariant()
    def finds_what_the_model_finds(self):
        if hasattr(self, "store"):
            ours, theirs = self.store.stored(), self.model.stored()
            assert ours.streams == theirs.streams
            assert set(ours.members) == set(theirs.members)
            assert ours.retired == theirs.retired
            assert ours.bookmarks == theirs.bookmarks
            everything = [Span(stream, ((0, SEQS - 1),)) for stream in STREAMS]
            assert self.store.load(everything) == self.model.load(everything)
            log = sorted((packet for _, _, packet in self._log()), key=lambda packet: (packet.stream, packet.first))
            assert tuple(log) == self.model.load(everything)

    def teardown(self):
        if hasattr(self, "store"):
            self.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def _seqs(packet):
    return range(packet.first, packet.last + 1)


def _stream(record):
    return record.span.stream if isinstance(record, Void) else getattr(record, "stream", None)


@pytest.mark.parametrize("positions", [{STREAMS[0]: 5}, {STREAMS[0]: 5, STREAMS[1]: 0}], ids=["unnamed", "named"])
@pytest.mark.parametrize("swept", [False, True])
def test_what_was_collected_of_one_stream_does_not_make_a_cursor_of_another_wrong(positions, swept):
    """As it was found: of the first packet in the log nothing is left, and the second was had."""
    machine = StoreMachine()
    try:
        machine.open()
        machine.apply([WHOLE[STREAMS[1]].cut(0, 3), WHOLE[STREAMS[0]].cut(0, 5), WHOLE[STREAMS[0]].cut(6, 7)])
        machine.collect(STREAMS[1], 3)
        if swept:
            machine.keep()
        machine.since_positions(positions)
        assert machine.store.number_after(positions) <= 2, "the third packet is yet to be read"
        assert machine.store.number_after({STREAMS[0]: 5, STREAMS[1]: 3}) == 2, "exact, where all is named"
    finally:
        machine.teardown()


def test_the_same_in_postgresql(postgres):
    class OnPostgres(StoreMachine):
        folder = "none"

        def empty(self):
            return postgres.url()

    run_state_machine_as_test(OnPostgres, settings=settings(max_examples=5, stateful_step_count=12))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=15)
