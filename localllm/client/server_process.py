"""A `serve` child process: its messages, its log, its exit. Knows neither HTTP nor who waits for it.

The child has its own process group, so Ctrl-C stops the answer and not the server. It runs as long as its stdin is
open; that pipe closes when this process ends, for whatever reason, so no server is left behind.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TextIO, TypedDict, cast

from localllm.client.ready import Failure, Line, Ready, decode
from localllm.errors import InvalidParameter, LoadFailed, from_info
from localllm.settings.config import ENV_PREFIX
from localllm.system import processes
from localllm.system.printable import printable
from localllm.system.programs import own_command
from localllm.types.keywords import Keywords

STOP_TIMEOUT_S = 5.0
STDERR_BYTES = 8 * 1024
"""The end of its log that is kept for errors."""
SHOWN_LINES, SHOWN_CHARS = 3, 500
"""The part of it that an error message shows."""
DRAIN_TIMEOUT_S = 1.0
"""How long to wait for the end of its log: a grandchild may keep its stderr open."""

OnLine = Callable[[Line | None], None]
OnProgress = Callable[[float], None]
logger = logging.getLogger("localllm")


class SidecarExit(NamedTuple):
    """How a server ended."""

    exit_code: int | None
    """None if a signal ended it."""
    signal: str | None
    stderr: str
    """The end of its log, up to 8 KiB."""

    @property
    def reason(self) -> str:
        """`exit code 3` or `signal SIGKILL`."""
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


OnExit = Callable[[SidecarExit], None]


def localllm_command() -> list[str]:
    """How to start localllm; an app frozen without it passes a `command` of its own instead."""
    return own_command("localllm")


class SpawnArguments(TypedDict, total=False):
    """stderr: where its log goes: a file, binary or text, such as `sys.stderr`; None: nowhere, but errors have its end.
    home: the folder for all its data, and the only configuration it reads. port: 0 for any free one; what a web page
    stores belongs to its port. on_exit: called with the exit code and the end of the log, if a server that was ready
    exits without `close`. command: how to start localllm, for an app that was frozen without it.
    """

    command: Sequence[str] | None
    stderr: IO[bytes] | TextIO | None
    home: str | Path | None
    port: int
    on_exit: OnExit | None


class WaitArguments(TypedDict, total=False):
    """on_progress: called with the fraction of the model loaded. timeout: seconds until it must be ready."""

    on_progress: OnProgress | None
    timeout: float | None


class StartArguments(SpawnArguments, WaitArguments, total=False):
    """Keywords of `start`."""


SPAWN = Keywords(SpawnArguments, defaults={"port": 0})
START = Keywords(StartArguments, SpawnArguments, WaitArguments, defaults={"port": 0})


def _at_once(callback: Callable[..., object], *news: object) -> None:
    callback(*news)


class ServerProcess:
    """Started by `start`. `on_line` gets each message of `client.ready`, and None after the exit."""

    def __init__(
        self,
        args: Sequence[str],
        asked: SpawnArguments,
        on_line: OnLine,
        deliver: Callable[..., None] = _at_once,
    ) -> None:
        """`args`: the model and load options. `asked`: each of `SpawnArguments`. `deliver`: calls a callback with its
        arguments; it runs on a thread of this object.
        """
        on_exit, home = asked["on_exit"], asked["home"]
        if on_exit is not None and not callable(on_exit):
            raise InvalidParameter(f"on_exit must be a function, got {on_exit!r}", param="on_exit")
        argv = [*(asked["command"] or localllm_command()), "serve", *map(str, args)]
        argv += ["--host", "127.0.0.1", "--port", str(asked["port"]), "--ready", "json-progress"]
        if home is not None:
            argv += ["--home", str(Path(home).expanduser().absolute())]
        self._on_line = on_line
        self._on_exit = on_exit
        self._deliver = deliver
        self._echo = asked["stderr"]
        self._tail = bytearray()
        self._was_ready = False
        self._closing = False
        self._argv = argv
        self._env = None if home is None else _environment()
        self._process: subprocess.Popen[bytes] | None = None
        self._drainer = threading.Thread(target=self._drain, name="sidecar-stderr", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="sidecar", daemon=True)

    def start(self) -> None:
        """Not part of the constructor: its owner must exist before the process does, or Ctrl-C could leak it."""
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                **processes.own_process_group(),
            )
            processes.keep_from_forks(cast(IO[bytes], self._process.stdin))
            self._drainer.start()
            self._watcher.start()
        except BaseException:
            self.hang_up()
            raise

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def stderr(self) -> str:
        """The end of its log."""
        return bytes(self._tail).decode("utf-8", "replace").strip()

    def hang_up(self) -> None:
        """Stop it without waiting. Idempotent, thread-safe."""
        self._closing = True
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass  # it has exited

    def close(self) -> None:
        """Stop it gracefully, then by force, and wait for its exit. Idempotent; not from its own thread."""
        self.hang_up()
        for insist in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(STOP_TIMEOUT_S)
                break
            except subprocess.TimeoutExpired:
                insist()
        self.process.wait()
        for thread in (self._drainer, self._watcher):
            if thread is not threading.current_thread():
                thread.join(DRAIN_TIMEOUT_S)

    def outcome(self, line: Line | None) -> Ready | None:
        """The Ready that a message is, if any. Raises the error that ended the server."""
        if isinstance(line, Failure):
            raise from_info(line.error)
        if line is None:
            reason = processes.exit_reason(self.process.wait())
            raise LoadFailed(
                f"the server ended before it could answer ({reason}){self._last_words()}", stderr=self.stderr
            )
        return line if isinstance(line, Ready) else None

    def too_late(self, timeout_s: float) -> LoadFailed:
        """The error for a server that is not ready in time."""
        return LoadFailed(f"the server was not ready within {timeout_s:g} s{self._last_words()}", stderr=self.stderr)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()][-SHOWN_LINES:]
        said = " | ".join(lines)[-SHOWN_CHARS:]
        return f"; it last said: {said}" if said else "; it said nothing"

    def _watch(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for raw in lines:
                if (line := decode(raw)) is not None:
                    self._was_ready = self._was_ready or isinstance(line, Ready)
                    self._deliver(self._on_line, line)
        returncode = self.process.wait()
        self._drainer.join(DRAIN_TIMEOUT_S)
        self._deliver(self._on_line, None)
        if self._on_exit is not None and self._was_ready and not self._closing:
            reason = processes.exit_reason(returncode)
            try:
                self._deliver(self._on_exit, SidecarExit(reason.exit_code, reason.signal, self.stderr))
            except Exception:
                logger.exception("on_exit raised")

    def _drain(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            while data := stream.read1(65536):  # type: ignore[attr-defined]
                self._tail += data
                del self._tail[:-STDERR_BYTES]
                try:
                    self._pass_on(data)
                except (OSError, ValueError):
                    pass  # the target is closed; keep reading, or the server would block on its log

    def _pass_on(self, data: bytes) -> None:
        if self._echo is None:
            return
        if hasattr(self._echo, "encoding"):  # a text file
            text = printable(data.decode("utf-8", "replace").replace("\r\n", "\n"))
            cast(TextIO, self._echo).write(text)
        else:
            self._echo.write(data)
        self._echo.flush()


def check_timeout(timeout_s: float | None) -> None:
    """Raises `InvalidParameter` for anything but a positive number or None."""
    if timeout_s is None:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise InvalidParameter(
            f"timeout must be a positive number of seconds, or None, got {timeout_s!r}", param="timeout"
        )


def _environment() -> dict[str, str]:
    """This process's environment without the settings of localllm."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(ENV_PREFIX) and name.upper() != "HF_ENDPOINT"
    }
