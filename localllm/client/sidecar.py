"""Starts and stops a server as a child process, for `localllm run` and desktop apps. Knows no HTTP."""

from __future__ import annotations

import queue
import subprocess
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from localllm.client.ready import Line, Progress, Ready
from localllm.client.server_process import OnExit, ServerProcess, check_timeout
from localllm.client.server_process import localllm_command as localllm_command
from localllm.errors import LocalLLMError

WAIT_SLICE_S = 0.25
"""Upper bound of one wait: on Windows Ctrl-C is not delivered while a thread waits for a lock."""


class Sidecar:
    """A server process owned by this program; leaving its context stops it, dropping it does so without waiting.

    `start` waits until it answers; `spawn` and `wait_ready` are its two halves, for callers with other work to do.
    """

    def __init__(self, server: ServerProcess, lines: queue.SimpleQueue[Line | None]) -> None:
        self._server = server
        self._lines = lines
        self._ready: Ready | None = None
        self._failure: LocalLLMError | None = None
        weakref.finalize(self, server.hang_up)

    @classmethod
    def spawn(
        cls,
        args: Sequence[str],
        *,
        command: Sequence[str] | None = None,
        stderr: IO[bytes] | None = None,
        home: str | Path | None = None,
        port: int = 0,
        on_exit: OnExit | None = None,
    ) -> Sidecar:
        """Start `serve` with `args` (the model and load options) on a loopback port, without waiting.

        stderr: where its log goes; None: this process's stderr. home: the folder for all its data, and the only
        configuration it reads. port: 0 for any free one; what a web page stores belongs to its port. on_exit: called
        on a thread of its own with the exit code and the end of the log, if a server that was ready exits without
        `close`.
        """
        lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        server = ServerProcess(
            args, command=command, stderr=stderr, home=home, port=port, on_line=lines.put, on_exit=on_exit
        )
        sidecar = cls(server, lines)
        server.start()
        return sidecar

    @classmethod
    def start(
        cls,
        args: Sequence[str],
        *,
        command: Sequence[str] | None = None,
        stderr: IO[bytes] | None = None,
        home: str | Path | None = None,
        port: int = 0,
        on_progress: Callable[[float], None] | None = None,
        on_exit: OnExit | None = None,
        timeout: float | None = None,
    ) -> Sidecar:
        """Start a server and wait until it answers, at most `timeout` seconds. Raises as `wait_ready`."""
        check_timeout(timeout)
        sidecar = cls.spawn(args, command=command, stderr=stderr, home=home, port=port, on_exit=on_exit)
        try:
            sidecar.wait_ready(on_progress, timeout=timeout)
        except BaseException:
            sidecar.close()
            raise
        return sidecar

    def wait_ready(self, on_progress: Callable[[float], None] | None = None, *, timeout: float | None = None) -> Ready:
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
            if isinstance(line, Progress):
                if on_progress is not None:
                    on_progress(line.loading)
                continue
            try:
                self._ready = self._server.outcome(line)
            except LocalLLMError as error:
                self._failure = error
        return self._ready

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
        """Its address and token; only after `wait_ready` has returned."""
        assert self._ready is not None
        return self._ready

    @property
    def url(self) -> str:
        return self.ready.url

    @property
    def token(self) -> str:
        return self.ready.token

    def close(self) -> None:
        """Stop it gracefully, then by force, and wait for its exit. Idempotent, thread-safe."""
        self._server.close()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
