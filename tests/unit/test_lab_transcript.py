"""A transcript replays to itself, and says where it is wrong."""

import pytest

from gossamer.lab.plain import PlainNode
from gossamer.lab.transcript import replay, seconds
from gossamer.messages.errors import UsageError

SCENARIO = """\
# Plain multicast repairs nothing: b skips what it lost.
mesh brokers=ab loggers=L latency=10ms round_interval_s=60 round_interval_max_s=60
run 100ms
drop a->b Data
hide times

publish a 2
    a delivers a:0
    a delivers a:1
run 100ms
    L delivers a:0
    L delivers a:1
    b skips a:0: lost
    b delivers a:1
    a has a logged up to 0
    a has a logged up to 1
show times
settle
    settled
crash b
    0.200 b crashes
"""


def test_a_right_transcript_replays_to_itself():
    assert replay(SCENARIO, PlainNode).splitlines() == SCENARIO.splitlines()


def test_a_wrong_trace_is_corrected_and_the_rest_left_alone():
    wrong = SCENARIO.replace("    b skips a:0: lost\n", "").replace("a:1\n", "a:9\n")
    assert replay(wrong, PlainNode) == replay(SCENARIO, PlainNode)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("dance", "no command 'dance'"),
        ("publish a 1", "a transcript begins with `mesh`"),
        ("mesh colour=blue", "no option colour"),
        ("mesh\nshow everything", "nothing called 'everything' to show"),
        ("mesh\nrun 5", "a time is written 250ms or 2s"),
    ],
)
def test_a_mistake_is_told_with_its_line(line, complaint):
    with pytest.raises(UsageError, match=complaint) as caught:
        replay(line, PlainNode)
    assert caught.value.__notes__ == [f"line {len(line.splitlines())} of the transcript: {line.splitlines()[-1]}"]


def test_times_have_units():
    assert (seconds("250ms"), seconds("2s")) == (0.25, 2.0)
