"""The runtime as an adapter: inputs from any thread, callbacks, counters, and both ways to stop."""

import threading
import time

import pytest

from gossamer.broker.poll import Poll
from gossamer.broker.runtime import Runtime
from gossamer.messages.errors import GossamerError, UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import anonymous_stream
from gossamer.protocol.inputs import Publish
from processes import BRISK, Config, until


def test_inputs_from_many_threads_are_all_taken_and_each_threads_in_order(mesh):
    p = mesh.member("p")
    streams = [anonymous_stream("default", "p-1", number) for number in range(8)]

    def publish(stream):
        for seq in range(200):
            p.runtime.submit(Publish(stream, (Content(body=b"%d" % seq),)))

    threads = [threading.Thread(target=publish, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: all(p.has(stream, 200) for stream in streams))
    assert p.runtime.counters.events_delivered == 1_600
    assert p.runtime.backlog == 0


def test_what_is_refused_is_told_and_counted(mesh):
    p = mesh.member("p")
    p.runtime.submit(Publish("default/never-opened", (Content(), Content())))
    until(lambda: p.refused)
    assert (p.refused[0].count, p.runtime.counters.events_refused) == (2, 2)


def test_an_idle_runtime_sleeps(mesh, monkeypatch):
    mesh.member("p", config={"round_interval_max_s": 4.0})
    turns = 0
    wait = Poll.wait

    def counted(poll, timeout_s):
        nonlocal turns
        turns += 1
        wait(poll, timeout_s)

    monkeypatch.setattr(Poll, "wait", counted)
    until(lambda: turns > 0)
    began, turns = time.monotonic(), 0
    until(lambda: time.monotonic() > began + 1.0)
    assert turns < 30


def test_a_member_that_stops_has_left_and_one_that_is_killed_has_not(mesh):
    a = mesh.member("a")
    b, c = mesh.member("b", a.address), mesh.member("c", a.address)
    until(lambda: a.knows("a", "b", "c"))
    b.runtime.stop()
    assert b.runtime.status == "outside"
    until(lambda: a.knows("a", "c"))
    c.runtime.kill()
    assert c.runtime.status == "member"
    assert a.knows("a", "c")


def test_one_that_finds_nobody_stops_at_once():
    runtime = Runtime(peers=("tcp://127.0.0.1:1",), config=Config(**BRISK)).start()
    until(lambda: runtime.status == "joining")
    began = time.monotonic()
    runtime.stop()
    assert time.monotonic() - began < 3
    never_started = Runtime()
    never_started.kill()


def test_a_bug_ends_the_loop_and_is_told():
    def stumble(_):
        raise RuntimeError("a bug")

    runtime = Runtime(on_deliver=stumble).start()
    until(lambda: runtime.status == "member")
    runtime.submit(Publish(anonymous_stream("default", "a-1", 0), (Content(),)))
    assert runtime.join(10)
    with pytest.raises(GossamerError, match="a bug"):
        runtime.stop()


def test_a_message_that_is_too_large_is_not_sent_and_not_the_end(mesh, monkeypatch):
    a = mesh.member("a")
    b = mesh.member("b", a.address)
    monkeypatch.setattr("gossamer.messages.frames.FRAME_BYTES_MAX", 300_000)
    a.runtime.submit(Publish(a.stream, (Content(body=bytes(400_000)),)))
    until(lambda: a.runtime.counters.frames_dropped)
    b.publish(3)
    until(lambda: a.has(b.stream, 3))


def test_bodies_of_megabytes_pass(mesh):
    a = mesh.member("a")
    b = mesh.member("b", a.address)
    contents = tuple(Content(body=bytes([number]) * 4 * 2**20) for number in (1, 2, 3))
    for content in contents:
        a.runtime.submit(Publish(a.stream, (content,)))
    until(lambda: len(b.delivered[a.stream]) == 3)
    assert b.delivered[a.stream] == [(seq, content.body) for seq, content in enumerate(contents)]


@pytest.mark.parametrize("name", ["a/b", "", "x" * 300])
def test_a_name_that_no_stream_can_bear_is_refused(name):
    with pytest.raises(UsageError):
        Runtime(name=name)


def test_a_node_without_a_name_is_called_by_its_host_and_port():
    runtime = Runtime()
    assert runtime.name.endswith("-" + runtime.address.rpartition(":")[2])
    runtime.kill()
