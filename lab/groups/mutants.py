"""Deliberately broken group protocols: what the swarm is worth is what it catches of these.

Each is the production machine with one rule taken out, the way a hurried change might take it out; `printed-figure` is
not hurried, but how the paper has it.
"""

from typing import Any, NamedTuple

from gossamer.lab.groups import swarm
from gossamer.lab.groups.world import GROUP, Machine
from gossamer.messages.ids import SEQ_MAX, NodeId
from gossamer.protocol.groups.consensus import Instance
from gossamer.protocol.groups.kept import Kept
from gossamer.protocol.groups.rotation import Rotation, Settings, active
from gossamer.protocol.groups.urcgc import Urcgc
from gossamer.protocol.groups.urgc import Urgc
from gossamer.protocol.groups.views import Views
from gossamer.protocol.groups.wire import Cast, Casts, Log, Pred, Report, Request, Roll, Run, Span, Value


class Mutant(NamedTuple):
    protocol: swarm.Protocol
    machine: Any
    """Its class."""

    def make(self, plan: swarm.Plan, name: str, members: tuple[str, ...]) -> Machine:
        if issubclass(self.machine, Views):
            return swarm.seated(name, members, swarm.views(plan, name, self.machine))
        machine: Machine = self.machine(GROUP, name, members, swarm.settings(plan))
        return machine


class DecideWithoutQuorum(Urgc):
    """Any coordinator decides, whoever it heard."""

    def __init__(self, group: str, me: NodeId, members: tuple[NodeId, ...], settings: Settings | None = None) -> None:
        super().__init__(group, me, members, settings)
        self.turn.quorum = 1


class SkipTheNackCheck(Urgc):
    """A coordinator goes on though a decision may be unknown to it."""

    def _knows_all(self, requests: dict[int, Request], last: Roll) -> bool:
        return True


class PrintedFigure(Urgc):
    """001 Fig. 7: a Hold sets NACK to undefined, so that who heard it counts as having heard everything."""

    def _knows_all(self, requests: dict[int, Request], last: Roll) -> bool:
        heard = sum(request.roll.subrun == self.turn.subrun - 1 for request in requests.values())
        return heard >= self.turn.quorum or all(place in requests for place in active(last))


class HoldForOthers(Urgc):
    """Whoever heard the last coordinator itself takes nothing for pending, though its Hold does not say what it
    heard."""

    def _unheard(self, last: Roll) -> int:
        return last.pending if last.subrun == self.turn.subrun - 1 else self.turn.subrun - 1


class DeliverOrderBeforeUniform(Urgc):
    """A decision is delivered when it is heard, though uniform agreement was asked for."""

    def _limit(self) -> int:
        return max(self._safe, self._log.total)


class OrderWhatFewHold(Urgc):
    """The coordinator orders whatever it has itself, with the figures of the paper's text."""

    def _next(self, marks: tuple[int, ...], log: Log) -> tuple[Span, ...]:
        return super()._next(tuple(self._held), log)


class _Deaf(Rotation):
    """A member ignores the answer of a late coordinator."""

    __slots__ = ()

    def hear_late(self, subrun: int) -> bool:
        return False


class LateIsSilentTotal(Urgc):
    """A member counts a subrun as silent though its coordinator's decision came late."""

    def __init__(self, group: str, me: NodeId, members: tuple[NodeId, ...], settings: Settings | None = None) -> None:
        super().__init__(group, me, members, settings)
        self.turn.__class__ = _Deaf


class LateIsSilentCausal(Urcgc):
    """The same in urcgc."""

    def __init__(self, group: str, me: NodeId, members: tuple[NodeId, ...], settings: Settings | None = None) -> None:
        super().__init__(group, me, members, settings)
        self.turn.__class__ = _Deaf


class IgnoreDependencies(Urcgc):
    """What comes is accepted in the order of its sender alone."""

    def _on_casts(self, place: int, casts: Casts) -> None:
        runs = tuple(Run(run.origin, run.first, tuple(Cast(cast.content) for cast in run.casts)) for run in casts.runs)
        super()._on_casts(place, Casts(runs, casts.subrun))


class DeliverCausalBeforeUniform(Urcgc):
    """What is accepted is delivered, though uniform agreement was asked for."""

    def _deliverable(self, origin: int) -> int:
        return self._accepted[origin]


class CutWithoutEveryone(Urcgc):
    """The cut of an expelled member is what those that happened to report have of it."""

    def _cut(self, reports: dict[int, Report], last: Report, most: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(SEQ_MAX if expelled < 0 else most[place] for place, expelled in enumerate(last.roll.expelled))


class TakeFromTheExpelled(Urcgc):
    """Messages of an expelled member are accepted as they come, before and after its cut."""

    def _may_take(self, origin: int, place: int, subrun: int) -> bool:
        return True

    def _limit(self, origin: int) -> int:
        return SEQ_MAX


class InstallWithoutFlush(Views):
    """The next view is proposed with what its proposer happens to have delivered."""

    def _proposal(self) -> Value | None:
        value = super()._proposal()
        return None if value is None else Value(tuple(self._delivered), value.next, value.joined)


class PurgeBeforeSafe(Views):
    """What is held for others is given up for anything that obsoletes it."""

    def _purgeable(self, column: list[int]) -> int:
        return max(column)


class DeliverBeforeUniform(Views):
    """What has come is delivered, though uniform agreement was asked for."""

    def _limit(self, origin: int) -> int:
        return self._held[origin]


class AcknowledgeBeyondThePred(Views):
    """A blocked member acknowledges messages that its PRED does not hold: its majorities mean nothing to the flush."""

    def _install(self, number: int, members: tuple[NodeId, ...], marks: tuple[int, ...]) -> None:
        super()._install(number, members, marks)
        self._kept.__class__ = _Unfrozen

    def _own_pred(self) -> Pred:
        was = self._preds.get(self._place)
        pred = super()._own_pred()
        return pred if was is None else Pred(pred.view, was.held, pred.leave, pred.join)


class _Unfrozen(Kept):
    __slots__ = ()

    def freeze(self) -> None:
        pass


class PurgeBeyondThePred(Views):
    """A blocked member purges for messages that it holds and its PRED does not."""

    def _track(self) -> None:
        mine = self._known[self._place]
        frozen = mine[:]
        mine[:] = self._held
        super()._track()
        mine[:] = frozen


class DecideAlone(Views):
    """Consensus without a majority."""

    def _open(self) -> Instance:
        instance = super()._open()
        instance.__class__ = _Alone
        return instance


class _Alone(Instance):
    __slots__ = ()

    @property
    def quorum(self) -> int:
        return 1


class Forgetful(Instance):
    """A coordinator proposes its own value, whatever others adopted before."""

    __slots__ = ()

    def _latest(self) -> Value:
        return self._context.initial()


class Trusting(Instance):
    """A value is adopted by who does not hold what it names."""

    __slots__ = ()

    def _may_adopt(self, value: Value) -> bool:
        return True


class IgnoreCausality(Views):
    """What a message's sender had been delivered is not waited for."""

    def _on_data(self, origin: int, first: int, casts: tuple[Cast | None, ...]) -> None:
        super()._on_data(origin, first, tuple(cast and Cast(cast.content) for cast in casts))


MUTANTS: dict[str, Mutant] = {
    "decide-without-quorum": Mutant("urgc", DecideWithoutQuorum),
    "skip-the-nack-check": Mutant("urgc", SkipTheNackCheck),
    "printed-figure": Mutant("urgc", PrintedFigure),
    "hold-for-others": Mutant("urgc", HoldForOthers),
    "deliver-order-before-uniform": Mutant("urgc", DeliverOrderBeforeUniform),
    "order-what-few-hold": Mutant("urgc", OrderWhatFewHold),
    "ignore-dependencies": Mutant("urcgc", IgnoreDependencies),
    "deliver-causal-before-uniform": Mutant("urcgc", DeliverCausalBeforeUniform),
    "install-without-flush": Mutant("views", InstallWithoutFlush),
    "deliver-before-uniform": Mutant("views", DeliverBeforeUniform),
    "decide-alone": Mutant("views", DecideAlone),
    "ignore-causality": Mutant("views", IgnoreCausality),
    "acknowledge-beyond-the-pred": Mutant("views", AcknowledgeBeyondThePred),
}
RARE: dict[str, Mutant] = {
    "late-is-silent-total": Mutant("urgc", LateIsSilentTotal),
    "late-is-silent-causal": Mutant("urcgc", LateIsSilentCausal),
    "cut-without-everyone": Mutant("urcgc", CutWithoutEveryone),
    "take-from-the-expelled": Mutant("urcgc", TakeFromTheExpelled),
    "purge-before-safe": Mutant("views", PurgeBeforeSafe),
    "purge-beyond-the-pred": Mutant("views", PurgeBeyondThePred),
}
"""Those that matter only in a coincidence too rare for random runs: tests/simulation/test_groups.py arranges it."""
