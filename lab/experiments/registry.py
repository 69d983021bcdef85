"""The experiments by name. Each is one file here, and one function in it that carries `@experiment`.

Its keyword arguments are the experiment's parameters and, with their types and defaults, the options of
`gossamer lab run NAME`; its docstring is the claim that it tests, in the paper's words or close to them. NAME has
dashes where the function's has underscores. One that takes long has an argument `progress` as well, which is no
parameter: it is called with the number of steps done, and of all.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from gossamer.lab import experiments
from gossamer.messages.errors import UsageError

Value = bool | int | float | str | None
Row = Mapping[str, Value]
Measure = TypeVar("Measure", bound=Callable[..., tuple[Sequence[Row], str]])
Progress = Callable[[int, int], None]
PROGRESS = "progress"


def silent(done: int, total: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came out: one row a point of the figure, and in a sentence how the claim fared."""

    name: str
    parameters: Mapping[str, Value]
    rows: Sequence[Row]
    finding: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    claim: str
    measure: Callable[..., tuple[Sequence[Row], str]]
    """From parameters to rows and finding; raises `UsageError` for a parameter out of range."""

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
        rows, finding = self.measure(**chosen, **reporting)
        return Result(self.name, chosen, rows, finding)


def experiment(measure: Measure) -> Measure:
    """Enter a function under its own name."""
    name = measure.__name__.replace("_", "-")
    _found[name] = Experiment(name, inspect.cleandoc(measure.__doc__ or ""), measure)
    return measure


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
