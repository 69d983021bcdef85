"""Real processes, sockets and disks: what the simulator promises holds outside it."""

from pathlib import Path

from gossamer.broker.faults import Faults, parse_faults
from gossamer.messages.wire import Span
from processes import Process, Processes, until

BAD = "loss=0.2,delay=20ms,duplicate=0.05,seed=7"


def up(mesh: Processes, *names: str, **options: str) -> list[Process]:
    """The broker b1 and others (L is a logger), started at once and formed from one address."""
    address = mesh.address()
    processes = [mesh.broker("b1", mesh=address, **options)]
    for name in names:
        start = mesh.logger if name == "L" else mesh.broker
        processes.append(start(name, address, **options))
    return [process.ready() for process in processes]


def bodies(store, stream: str, count: int) -> list[bytes]:
    packets = store.load([Span(stream, ((0, count - 1),))])
    return [event.body for packet in packets for event in packet.events()]


def test_a_mesh_forms_from_one_address_delivers_logs_and_ends_in_order(mesh):
    processes = up(mesh, "b2", "b3", "L")
    names = {process.name for process in processes}
    e = mesh.member("e", processes[2].address)  # knows only b3, and learns of the others by gossip
    until(lambda: e.knows("e", *names), "e to know everyone")
    e.publish(20, events=64)
    until(lambda: e.acked.get(e.stream) == e.published - 1, "everything to be logged")
    for name in ("b1", "b2", "b3"):
        until(lambda name=name: mesh.delivered(name, e.stream) == e.published, f"{name} to have everything")
    assert processes[1].terminate() == 0
    until(lambda: e.knows("e", "b1", "b3", "L"), "b2 to be gone for all")
    e.runtime.stop()
    assert [process.terminate() for process in (processes[0], processes[2], processes[3])] == [0, 0, 0]
    with mesh.store("L") as store:
        assert bodies(store, e.stream, e.published) == [b"%d" % seq for seq in range(e.published)]


def test_loss_delay_and_doubling_are_repaired(mesh):
    processes = up(mesh, "b2", "b3", "L", faults=BAD)
    p = mesh.member("p", processes[0].address, faults=BAD)
    q = mesh.member("q", processes[1].address, faults=BAD)
    until(lambda: p.knows("p", "q", "b1", "b2", "b3", "L"), "p to know everyone")
    p.publish(200, events=10)
    until(lambda: q.has(p.stream, p.published), "q to have everything")
    for name in ("b1", "b2", "b3"):
        until(lambda name=name: mesh.delivered(name, p.stream) == p.published, f"{name} to have everything")
    until(lambda: p.acked.get(p.stream) == p.published - 1, "everything to be logged")
    assert p.runtime.counters.frames_lost > 100
    assert not q.skipped


def test_a_logger_that_is_killed_loses_nothing_that_it_acknowledged(mesh):
    b1, logger = up(mesh, "L")
    p = mesh.member("p", b1.address)
    until(lambda: p.knows("p", "b1", "L"), "p to know everyone")
    p.publish(100, events=8)
    until(lambda: p.acked.get(p.stream, -1) > 50, "something to be logged")
    p.publish(400, events=8)
    logger.kill()
    acked = p.acked[p.stream]
    with mesh.store("L", copy="at-the-crash") as store:
        assert bodies(store, p.stream, acked + 1) == [b"%d" % seq for seq in range(acked + 1)]
    p.publish(50, events=8)
    again = mesh.logger("L", b1.address).ready()
    assert again.address != logger.address, "it is found at its new address"
    until(lambda: p.acked[p.stream] == p.published - 1, "everything to be logged after all")
    assert again.terminate() == 0
    with mesh.store("L") as store:
        assert bodies(store, p.stream, p.published) == [b"%d" % seq for seq in range(p.published)]


def test_what_was_acknowledged_outlives_the_node_that_published_it(mesh):
    b1, _ = up(mesh, "L")
    q = mesh.member("q", b1.address)
    told = mesh.folder / "acked"
    publisher = mesh.script(Path(__file__).parent / "publisher.py", b1.address, str(told)).ready()
    until(lambda: told.exists() and told.read_text().count("\n") > 20, "the publisher to be under way")
    publisher.kill()
    stream, last = told.read_text().splitlines()[-2].split()
    until(lambda: q.has(stream, int(last) + 1), "q to have what was acknowledged")
    until(lambda: mesh.delivered("b1", stream) > int(last), "b1 to have what was acknowledged")


def test_a_broker_that_is_killed_and_restarted_is_a_member_again(mesh):
    b1, b2, _ = up(mesh, "b2", "L")
    p = mesh.member("p", b1.address)
    until(lambda: p.knows("p", "b1", "b2", "L"), "p to know everyone")
    p.publish(100, events=8)
    until(lambda: mesh.delivered("b2", p.stream) > 100, "b2 to be under way")
    b2.kill()
    p.publish(100, events=8)
    (mesh.folder / "b2").unlink()
    mesh.broker("b2", b1.address).ready()
    q = mesh.member("q", b1.address)
    second = q.stream
    until(lambda: q.knows("p", "q", "b1", "b2", "L"), "q to know everyone")
    q.publish(10, events=8)
    until(lambda: mesh.delivered("b2", second) == q.published, "b2 to have what came after it")
    until(lambda: p.has(second, q.published), "p to have it")
    until(lambda: p.acked[p.stream] == p.published - 1, "nobody waits for the life that ended")


def test_a_partition_heals(mesh):
    b1, _ = up(mesh, "L")
    p = mesh.member("p", b1.address, faults="")
    q = mesh.member("q", b1.address)
    until(lambda: p.knows("p", "q", "b1", "L") and q.knows("p", "q", "b1", "L"), "all to know each other")
    p.publish(5)
    until(lambda: q.has(p.stream, 5) and p.acked.get(p.stream) == 4, "all to be well")
    p.runtime.faulty.faults = parse_faults("partition=p|q,b1,L")
    lost = p.runtime.counters.frames_lost
    p.publish(50)
    q.publish(50)
    until(lambda: p.runtime.counters.frames_lost > lost + 150, "both sides to talk to the wall")
    until(lambda: q.acked.get(q.stream) == 49, "the side with the logger to go on")
    assert len(q.delivered[p.stream]) == 5
    assert not p.delivered[q.stream]
    assert p.acked[p.stream] == 4
    p.runtime.faulty.faults = Faults()
    until(lambda: q.has(p.stream, 55) and p.has(q.stream, 50), "the sides to have what they missed")
    until(lambda: p.acked[p.stream] == 54, "the rest to be logged")
