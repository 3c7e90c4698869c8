"""The log: one `time level event key=value` line per event, on stderr. Knows nothing of what the events mean.

Values are quoted as JSON where they hold anything but plain characters, so that no request can forge a line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any

logger = logging.getLogger("localllm")

_PLAIN = re.compile(r"[\w.:/@+-]+", re.ASCII)


def configure(level: str) -> None:
    """Send this process's log to stderr. uvicorn's own lines come through too, from warnings up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(level.upper())


def event(level: int, name: str, **fields: Any) -> None:
    """Log an event; None fields are left out."""
    logger.log(level, name, extra={"fields": fields})


class LineFormatter(logging.Formatter):
    """A record to its line; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        fields: dict[str, Any] = getattr(record, "fields", {})
        name = record.getMessage() if fields else _quoted(record.getMessage())
        pairs = [f"{key}={_quoted(value)}" for key, value in fields.items() if value is not None]
        line = " ".join([f"{moment}.{int(record.msecs):03d}", record.levelname.lower(), name, *pairs])
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _quoted(value: Any) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
