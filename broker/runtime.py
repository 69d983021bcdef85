"""The loop that makes a sans-IO node real: poll, drain, `handle`, perform the effects, re-arm.

It is the simulator's loop (lab/world.py) with a clock, sockets and a disk, and nothing of the protocol is here. One
thread owns the node and its sockets, so neither needs a lock; whoever else wants something of the node hands it an
input with `submit`, and hears of it by the callbacks, which run in that thread and must not block. Disks block, so a
store has a thread of its own and answers through `submit` as well (docs/decisions/runtime-thread.md).
"""

import logging
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar, get_args

from gossamer.broker.addresses import check_peer
from gossamer.broker.counters import Counters, Histogram
from gossamer.broker.faults import Faults, FaultyMesh, Links
from gossamer.broker.journal import Journal
from gossamer.broker.link import Limits
from gossamer.broker.mesh import Mesh
from gossamer.broker.picture import Lost, Picture
from gossamer.broker.poll import READ, Poll
from gossamer.broker.telemetry import CLOCK, Telemetry
from gossamer.messages.codec import encode
from gossamer.messages.errors import GossamerError, PeerError, StoreUnusable, Timeout, UsageError
from gossamer.messages.event import Event
from gossamer.messages.ids import DEFAULT_GROUP, SYSTEM_GROUP, NodeId, StreamId, anonymous_stream
from gossamer.messages.packet import Packet
from gossamer.messages.session import Interest
from gossamer.messages.wire import Member, Message, Read, Repair, Span
from gossamer.protocol.config import Config
from gossamer.protocol.durable import is_durable
from gossamer.protocol.effects import (
    Acked,
    Attached,
    Became,
    Collect,
    Compact,
    Deliver,
    Detached,
    Effect,
    Load,
    Numbers,
    Paged,
    Persist,
    Ready,
    Record,
    Refused,
    Scan,
    Send,
    Skip,
    Status,
    Stored,
)
from gossamer.protocol.inputs import Disconnect, Expel, Input, Leave, Persisted, Received, Start, Wake
from gossamer.protocol.node import Node
from gossamer.protocol.ordered import Ordered, order

BURST = 256
"""Submitted inputs taken at a time."""
STOP_S = 5.0
FLUSH_S = 0.5
"""How long the last words may take to be taken by the others, some of which may be gone themselves."""
ASK_S = 2.0
EXPEL_S = 10.0
"""A member that no link shows to be lost is expelled only if it was not heard for so long."""
WAITS_S = 2.0
"""So often a logger that is to leave, or that has lost packets, looks what it waits for."""
PEERS_S = 1.0
"""A member that none of its peers has answered for so long says so."""
OVERDUE_S = 5.0
"""An event that the loggers have not acknowledged for this long puts its broker in trouble."""
MEASURE_S = 0.01
"""Latencies are measured of one event in so long."""
OUT = ("outside", "disconnected", "joining")

KINDS = {kind: kind.__name__.lower() for kind in get_args(Message)}
TELEMETRY = f"{SYSTEM_GROUP}/"

Answer = TypeVar("Answer")

_WAKE = Wake()
_log = logging.getLogger("gossamer.runtime")


class Store(Protocol):
    """Stable storage, as a logger needs it; lab/storage.py tells its duties, logger/store.py is the real one."""

    @property
    def node(self) -> str | None: ...
    @property
    def url(self) -> str:
        """Where others may read it; without a password."""

    def stored(self) -> Stored: ...
    def start(self, answer: Callable[[Input], None], node: str) -> None: ...
    def persist(self, token: int, records: tuple[Record, ...]) -> None: ...
    def load(self, token: int, spans: tuple[Span, ...]) -> None: ...
    def scan(self, token: int, read: Read, lacks: tuple[Span, ...]) -> None: ...
    def collect(self, stream: StreamId, last: int) -> None: ...
    def compact(self, safe: Mapping[StreamId, int]) -> None: ...
    @property
    def has_lost(self) -> bool:
        """Whether it lacks packets that it held, and nobody has accepted or repaired that."""

    def on_repaired(self) -> None:
        """Hear that the other loggers have confirmed that it holds all that they hold."""

    @property
    def doubts_clock(self) -> bool:
        """Whether the wall clock has jumped, and no other machine's clock has confirmed it."""

    def on_clock(self, node: NodeId, ahead_s: float, own_machine: bool) -> None:
        """Hear how far this clock is ahead of another member's."""

    def troubles(self) -> list[str]:
        """What is wrong with the disk, while something is."""

    def warnings(self) -> list[str]:
        """Warnings about a store that works."""

    def figures(self) -> Mapping[str, int]:
        """What it has done, and how far it is, for telemetry."""

    def close(self) -> None: ...


class Clients(Protocol):
    """What a broker does for clients, in the node's own thread; broker/sessions.py is it."""

    address: str
    journal: Journal
    order: Ordered | None
    interests: tuple[Interest, ...]
    is_lost: Callable[[NodeId], bool]
    untaken_s: Callable[[NodeId], float]
    last_sign: Callable[[], float | None]
    is_cut_off: bool

    def start(self, node: Node, name: str, incarnation: int, poll: Poll) -> None: ...
    def receive(self, now: float) -> Iterable[Input]: ...
    def flush(self, now: float) -> Iterable[Input]: ...
    def next_deadline(self) -> float: ...
    def on_deliver(self, packet: Packet) -> None: ...
    def on_skip(self, skip: Skip) -> None: ...
    def on_acked(self, acked: Acked) -> None: ...
    def on_refused(self, refused: Refused) -> None: ...
    def on_ready(self, ready: Ready) -> None: ...
    def on_numbers(self, numbers: Numbers) -> None: ...
    def on_attached(self, attached: Attached) -> None: ...
    def on_detached(self, detached: Detached) -> None: ...
    def figures(self) -> dict[str, int]: ...
    def consumers(self) -> Iterable[dict[str, Any]]: ...
    def waits(self) -> Iterable[dict[str, Any]]: ...
    def name_obsolete(self) -> None: ...
    def on_page(self, paged: Paged) -> None: ...
    def leave(self) -> None: ...
    def close(self, linger_s: float = 0.0) -> None: ...


class Runtime:
    """A member of the mesh in a thread of this process."""

    def __init__(
        self,
        bind: str = "tcp://127.0.0.1:0",
        *,
        name: str | None = None,
        advertise: str | None = None,
        peers: tuple[str, ...] = (),
        config: Config | None = None,
        store: Store | None = None,
        clients: Clients | None = None,
        faults: Faults | None = None,
        limits: Limits | None = None,
        resume: bool = False,
        telemetry_interval_s: float = 0.0,
        on_deliver: Callable[[Packet], None] | None = None,
        on_skip: Callable[[Skip], None] | None = None,
        on_acked: Callable[[Acked], None] | None = None,
        on_refused: Callable[[Refused], None] | None = None,
        on_became: Callable[[Status], None] | None = None,
    ) -> None:
        """It listens at once, and joins on `start`. `peers` are addresses, one is enough; who has none begins a mesh.
        With a `store` it is a logger, and has the name that it had on that store before; with `clients` it serves
        them. It tells of itself in `$sys` every `telemetry_interval_s`, or (0) not at all."""
        incarnation = time.time_ns() // 10**6
        peers = tuple(map(check_peer, peers))
        if name is not None:
            anonymous_stream(DEFAULT_GROUP, name, 0)  # it has to be fit for the ids of streams
        if store is not None and store.node is not None:
            if name not in (None, store.node):
                raise UsageError(f"the store belongs to the logger {store.node}, not to {name}")
            name = store.node
        mesh = Mesh(bind, advertise=advertise, name=name, incarnation=incarnation, limits=limits)
        self.name = mesh.own.node
        self.address = mesh.own.address
        self.faulty = FaultyMesh(mesh, faults, time.monotonic()) if faults is not None else None
        self._links: Links = self.faulty or mesh
        self.counters: Counters = mesh.counters
        self.store = store
        self.clients = clients
        """Who serves clients here, if anybody does."""
        self._incarnation = incarnation
        self.node = Node(
            self.name,
            config or Config(),
            random.Random(f"{self.name}/{incarnation}"),
            peers=tuple(peer for peer in peers if peer != self.address),
            logger=store is not None,
            incarnation=incarnation,
            stored=store.stored() if store is not None else None,
            resume=resume,
            address=self.address,
        )
        self.order = order(self.node, self.name, config or Config(), incarnation, store is not None)
        """What orders the events of its groups, if any has another order than each publisher's."""
        self._machine = self.order or self.node
        self.status: Status = "outside"
        self.members: tuple[Member, ...] = ()
        """All that are known, this node among them."""
        self.failure: BaseException | None = None
        """What ended the loop, if it was not told to."""
        self.http: str | None = None
        """Where it can be looked at, if somebody serves that (broker/http.py)."""
        self.telemetry = Telemetry(self, incarnation, telemetry_interval_s)
        self.picture = Picture()
        """The mesh, as its members tell of it."""
        self.latencies = {"delivered": Histogram()} | ({} if store is None else {"logged": Histogram()})
        """From publishing to here, and to this disk, of some of the events."""
        self.busy_s = 0.0
        """How long the loop has not been waiting."""
        self._woke_at = time.monotonic()
        self._measure_at = self._measure_log_at = 0.0
        self._measured: tuple[int, int] = (-1, 0)
        self._questions: deque[Callable[[], None]] = deque()
        self._on_deliver, self._on_skip, self._on_acked = on_deliver, on_skip, on_acked
        self._on_refused, self._on_became = on_refused, on_became
        self._members_root = 0
        self._recorded: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._submitted: deque[Input] = deque()
        self._wakeup, self._waker = socket.socketpair()
        self._wakeup.setblocking(False)
        self._waker.setblocking(False)
        self._woken = False
        self._poll = self._links.poll
        self._poll.register(self._wakeup, READ, None)
        self._stop_at = float("inf")
        self._leaving = False
        self._peers = peers
        self._peers_due = float("inf")
        self._waits_for = ""
        self._waits_due = 0.0
        self._repair_due = 0.0 if store is not None else float("inf")
        self._ended = threading.Event()  # a signal that interrupts a thread's own join makes it count as ended
        self._thread = threading.Thread(target=self._run, name=f"gossamer {self.name}", daemon=True)
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Deliver: self._deliver,
            Skip: self._skip,
            Acked: self._acked,
            Refused: self._refused,
            Ready: self._ready,
            Numbers: self._numbers,
            Attached: self._attached,
            Detached: self._detached,
            Became: self._became,
            Persist: self._persist,
            Load: self._load,
            Scan: self._scan,
            Paged: self._paged,
            Collect: self._collect,
            Compact: self._compact,
        }

    # From any thread ------------------------------------------------------------------------------------------------

    def start(self) -> "Runtime":
        self._thread.start()
        return self

    def submit(self, given: Input) -> None:
        """Hand the node an input; it is taken in the order given."""
        self._submitted.append(given)
        self._wake()

    def ask(self, question: Callable[[], Answer], timeout_s: float = ASK_S) -> Answer:
        """Have something looked at in the node's own thread; `Timeout` if that does not get to it."""
        future: Future[Answer] = Future()

        def answer() -> None:
            try:
                future.set_result(question())
            except Exception as error:
                future.set_exception(error)

        if self._ended.is_set():
            raise GossamerError(f"{self.name} has ended")
        self._questions.append(answer)
        self._wake()
        try:
            return future.result(timeout_s)
        except TimeoutError:
            raise Timeout(f"{self.name} does not answer within {timeout_s:g} s") from None

    @property
    def role(self) -> str:
        return "logger" if self.store is not None else "broker" if self.clients is not None else "member"

    def trouble(self) -> list[str]:
        """What is wrong with this member, if anything is."""
        found = []
        if self.failure is not None:
            found.append(f"failed: {self.failure!r}")
        elif self.status != "member":
            found.append(f"not a member of the mesh, but {self.status}")
        if self.clients is not None and self.clients.is_cut_off:
            found.append("cut off: no other member answers")
        if self.store is not None:
            found += [f"disk: {reason}" for reason in self.store.troubles()]
        streams, silent = self.node.sender.overdue(time.monotonic() - OVERDUE_S)
        if self.node.sender.bytes >= self.node._ctx.config.send_buffer_bytes_max:
            found.append("publishers wait: the loggers do not keep up")
        if streams and self.store is None:
            found.append(self._overdue(streams, silent))
        if (behind := self._behind()) and not self._has_other_logger():
            found.append(f"{behind}, and no other logger is connected")
        if self.order is not None and self.status == "member":
            found += self.order.trouble()
        return found

    def warnings(self) -> list[str]:
        """Warnings about a member that does its work."""
        found = [] if self.store is None else [f"disk: {reason}" for reason in self.store.warnings()]
        if (behind := self._behind()) and self._has_other_logger():
            found.append(f"{behind}, and asks other members for them")
        return found

    def _overdue(self, streams: int, silent: tuple[NodeId, ...]) -> str:
        """The loggers that do not acknowledge, each with its trouble as far as it is known here."""
        lost = self.lost()
        reasons = [lost[node].reason if node in lost else self.picture.trouble_of(node) for node in silent]
        named = [f"{node} ({reason})" if reason else node for node, reason in zip(silent, reasons, strict=True)]
        oldest_s = self.node.sender.oldest_s(time.monotonic())
        of = f"the oldest of {streams} stream{'s' * (streams != 1)} for {oldest_s:.0f} s"
        return f"publishers wait, {of}: not acknowledged by {', '.join(named) or 'enough loggers'}"

    def _behind(self) -> str:
        lacking = self.node.lacking()
        if not lacking:
            return ""
        events, streams = sum(lacking.values()), len(lacking)
        return f"behind: lacks {events} event{'s' * (events != 1)} of {streams} stream{'s' * (streams != 1)}"

    def _has_other_logger(self) -> bool:
        """Whether another logger is connected, or this is the only one there is."""
        loggers, lost = self.node.membership.loggers, self.lost()
        active = self.node.membership.active
        return not loggers or any(node in active and node not in lost for node in loggers)

    def expel(self, node: NodeId) -> None:
        """Say for its operator that a member will never return; `UsageError` if it is unknown, or not lost."""

        def look() -> None:
            record = self.node.membership.table.get(node)
            if record is None or record.status == "left" or is_durable(node):
                raise UsageError(f"{node} is not a member")
            if node == self.name:
                raise UsageError(f"{node} is the member that was asked: stop it, and it leaves by itself")
            shown = {member["node"]: member for member in self.mesh()["members"]}
            heard_s = time.monotonic() - self.node.heard_at(node)
            absent = shown[node]["status"] != "member" or "age_s" not in shown[node]
            if node not in self.lost() and (heard_s < EXPEL_S or not absent):
                raise UsageError(
                    f"{node} was heard {heard_s:.1f} s ago: stop it, and it leaves by itself; "
                    "expel is for a member that `gossamer status` calls gone or silent"
                )
            self._feed(Expel(node))

        self.ask(look)

    def lost(self) -> dict[NodeId, Lost]:
        """The members that this one has lost touch with, by the evidence of its links; in the node's own thread."""
        now, found = time.monotonic(), {}
        for member in self.members:
            if member.status == "member" and member.node != self.name:
                heard_at = self.node.heard_at(member.node)
                if kind := self._links.lost(member.node, heard_at, now):
                    found[member.node] = Lost(kind, now - heard_at, member.address)
        return found

    def _is_lost(self, node: NodeId) -> bool:
        """Whether the link to a member shows that it is lost; in the node's own thread."""
        return self._links.lost(node, self.node.heard_at(node), time.monotonic()) is not None

    def _last_sign(self) -> float | None:
        """When any other member last gave a sign of life; None if there is none. In the node's own thread."""
        others = self.node.membership.active
        signs = (max(self.node.heard_at(node), self._links.answered_at(node)) for node in others)
        return max(signs, default=None)

    def mesh(self) -> dict[str, Any]:
        """All members and consumers as this member sees them; in the node's own thread."""
        return self.picture.as_dict(time.time_ns(), self.members, self.lost())

    def links(self) -> list[tuple[str, int, int]]:
        """To whom there is a link, what waits for room on it, and what is under way."""
        return self._links.links()

    @property
    def backlog(self) -> int:
        """Inputs that wait to be taken."""
        return len(self._submitted)

    @property
    def queued_bytes(self) -> int:
        """What waits for room on the links: a publisher that may wait should, while this is large."""
        return self._links.queued_bytes

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Leave the mesh in order, within a time; a logger only disconnects, since what it stores is to come back."""
        self._questions.append(self._say_farewell)
        self.submit(Leave() if self.store is None else Disconnect())
        self._leaving = True
        self._end(time.monotonic() + timeout_s)
        if self.failure is not None:
            raise GossamerError(f"{self.name} failed: {self.failure!r}") from self.failure

    def leave(self) -> None:
        """Leave the mesh for good, a logger too: when others keep all that it kept, however long that takes."""
        self.submit(Leave())
        self._leaving = True

    def kill(self) -> None:
        """Stop at once, without a word to anybody: what a crash looks like to the others."""
        self._end(0.0)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the loop; whether it has ended."""
        return self._ended.wait(timeout_s)

    def __enter__(self) -> "Runtime":
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with suppress(OSError):  # full: it will wake; closed: there is nobody to wake
                self._waker.send(b"\0")

    def _end(self, at: float) -> None:
        self._stop_at = at
        self._wake()
        if self._thread.ident is None:
            self._close(0.0)
        elif self._thread is not threading.current_thread():
            self._ended.wait()

    # The loop -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self.store is not None:
                self.store.start(self._on_stored, self.name)
            if self.clients is not None:
                self.clients.journal = self.telemetry.journal
                self.clients.order = self.order
                self.clients.is_lost = self._is_lost
                self.clients.last_sign = self._last_sign
                self.clients.untaken_s = lambda node: self._links.untaken_s(node, time.monotonic())
                self.clients.start(self.node, self.name, self._incarnation, self._poll)
            self._feed(Start())
            self.telemetry.start(time.monotonic())
            self._peers_due = time.monotonic() + PEERS_S
            while not self._over():
                self._turn()
        except StoreUnusable as error:
            self.failure = error  # one line, told by the caller
        except BaseException as error:
            self.failure = error
            _log.exception("%s stopped working", self.name)
        finally:
            self._close(0.0 if self._stop_at == 0.0 else None)
            self._ended.set()

    def _turn(self) -> None:
        now = time.monotonic()
        self.busy_s += now - self._woke_at
        self._poll.wait(0.0 if self._submitted else self._deadline() - now)
        self._woke_at = time.monotonic()
        if self._woken or self._submitted or self._questions:
            self._take_submitted()
        if self._poll.readable:
            for given in self._links.receive(self._woke_at):
                self._feed(given)
        if (clients := self.clients) is not None:
            if self._leaving:
                clients.leave()
            for given in clients.receive(self._woke_at):
                self._feed(given)
            for given in clients.flush(time.monotonic()):
                self._feed(given)
        now = time.monotonic()
        self._links.on_time(now)
        if self._machine.next_deadline() <= now:
            self._feed(_WAKE)
        if self.node.membership.table.root != self._members_root:
            self._learn_addresses(now)
        if self.telemetry.due <= now:
            for given in self.telemetry.on_due(now):
                self._feed(given)
        if now >= self._peers_due:
            self._peers_due = float("inf")
            if not self.node.membership.introduced:
                told = {"event": "waiting", "peers": list(self._peers)}
                where = ", ".join(self._peers)
                _log.warning("%s waits: no member answers at %s", self.name, where, extra={"fields": told})
        if self.store is not None and now >= self._repair_due:
            self._repair_due = now + WAITS_S if self.store.has_lost else float("inf")
            if self.store.has_lost and self.node.holds_all:
                self.store.on_repaired()
        if self._leaving and self.store is not None and now >= self._waits_due:
            self._waits_due = now + WAITS_S
            self._tell_what_it_waits_for()

    def _tell_what_it_waits_for(self) -> None:
        if (waits_for := self.node.waits_for) != self._waits_for:
            self._waits_for = waits_for
            if waits_for:
                told = {"event": "leaving", "waits_for": waits_for}
                _log.warning("%s is to leave, and waits for %s", self.name, waits_for, extra={"fields": told})

    def _deadline(self) -> float:
        deadline = min(
            self._machine.next_deadline(),
            self._links.next_deadline(),
            self._stop_at,
            self.telemetry.due,
            self._peers_due,
            self._repair_due,
        )
        if self.clients is not None:
            deadline = min(deadline, self.clients.next_deadline())
        return min(deadline, time.monotonic() + 60.0)

    def _take_submitted(self) -> None:
        if self._woken:
            with suppress(BlockingIOError):  # then it is on its way, and will wake us once more
                self._wakeup.recv(64)
                self._woken = False  # before looking: what comes after wakes again
        while self._questions:
            self._questions.popleft()()
        submitted = self._submitted
        for _ in range(min(BURST, len(submitted))):
            self._feed(submitted.popleft())

    def _feed(self, given: Input) -> None:
        try:
            effects = self._machine.handle(given, time.monotonic())
        except PeerError:
            if not isinstance(given, Received):
                raise
            self.counters.peer_errors += 1
        else:
            self._perform(effects)

    def _learn_addresses(self, now: float) -> None:
        """The membership has changed: where its members are is news as well."""
        table = self.node.membership.table
        self._members_root = table.root
        self.members = tuple(member for member in table.values() if not is_durable(member.node))
        for member in self.members:
            if self._tell_of(member) and member.status == "member":
                self.telemetry.on_member(now)
            if self._recorded.get(member.node) != member.address and member.node != self.name:
                self._recorded[member.node] = member.address
                self._links.learn(member.node, member.address, now)

    def _tell_of(self, member: Member) -> bool:
        """Whether it is news."""
        known, self._known[member.node] = self._known.get(member.node), member.status
        if known == member.status or member.node == self.name or (known is None and member.status == "left"):
            return False
        text = {"member": "%s %s is in the mesh", "left": "%s %s has left the mesh"}
        role = "logger" if member.logger else "broker"
        told = {"event": "member", "node": member.node, "role": role, "status": member.status}
        _log.info(text.get(member.status, "%s %s is away"), role, member.node, extra={"fields": told})
        return True

    def _say_farewell(self) -> None:
        for given in self.telemetry.farewell():
            self._feed(given)

    def _over(self) -> bool:
        """Out of the mesh as wanted, and what was last said is with the others; or out of time."""
        now = time.monotonic()
        if self._leaving and self.status in OUT and not self._submitted:
            self._stop_at = min(self._stop_at, now + FLUSH_S)
            if self._links.settled:
                return True
        return now >= self._stop_at

    def _close(self, linger_s: float | None) -> None:
        if self.store is not None:
            self.store.close()
        if self.clients is not None:
            self.clients.close(FLUSH_S if linger_s is None else linger_s)
        self._links.close(linger_s)
        self._wakeup.close()
        self._waker.close()

    # Effects --------------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        performers = self._performers
        for effect in effects:
            performers[type(effect)](effect)

    def _send(self, send: Send) -> None:
        message = send.message
        self.counters.messages_sent[KINDS[type(message)]] += 1
        if isinstance(message, Repair):
            self.counters.packets_repaired += len(message.packets) * len(send.to)
        try:
            frame = encode(message)
        except UsageError as error:
            _log.warning("not sent: %s", error)
            self.counters.frames_dropped += len(send.to)
        else:
            self._links.send(send.to, frame, time.monotonic())

    def _deliver(self, deliver: Deliver) -> None:
        packet = deliver.packet
        if self.clients is not None:
            self.clients.on_deliver(packet)
        # Those who wait for it have it: what follows is to count it.
        if self._on_deliver is not None:
            self._on_deliver(packet)
        if packet.stream.startswith(TELEMETRY):
            self.counters.telemetry_events += packet.count
            self._look(packet)
            return
        self.counters.packets_delivered += 1
        self.counters.events_delivered += packet.count
        if self._woke_at >= self._measure_at:
            self._measure_at = self._woke_at + MEASURE_S
            self._measure(packet)

    def _measure(self, packet: Packet) -> None:
        if (head := packet.head()) is not None:
            self.latencies["delivered"].observe(max(0, time.time_ns() - head.time_ns) / 1e9)

    def _look(self, packet: Packet) -> None:
        with suppress(PeerError):  # counted where it is delivered
            for event in packet.events():
                self.picture.on_event(event)
                if self.store is not None and self.store.doubts_clock:
                    self._compare_clock(self.store, event)

    def _compare_clock(self, store: Store, event: Event) -> None:
        """Tell the store how far its clock is from the one of the member that sent a sample."""
        node = event.attributes.get("node")
        if event.attributes.get("type") == "sample" and isinstance(node, str) and node != self.name:
            own_machine = event.attributes.get("clock", CLOCK) == CLOCK
            store.on_clock(node, (time.time_ns() - event.time_ns) / 1e9, own_machine)

    def _skip(self, skip: Skip) -> None:
        self.counters.events_skipped[skip.reason] += skip.last - skip.first + 1
        if self.clients is not None:
            self.clients.on_skip(skip)
        if self._on_skip is not None:
            self._on_skip(skip)

    def _acked(self, acked: Acked) -> None:
        self.counters.acknowledgements += 1
        if self.clients is not None:
            self.clients.on_acked(acked)
        if self._on_acked is not None:
            self._on_acked(acked)

    def _refused(self, refused: Refused) -> None:
        self.counters.events_refused += refused.count
        if refused.stream == self.telemetry.stream:
            self.telemetry.on_refused(refused.stream in self.node.sender.streams)
        if self.clients is not None:
            self.clients.on_refused(refused)
        if self._on_refused is not None:
            self._on_refused(refused)

    def _ready(self, ready: Ready) -> None:
        if self.clients is not None:
            self.clients.on_ready(ready)

    def _numbers(self, numbers: Numbers) -> None:
        if self.clients is not None:
            self.clients.on_numbers(numbers)

    def _attached(self, attached: Attached) -> None:
        if self.clients is not None:
            self.clients.on_attached(attached)

    def _detached(self, detached: Detached) -> None:
        if self.clients is not None:
            self.clients.on_detached(detached)

    def _became(self, became: Became) -> None:
        self.status = became.status
        told = {"event": "status", "node": self.name, "status": became.status}
        _log.info("%s is %s", self.name, became.status, extra={"fields": told})
        if self._on_became is not None:
            self._on_became(became.status)

    def _persist(self, persist: Persist) -> None:
        assert self.store is not None
        self.counters.persists += 1
        for record in persist.records:
            if isinstance(record, Packet) and not record.stream.startswith(TELEMETRY):
                self.counters.events_stored += record.count
        if self._woke_at >= self._measure_log_at:
            self._measure_log_at = self._woke_at + MEASURE_S
            for record in persist.records:
                if isinstance(record, Packet) and (head := record.head()) is not None:
                    self._measured = persist.token, head.time_ns
                    break
        self.store.persist(persist.token, persist.records)

    def _on_stored(self, given: Input) -> None:
        token, time_ns = self._measured
        if isinstance(given, Persisted) and given.token == token:
            self.latencies["logged"].observe(max(0, time.time_ns() - time_ns) / 1e9)
        self.submit(given)

    def _load(self, load: Load) -> None:
        assert self.store is not None
        self.counters.loads += 1
        self.store.load(load.token, load.spans)

    def _scan(self, scan: Scan) -> None:
        assert self.store is not None
        self.counters.scans += 1
        self.store.scan(scan.token, scan.read, scan.lacks)

    def _paged(self, paged: Paged) -> None:
        if self.clients is not None:
            self.clients.on_page(paged)

    def _collect(self, collect: Collect) -> None:
        assert self.store is not None
        self.counters.collects += 1
        self.store.collect(collect.stream, collect.last)

    def _compact(self, compact: Compact) -> None:
        assert self.store is not None
        self.store.compact(compact.safe)
