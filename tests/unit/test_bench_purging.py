"""What the benchmark of purging measures is what it says."""

import pytest

from gossamer.bench.purging import READ, STREAM, Indexed, Scanned, Workload
from gossamer.protocol.purging import PurgingBuffer


def test_every_event_with_a_key_replaces_one():
    work = Workload(50, naming=False)
    buffer = PurgingBuffer(50, overflow="drop-new")
    assert not buffer.extend(STREAM, work.fill)
    assert {item.reason for item in buffer.extend(STREAM, work.run(500))} == {"obsoleted"}
    assert len(buffer) == 50


def test_nearly_every_event_with_a_bitmap_replaces_one():
    work = Workload(1_000, naming=True)
    buffer = PurgingBuffer(1_000, overflow="drop-new")
    buffer.extend(STREAM, work.fill)
    buffer.take(50)
    reasons = [item.reason for item in buffer.extend(STREAM, work.run(2_000))]
    assert len(reasons) > 1_900
    assert set(reasons) == {"obsoleted"}


@pytest.mark.parametrize("naming", [False, True])
def test_the_buffer_is_full_unless_it_is_read(naming):
    indexed = Indexed(100, naming)
    indexed.one_by_one(640)
    indexed.in_runs(640)
    assert len(indexed.buffer) == 100
    indexed.read(640)
    assert 0 < len(indexed.buffer) <= 100 - READ


def test_looking_through_leaves_as_many():
    scanned = Scanned(20)
    scanned.run(100)
    assert len(scanned.inside) == 20
