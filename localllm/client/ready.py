"""What `serve --ready json` says on stdout, as both ends see it. Knows nothing of processes.

One JSON object in one line; with `--ready json-progress` lines of progress before it:
    {"loading": 0.25}                 from 0 to 1
    {"url": "http://127.0.0.1:40123", "token": "...", "model": "name", "pid": 123, "version": "0.1.0"}
                                      once, last: requests with `Authorization: Bearer <token>` are answered now;
                                      `model` is null if none was asked for
    {"error": {"code": "load_failed", "message": "...", "param": null, "details": {}}}
                                      instead: it cannot; the process ends with an exit code other than 0
A reader must skip objects with other keys. The server ends at end-of-file of its stdin, if that is a pipe or socket.
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
    """With the line end."""
    return msgspec.json.encode(line) + b"\n"


def decode(raw: bytes) -> Line | None:
    """None for a line that is nobody's."""
    for kind in _KINDS:
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.DecodeError:
            continue
    return None
