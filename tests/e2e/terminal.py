"""A pseudo-terminal with `localllm run` on it, or another command, and somebody who reads and types.

It waits for what is shown.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND, TIMEOUT_S

PROMPT = b"\x1b[?2004h"
PROMPT_ENDS = b"\x1b[?2004l"
"""prompt_toolkit switches bracketed paste on once when it asks for a line, the terminal being in raw mode by then, and
off when it has one. The visible `>>>` may be drawn again; and a Ctrl-D typed outside raw mode is lost."""

needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *args: str | Path, command: str | None = "run", **environ: str) -> None:
        self._main, side = os.openpty()  # type: ignore[attr-defined, unused-ignore]
        environment = {**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm", **environ}
        argv = [*COMMAND, *([] if command is None else [command]), *map(str, args)]
        self.process = subprocess.Popen(
            argv, stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
        )
        self._side = side  # so that its settings can be looked at when the process has ended
        self.seen = b""
        """What came and was not waited for yet."""
        self.everything = b""

    def until(self, text: bytes) -> bytes:
        """Read until `text` comes; returns what came before it."""
        while text not in self.seen:
            self._read()
        before, _, self.seen = self.seen.partition(text)
        return before

    def until_more(self, num_bytes: int) -> None:
        """Read until so many bytes have come that nobody waited for."""
        while len(self.seen) < num_bytes:
            self._read()

    def _read(self) -> None:
        assert select.select([self._main], [], [], 60)[0], self.seen[-2000:]
        read = os.read(self._main, 4096)
        assert read, f"the terminal was closed: {self.seen[-2000:]!r}"
        self.seen += read
        self.everything += read

    def type(self, keys: bytes) -> None:
        os.write(self._main, keys)

    def interrupt(self) -> None:
        """What a terminal does at Ctrl-C: the signal goes to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)  # type: ignore[attr-defined, unused-ignore]

    def settings(self) -> list[object]:
        """Of the terminal: whether it echoes, and so on."""
        import termios

        return termios.tcgetattr(self._side)  # type: ignore[attr-defined, unused-ignore]

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        while self.process.poll() is None or select.select([self._main], [], [], 0)[0]:
            if select.select([self._main], [], [], 0.05)[0]:
                self._read()
        return self.process.wait(TIMEOUT_S)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # of no effect after `end`
        self.process.wait()
        os.close(self._main)
        os.close(self._side)
