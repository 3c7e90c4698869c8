"""A real `serve` for people, whose log is read line by line: what it says is waited for, never slept for."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import COMMAND, TIMEOUT_S
from tests.waiting import line_with

SIGHUP = getattr(signal, "SIGHUP", signal.SIGTERM)


class Server:
    """A `serve` for people, whose log is read line by line."""

    def __init__(self, *args: str | Path, stdin: int = subprocess.DEVNULL, before: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [*before, *COMMAND, "serve", *map(str, args), "--port", "0", "--log-format", "json"],
            stdin=stdin,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.url = line_with(self.process, "/v1 (").partition(" at ")[2].partition("/v1")[0]

    def until(self, event: str) -> dict[str, Any]:
        """The next line of that event."""
        line: dict[str, Any] = json.loads(line_with(self.process, f'"event": "{event}"'))
        return line

    def reload(self, event: str) -> dict[str, Any]:
        """Send the signal; what it led to."""
        self.process.send_signal(SIGHUP)
        return self.until(event)

    def status(self, key: str | None = None, path: str = "/v1/models") -> int:
        headers = {} if key is None else {"x-api-key": key}
        return httpx.get(f"{self.url}{path}", headers=headers, trust_env=False).status_code

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        assert self.process.stderr is not None
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.wait(TIMEOUT_S)
