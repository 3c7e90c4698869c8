"""The messages of `serve --ready json` on stdout, for both ends. Knows nothing about processes.

One line with a JSON object; with `--ready json-progress`, progress lines come before it:
    {"loading": 0.25}                 from 0 to 1
    {"url": "http://127.0.0.1:40123", "token": "...", "model": "name", "pid": 123, "version": "0.1.0"}
                                      once, last: requests with `Authorization: Bearer <token>` are answered now;
                                      `model` is null if none was given
    {"error": {"code": "load_failed", "message": "...", "param": null, "details": {}}}
                                      instead of that: startup failed; the process exits with a nonzero code
Readers must skip objects with other keys. The server exits at end-of-file on its stdin, if that is a pipe or socket.
"""

from __future__ import annotations

import msgspec

from localllm.errors import ErrorInfo


class Progress(msgspec.Struct, frozen=True):
    loading: float


class Ready(msgspec.Struct, frozen=True):
    url: str
    token: str
    model: str | None
    pid: int
    version: str


class Failure(msgspec.Struct, frozen=True):
    error: ErrorInfo


Line = Progress | Ready | Failure
_KINDS: tuple[type[Line], ...] = (Progress, Ready, Failure)


def encode(line: Line) -> bytes:
    """The line, including its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode(raw: bytes) -> Line | None:
    """None for a line that is none of these messages."""
    for kind in _KINDS:
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.DecodeError:
            continue
    return None
