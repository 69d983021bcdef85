"""The spool: what was kept is found again, whatever the last write came to."""

import pytest

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import named_stream
from gossamer.sdk import spool
from gossamer.sdk.spool import Spool
from machines import packet

NAMED = named_stream("default", "feed")


def opened(path):
    return Spool(path, "default", "feed")


def kept(path):
    found = opened(path)
    found.close()
    return found.next, [(each.first, each.last) for each in found.unlogged]


def test_a_new_spool_has_never_had_the_publisher(tmp_path):
    assert kept(tmp_path / "s") == (None, [])


def test_what_is_not_logged_is_found_again_by_the_same_holder(tmp_path):
    first = opened(tmp_path / "s")
    first.begin(10)
    for seq in range(10, 14):
        first.keep(packet(seq, stream=NAMED))
    first.forget(11)
    first.close()
    assert kept(tmp_path / "s") == (14, [(12, 12), (13, 13)])
    second = opened(tmp_path / "s")
    second.close()
    assert second.holder == first.holder


def test_numbers_go_on_when_everything_is_logged(tmp_path):
    first = opened(tmp_path / "s")
    first.begin(0)
    first.keep(packet(0, 4, stream=NAMED))
    first.forget(4)
    first.close()
    assert kept(tmp_path / "s") == (5, [])


@pytest.mark.parametrize("torn", [1, 5, 13, 20])
def test_a_record_that_is_torn_is_cut_off_and_the_next_one_is_not(tmp_path, torn):
    path = tmp_path / "s"
    first = opened(path)
    first.begin(0)
    first.keep(packet(0, stream=NAMED))
    whole = path.stat().st_size
    first.keep(packet(1, stream=NAMED))
    first.close()
    with path.open("r+b") as file:
        file.truncate(whole + torn)
    second = opened(path)
    assert second.next == 1
    second.keep(packet(1, 2, stream=NAMED))
    second.close()
    assert kept(path) == (3, [(0, 0), (1, 2)])


def test_a_spool_is_written_anew_when_most_of_it_is_logged(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "COMPACT_BYTES", 4_096)
    path = tmp_path / "s"
    first = opened(path)
    first.begin(0)
    for seq in range(500):
        first.keep(packet(seq, stream=NAMED, body=b"x" * 100))
        first.forget(seq - 2)
        assert path.stat().st_size < 8_192
    first.close()
    assert kept(path) == (500, [(498, 498), (499, 499)])


def test_what_is_no_spool_is_left_alone(tmp_path):
    path = tmp_path / "s"
    path.write_text("dear diary")
    with pytest.raises(UsageError, match="is not a spool"):
        opened(path)
    assert path.read_text() == "dear diary"
    with pytest.raises(UsageError, match="cannot open"):
        opened(tmp_path / "nowhere" / "s")
