"""What a running process says of itself, on stderr: for people by default, a JSON object a line on request."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from gossamer.messages.errors import UsageError

LogFormat = Literal["human", "json"]


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["story"] = self.formatException(record.exc_info)
        return json.dumps(told)


def start_logging(log_format: str) -> None:
    if log_format not in ("human", "json"):
        raise UsageError(f"--log-format is human or json, not {log_format!r}")
    handler = logging.StreamHandler(sys.stderr)
    human = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(JsonFormatter() if log_format == "json" else human)
    root = logging.getLogger("gossamer")
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False
