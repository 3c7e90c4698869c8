"""Starts and stops a server as a child process, for `localllm run` and desktop apps. Knows no HTTP."""

from __future__ import annotations

import queue
import subprocess
import time
import weakref
from collections.abc import Sequence
from typing import Self, Unpack

from localllm.client.ready import Line, Progress, Ready
from localllm.client.server_process import (
    SPAWN,
    START,
    OnProgress,
    ServerProcess,
    SpawnArguments,
    StartArguments,
    check_timeout,
)
from localllm.errors import LocalLLMError

WAIT_SLICE_S = 0.25
"""Upper bound of one wait: on Windows Ctrl-C is not delivered while a thread waits for a lock."""


class ServerOwner:
    """What both kinds of sidecar share: the process, and the address where it answers."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._ready: Ready | None = None
        self._failure: LocalLLMError | None = None
        weakref.finalize(self, server.hang_up)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its stdin must stay open."""
        return self._server.process

    @property
    def alive(self) -> bool:
        """Whether the process runs, ready or not."""
        return self._server.alive

    @property
    def stderr(self) -> str:
        """The end of its log, up to 8 KiB."""
        return self._server.stderr

    @property
    def ready(self) -> Ready:
        """Its address and token; only once it is ready."""
        assert self._ready is not None
        return self._ready

    @property
    def url(self) -> str:
        return self.ready.url

    @property
    def token(self) -> str:
        return self.ready.token

    def _take(self, line: Line | None, on_progress: OnProgress | None) -> None:
        """Take note of a message of the server. Raises the error that ended it."""
        if isinstance(line, Progress):
            if on_progress is not None:
                on_progress(line.loading)
            return
        try:
            self._ready = self._server.outcome(line)
        except LocalLLMError as error:
            self._failure = error
            raise


class Sidecar(ServerOwner):
    """A server process owned by this program; leaving its context stops it, dropping it does so without waiting.

    `start` waits until it answers; `spawn` and `wait_ready` are its two halves, for callers with other work to do.
    on_progress is called on the thread that waits, on_exit on one of its own.
    """

    def __init__(self, server: ServerProcess, lines: queue.SimpleQueue[Line | None]) -> None:
        super().__init__(server)
        self._lines = lines

    @classmethod
    @SPAWN.spell_out
    def spawn(cls, args: Sequence[str], **given: Unpack[SpawnArguments]) -> Self:
        """Start `serve` with `args` (the model and load options) on a loopback port, without waiting."""
        return cls._spawned(args, SPAWN.filled("spawn", given))

    @classmethod
    @START.spell_out
    def start(cls, args: Sequence[str], **given: Unpack[StartArguments]) -> Self:
        """Start a server and wait until it answers. Raises as `wait_ready`."""
        asked = START.filled("start", given)
        check_timeout(asked["timeout"])
        sidecar = cls._spawned(args, asked)
        try:
            sidecar.wait_ready(asked["on_progress"], timeout=asked["timeout"])
        except BaseException:
            sidecar.close()
            raise
        return sidecar

    def wait_ready(self, on_progress: OnProgress | None = None, *, timeout: float | None = None) -> Ready:
        """Wait until it answers. on_progress: called on this thread with the fraction of the model loaded.

        Raises the error that ended it (`ModelNotFound`, `LoadFailed` ...) with the end of its log, or `LoadFailed`
        after `timeout` seconds; the server then keeps loading and can be waited for again.
        """
        check_timeout(timeout)
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while self._ready is None:
            if self._failure is not None:
                raise self._failure
            left_s = WAIT_SLICE_S if deadline_s is None else min(WAIT_SLICE_S, deadline_s - time.monotonic())
            if left_s <= 0 and timeout is not None:
                raise self._server.too_late(timeout)
            try:
                line = self._lines.get(timeout=left_s)
            except queue.Empty:
                continue
            self._take(line, on_progress)
        return self._ready

    def close(self) -> None:
        """Stop it gracefully, then by force, and wait for its exit. Idempotent, thread-safe."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def _spawned(cls, args: Sequence[str], asked: SpawnArguments) -> Self:
        lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        sidecar = cls(ServerProcess(args, asked, lines.put), lines)
        sidecar._server.start()
        return sidecar
