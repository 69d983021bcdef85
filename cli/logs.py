"""What a running process says of itself, on stderr: for people by default, a JSON object a line on request.

One line an event, whatever is in it. A flood of the same kind (clients that come and go by the hundred) is told in
part, and how much was left out with the next one of it.
"""

import json
import logging
import sys
import time
from datetime import UTC, datetime

from gossamer.messages.errors import UsageError

FORMATS = ("human", "json")
LEVELS = ("debug", "info", "warning", "error")
BURST = 20
WINDOW_S = 10.0
"""So many of a kind in so long."""
KINDS_MAX = 1_000


class RateLimit(logging.Filter):
    """Passes so many records of one kind in a while; a kind is what is said, before names and numbers are filled in."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}
        """Since when, and how many."""

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = time.monotonic(), (record.name, str(record.msg))
        since, count = self._kinds.get(kind, (now, 0))
        if now - since >= WINDOW_S:
            if count > BURST:
                record.left_out = count - BURST
            since, count = now, 0
        if len(self._kinds) >= KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = since, count + 1
        return count < BURST


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if hasattr(record, "left_out"):
            told["left_out"] = record.left_out
        if record.exc_info:
            told["story"] = self.formatException(record.exc_info)
        return json.dumps(told)


class HumanFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.replace("\n", " ")  # what a client wrote must not look like another line
        text = super().formatMessage(record)
        return f"{text} (and {record.left_out} like it before)" if hasattr(record, "left_out") else text


def start_warnings() -> None:
    """Of a command that is a client: its warnings are lines on stderr, like its errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("gossamer: %(message)s"))
    root = logging.getLogger("gossamer")
    root.handlers[:] = [handler]
    root.propagate = False


def start_logging(log_format: str, log_level: str = "info") -> None:
    if log_format not in FORMATS:
        raise UsageError(f"--log-format is {' or '.join(FORMATS)}, not {log_format!r}")
    if log_level not in LEVELS:
        raise UsageError(f"--log-level is {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, not {log_level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else HumanFormatter())
    handler.addFilter(RateLimit())
    root = logging.getLogger("gossamer")
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    root.propagate = False
