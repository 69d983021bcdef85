"""The experiments by name. Each is one file here, and one function in it that carries `@experiment(…)`.

Its keyword arguments are the experiment's parameters and, with their types and defaults, the options of
`gossamer lab run NAME`; its docstring is the claim that it tests, in the paper's words or close to them. NAME has
dashes where the function's has underscores. One that takes long has an argument `progress` as well, which is no
parameter: it is called with the number of steps done, and of all.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from gossamer.lab import experiments
from gossamer.lab.plots import Panel, Row, Value
from gossamer.messages.errors import UsageError

__all__ = ["Claim", "Experiment", "Panel", "Progress", "Result", "Row", "Value", "experiment", "find", "names"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the paper says can be seen, and what is seen here."""

    claim: str
    paper: str
    """The paper's own figure or words, with their place."""
    ours: str
    holds: bool


Found = tuple[Sequence[Row], Sequence[Claim]]
Measure = TypeVar("Measure", bound=Callable[..., Found])
Progress = Callable[[int, int], None]
PROGRESS = "progress"


def silent(done: int, total: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came out: one row a point of the figure, and how the paper's claims fared."""

    name: str
    paper: str
    parameters: Mapping[str, Value]
    rows: Sequence[Row]
    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    paper: str
    """Where it is from: a paper (by its number in docs/experiments.md) and its figures."""
    claim: str
    quick: Mapping[str, Value]
    """Parameters with which the shape of the curves is seen in seconds, or a minute."""
    full: Mapping[str, Value]
    """Parameters of the run that is documented, where they are not the defaults."""
    panels: Sequence[Panel]
    """The pictures, drawn the way the paper drew them."""
    measure: Callable[..., Found]
    """From parameters to rows and claims; raises `UsageError` for a parameter out of range."""
    minutes: float
    """Of a processor, about, of the run that is documented: of several experiments the longest are begun first."""

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What may be chosen, with type and default."""
        return {name: each for name, each in inspect.signature(self.measure).parameters.items() if name != PROGRESS}

    def run(self, progress: Progress = silent, /, **parameters: Value) -> Result:
        known = self.parameters
        for name in parameters:
            if name not in known:
                raise UsageError(f"experiment {self.name} has no parameter {name!r}; it has {', '.join(known)}")
        chosen = {name: parameters.get(name, parameter.default) for name, parameter in known.items()}
        reporting = {PROGRESS: progress} if PROGRESS in inspect.signature(self.measure).parameters else {}
        rows, claims = self.measure(**chosen, **reporting)
        return Result(self.name, self.paper, chosen, rows, claims)


def experiment(
    paper: str,
    *panels: Panel,
    quick: Mapping[str, Value] | None = None,
    full: Mapping[str, Value] | None = None,
    minutes: float = 1.0,
) -> Callable[[Measure], Measure]:
    """Enter a function under its own name."""

    def enter(measure: Measure) -> Measure:
        name = measure.__name__.replace("_", "-")
        claim = inspect.cleandoc(measure.__doc__ or "")
        _found[name] = Experiment(name, paper, claim, quick or {}, full or {}, panels, measure, minutes)
        return measure

    return enter


def names() -> list[str]:
    return sorted(_loaded())


def find(name: str) -> Experiment:
    found = _loaded().get(name)
    if found is None:
        raise UsageError(f"no experiment {name!r}; there are: {', '.join(names())}")
    return found


_found: dict[str, Experiment] = {}


def _loaded() -> dict[str, Experiment]:
    for module in iter_modules(experiments.__path__):
        import_module(f"{experiments.__name__}.{module.name}")
    return _found
