"""What to change: a recommendation, with the lines of configuration that carry it out."""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.protocol.config import Config

DEFAULT = Config()
"""What members run with unless they are told otherwise; the log does not say."""
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Advice:
    title: str
    """What to do, in a few words."""
    why: str
    """What was seen that asks for it, with its figures."""
    setting: str = ""
    """Lines for the file of `--config`, as TOML that a broker or logger loads; empty if it takes something else."""
    severity: Severity = "info"


def setting(table: Literal["protocol", "clients"], **values: Any) -> str:
    """The lines that set these names in that table of the configuration file.

    The names are those of `protocol.config.Config` and `broker.sessions.ClientLimits`.
    """
    return "\n".join([f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in values.items())]) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
