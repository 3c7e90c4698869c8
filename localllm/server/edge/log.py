"""The log: one line per event on stderr, `time level event key=value` or a JSON object. Knows no event's meaning.

Values with special characters are quoted as JSON, so that no request can forge a line. Events of a request have
its `request_id`.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from typing import Any, Literal

from localllm.errors import clipped
from localllm.system.printable import printable

logger = logging.getLogger("localllm")

_PLAIN = re.compile(r"[\w.:/@+-]+", re.ASCII)

_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)

MAX_VALUE_CHARS = 1000
"""Maximum length of a value: clients must not be able to fill the disk."""
MAX_TRACEBACK_CHARS = 20_000

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request."""


def session_of(scope: Any) -> str | None:
    """The client's `x-session-id`, by which gateways keep a conversation on one server, if it is short and plain."""
    given = dict(scope["headers"]).get(b"x-session-id", b"").decode("latin-1")
    return given if _REQUEST_ID.fullmatch(given) else None


def id_of(scope: Any) -> str:
    """The request id for an ASGI scope: the client's `x-request-id` if it is short and plain, else a new one."""
    state = scope.setdefault("state", {})
    if "request_id" not in state:
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        state["request_id"] = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
    id: str = state["request_id"]
    return id


def configure(level: str, format: Literal["text", "json"] = "text") -> None:
    """Send this process's log to stderr, including uvicorn's errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logger.setLevel(level.upper())
    # Its warnings concern single requests, which we log ourselves.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def event(level: int, name: str, **fields: Any) -> None:
    """Log an event; None fields are left out."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={"fields": {"id": request_id.get(), **fields}})


class LineFormatter(logging.Formatter):
    """Formats a record as a line; a traceback follows on separate lines."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(record.created))
        fields: dict[str, Any] = getattr(record, "fields", {})
        name = record.getMessage() if fields else _quoted(record.getMessage())  # event names are trusted
        pairs = [f"{key}={_quoted(value)}" for key, value in fields.items() if value is not None]
        line = " ".join([f"{moment}.{int(record.msecs):03d}", record.levelname.lower(), name, *pairs])
        if record.exc_info:
            line += "\n" + _traceback(self, record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: `time` (RFC 3339, UTC), `level`, `event`, its fields, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": clipped(record.getMessage(), MAX_VALUE_CHARS),
        }
        fields: dict[str, Any] = getattr(record, "fields", {})
        line.update((key, _bounded(value)) for key, value in fields.items() if value is not None)
        if record.exc_info:
            line["traceback"] = _traceback(self, record.exc_info)
        return json.dumps(line)


def _bounded(value: Any) -> Any:
    """Numbers and booleans unchanged, everything else as text of limited length."""
    return value if isinstance(value, bool | int | float) else clipped(str(value), MAX_VALUE_CHARS)


def _traceback(formatter: logging.Formatter, exc_info: Any) -> str:
    """The end of a very long traceback, which says what happened."""
    text = printable(formatter.formatException(exc_info))
    return text if len(text) <= MAX_TRACEBACK_CHARS else f"...{text[-MAX_TRACEBACK_CHARS:]}"


def _quoted(value: Any) -> str:
    text = clipped(str(value), MAX_VALUE_CHARS)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
