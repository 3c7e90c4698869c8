"""The process that serves devices, seen from its parent: its start, its request, its end.

Never loads llama.cpp.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from localllm.errors import LoadFailed, WorkerCrashed, from_info
from localllm.rpc.messages import Answer, Refused, Serve, Serving
from localllm.system import processes
from localllm.system.programs import own_command

END_S = 5.0
"""Time for it to end with its stdin."""
LAST_LINES = 20


def child_command() -> list[str]:
    """The child's argv."""
    return own_command("localllm.llama.remote.rpc_child")


class ServingChild:
    """One process that serves one client at a time on a port of the loopback address."""

    def __init__(self, request: Serve, command: Sequence[str] | None = None) -> None:
        """Returns when it can serve. Raises its error, or `WorkerCrashed`."""
        try:
            self._process = subprocess.Popen(
                command or child_command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                **processes.own_process_group(),
            )
        except OSError as error:
            raise LoadFailed(f"the process that serves devices does not start: {error}") from error
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._echoes = request.verbose
        self._drainer = threading.Thread(target=self._drain, name="rpc-child-stderr", daemon=True)
        self._drainer.start()
        try:
            self.serving = self._ask(request)
        except BaseException:  # Ctrl-C too
            self.close()
            raise

    @property
    def port(self) -> int:
        return self.serving.port

    def death(self, within_s: float) -> str | None:
        """How it died, waiting up to `within_s` for that; None: it is alive."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None
        self._drainer.join(END_S)
        words = next((line for line in reversed(self._last) if line.strip()), "")
        return f"{processes.exit_reason(code)}" + (f"; it last said: {words[:500]}" if words else "")

    def close(self) -> None:
        """Ends it by closing its stdin, or kills it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._drainer.join(END_S)
        self._process.stdout.close()

    def _ask(self, request: Serve) -> Serving:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # dead already: reported below
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        line = self._process.stdout.readline()
        try:
            answer: Answer = msgspec.json.decode(line, type=Answer)
        except msgspec.MsgspecError:
            reason = self.death(END_S) or "its answer is invalid"
            raise WorkerCrashed(f"the process that serves devices ended: {reason}") from None
        if isinstance(answer, Refused):
            raise from_info(answer.error)
        return answer

    def _drain(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._last.append(line.decode("utf-8", "replace").rstrip())
                if self._echoes:
                    sys.stderr.write(self._last[-1] + "\n")
