"""The facade, with the plain node: what is lost stays lost."""

import math

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.lab.names import brief, short, stream_of
from gossamer.lab.plain import PlainNode
from gossamer.lab.topology import uniform
from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content
from gossamer.messages.ids import named_stream
from gossamer.messages.packet import pack
from gossamer.messages.wire import Busy, Data, Gone, Gossip, Position, Positions, Span


def mesh_of(brokers="abc", loggers="L", **options):
    return Mesh(brokers, loggers, node_factory=PlainNode, **options)


def test_a_quiet_mesh_settles_at_once():
    mesh = mesh_of()
    before_s = mesh.world.now_s
    assert mesh.settle()
    assert mesh.world.now_s == before_s


def test_everybody_gets_everything():
    mesh = mesh_of(topology=uniform(0.01))
    mesh.run(1.0)
    mesh.publish("a", 2, batch=2)
    assert not mesh.progress.settled()
    assert mesh.settle()
    assert mesh.world.now_s == pytest.approx(1.01)
    for name in "abcL":
        assert mesh.delivered(name) == ["a:0", "a:1", "a:2", "a:3"]
    mesh.run(0.1)
    assert mesh.acked("a") == 3
    assert mesh.stored("L") == ["a:0-3"]


def test_faults_and_healing():
    mesh = mesh_of()
    mesh.run(0.1)
    mesh.drop("a->b", "Data")
    mesh.publish("a", 2)
    mesh.isolate("c")
    mesh.publish("a")
    assert not mesh.settle(limit_s=1.0)
    assert mesh.lacking() == ["c lacks a:2"]
    assert mesh.skipped("b") == ["a:0 lost"]
    mesh.heal()
    mesh.partition("ab", "cL")
    mesh.publish("c")
    mesh.run(0.1)
    mesh.heal()
    mesh.publish("a")
    mesh.publish("c")
    assert mesh.settle()
    assert mesh.delivered("c") == ["a:0", "a:1", "c:0", "c:1", "a:3"]
    assert mesh.skipped("c") == ["a:2 lost"]
    mesh.lose(1.0)
    mesh.publish("a")
    assert not mesh.settle(limit_s=1.0)
    assert "L lacks a:4" in mesh.lacking()


def test_the_streams_of_another_life_have_another_name():
    mesh = mesh_of()
    mesh.run(0.1)
    mesh.publish("b")
    mesh.crash("b")
    assert mesh.status("b") == "down"
    mesh.restart("b")
    mesh.publish("b")
    assert mesh.settle()
    assert mesh.delivered("b") == ["b'2:0"]
    assert mesh.delivered("a") == ["b:0", "b'2:0"]


def test_what_died_with_its_publisher_is_not_waited_for():
    mesh = mesh_of()
    mesh.run(0.1)
    mesh.isolate("a")
    mesh.publish("a")
    mesh.heal()
    assert not mesh.progress.settled()
    mesh.crash("a")
    assert mesh.settle(limit_s=0.0)


def test_what_was_published_before_a_node_came_is_not_owed_to_it():
    mesh = mesh_of()
    mesh.run(0.1)
    mesh.publish("a")
    assert mesh.settle()
    mesh.run(0.1)
    mesh.add("d")
    mesh.run(0.1)
    assert mesh.settle(limit_s=0.0)
    mesh.publish("a")
    assert not mesh.settle(limit_s=0.0)
    assert mesh.settle()
    assert mesh.delivered("d") == ["a:1"]


def test_who_resumes_keeps_what_it_was_delivered():
    mesh = mesh_of()
    mesh.run(0.1)
    mesh.publish("a", 2)
    mesh.settle()
    mesh.restart("b", resume=True)
    assert mesh.delivered("b") == ["a:0", "a:1"]
    assert mesh.settle(limit_s=0.0)


def test_those_who_crash_may_find_anybody_again():
    mesh = mesh_of("ab", "")
    assert mesh.world.hosts["a"].peers == ("b",)


def test_a_way_is_written_with_an_arrow():
    with pytest.raises(UsageError, match="a way is written a->b"):
        mesh_of().drop("a-b")


def test_a_mesh_that_does_not_come_together_says_so():
    class Shy(PlainNode):
        def handle(self, input, now):
            return []

        def next_deadline(self):
            return math.inf

    with pytest.raises(AssertionError, match=r"not all are members: .*'a': 'outside'"):
        Mesh("ab", node_factory=Shy, join_limit_s=1.0)


def test_short_names():
    assert short(stream_of("a", 1)) == "a"
    assert short(stream_of("a-b", 2, 3)) == "a-b'2.3"
    assert short(named_stream("default", "trades")) == "trades"
    assert short(named_stream("games", "chess")) == "games/chess"


def test_messages_in_a_few_words():
    packet = pack(stream_of("a", 1), 4, [Content(), Content()])
    spans = (Span(stream_of("a", 1), ((0, 0), (2, 3))),)
    assert brief(Data("a", packet)) == "Data a:4-5"
    assert brief(Gossip(1, spans, 0, 0)) == "Gossip a:0 a:2-3"
    assert brief(Gone(spans, True)) == "Gone a:0 a:2-3 void"
    assert brief(Positions(1, 1, 0, 0, (Position(stream_of("b", 1), 7),))) == "Positions b:7"
    assert brief(Busy()) == "Busy"
