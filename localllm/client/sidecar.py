"""Starts a server of one's own and ends it again: how `localllm run` and desktop apps get one. Knows no HTTP.

The child has its own process group, so Ctrl-C stops the answer and not the server. It lives as long as its stdin is
open; since that pipe closes when we die, however we die, no server is left behind.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO

from localllm import osdep
from localllm.client.ready import Failure, Progress, Ready, decode
from localllm.errors import LoadFailed, from_info

STOP_TIMEOUT_S = 5.0


def localllm_command() -> list[str]:
    """How to start localllm; a frozen desktop app passes its own `command` instead.

    -P: a file of the user's current folder must not shadow a module.
    """
    return [sys.executable, "-P", "-m", "localllm"]


class Sidecar:
    """A server process of ours; a context manager that ends it.

    `start` waits until it answers; `spawn` and `wait_ready` are its two halves, for those with better things to do.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._ready: Ready | None = None

    @classmethod
    def spawn(
        cls, args: Sequence[str], *, command: Sequence[str] | None = None, stderr: IO[bytes] | None = None
    ) -> Sidecar:
        """Start `serve` with `args` (the model and load options) on a free loopback port, and do not wait."""
        argv = [*(command or localllm_command()), "serve", *args]
        argv += ["--host", "127.0.0.1", "--port", "0", "--ready", "json-progress"]
        return cls(
            subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                **osdep.own_process_group(),
            )
        )

    @classmethod
    def start(
        cls,
        args: Sequence[str],
        *,
        command: Sequence[str] | None = None,
        stderr: IO[bytes] | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> Sidecar:
        """Start a server and wait until it answers. Raises what loading the model raised there."""
        sidecar = cls.spawn(args, command=command, stderr=stderr)
        try:
            sidecar.wait_ready(on_progress)
        except BaseException:
            sidecar.close()
            raise
        return sidecar

    def wait_ready(self, on_progress: Callable[[float], None] | None = None) -> Ready:
        """Wait until it answers. Raises the error it died of: `ModelNotFound`, `LoadFailed` ..."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = decode(raw)
            if isinstance(line, Ready):
                self._ready = line
                return line
            if isinstance(line, Failure):
                raise from_info(line.error)
            if isinstance(line, Progress) and on_progress is not None:
                on_progress(line.loading)
        reason = osdep.exit_reason(self.process.wait())
        raise LoadFailed(f"the server ended before it could answer ({reason}); its log on stderr says why")

    @property
    def ready(self) -> Ready:
        """Where it answers; `wait_ready` must have returned."""
        assert self._ready is not None
        return self._ready

    @property
    def url(self) -> str:
        return self.ready.url

    @property
    def token(self) -> str:
        return self.ready.token

    def close(self) -> None:
        """End it, kindly first. Idempotent."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        for end in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(STOP_TIMEOUT_S)
                break
            except subprocess.TimeoutExpired:
                end()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
