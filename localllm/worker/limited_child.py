"""A process for work that cannot be stopped in a thread: one request after another, each bounded in time and memory.

The operating system bounds CPU time and memory where it can; the parent's deadline bounds wall time everywhere. A
killed child is restarted. Knows nothing of the requests' content.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Generic, NoReturn, TypeVar, cast

import msgspec

from localllm.errors import InternalError
from localllm.system import processes
from localllm.system.programs import own_command
from localllm.worker.framing import FrameReader, FrameWriter, FramingError, encode
from localllm.worker.watchdog import Watchdog

Question = TypeVar("Question")
Answer = TypeVar("Answer", bound=msgspec.Struct)

START_S = 60.0
"""Wall-clock limit for a child's imports."""


class OverLimit(Exception):
    """The child was killed because of a request, by its own limit or by the deadline; the message says how it ended."""


class LimitedChild(Generic[Answer]):
    """The parent's side. Used by one thread."""

    def __init__(self, command: list[str], answer: type[Answer]) -> None:
        """`command`: a module and its arguments; it calls `serve`."""
        self._module = command[0]
        self._command = [*own_command(command[0]), *command[1:]]
        self._decoder = msgspec.msgpack.Decoder(answer)
        self._process = self._start()
        self._is_ready = False
        self._watchdog = Watchdog(lambda: self._process.kill())

    def ask(self, frame: bytearray, deadline_s: float) -> Answer:
        """Send one request and return its answer. Raises `OverLimit`, also after `deadline_s`, and `InternalError`."""
        if self._process.poll() is not None:
            self._restart()
        self._wait_until_ready()
        answer, overran = self._exchange(frame, deadline_s)
        if answer is None:
            self._raise_end(overran=overran)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _wait_until_ready(self) -> None:
        if not self._is_ready:
            ready, overran = self._exchange(None, START_S)
            if ready is None or overran:
                self._raise_end(overran=overran)
            self._is_ready = True

    def _exchange(self, frame: bytearray | None, deadline_s: float) -> tuple[Answer | None, bool]:
        """The next answer, or None if the child ended, and whether the deadline ended it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._watchdog.begin(deadline_s)
        try:
            if frame is not None:
                FrameWriter(cast(BinaryIO, process.stdin)).write_frame(frame)
            answer = FrameReader(cast(BinaryIO, process.stdout), self._decoder).read()
        except (OSError, FramingError):
            answer = None
            process.kill()  # it may be alive, after an invalid answer
        finally:
            overran = self._watchdog.end()
        if overran:
            process.wait()  # so that the next request finds it ended, even if this one was answered just in time
        return answer, overran

    def _raise_end(self, *, overran: bool) -> NoReturn:
        reason = processes.exit_reason(self._process.wait())
        self._restart()
        if not reason.crashed and not overran:  # it exited by itself: our defect, not the request's
            raise InternalError(f"{self._module} ended with {reason}")
        raise OverLimit(str(reason))

    def _restart(self) -> None:
        self.close()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._is_ready = False
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **processes.own_process_group()
        )


def serve(
    questions: msgspec.msgpack.Decoder[Question],
    ready: msgspec.Struct,
    prepare: Callable[[], Callable[[Question], bytearray]],
    *,
    cpu_s: float,
    memory_bytes: int,
) -> None:
    """The child's side, until end-of-file: `prepare` imports what it needs and returns a function from request to
    frame.

    `ready` is sent first, before any request.
    """
    source, sink = processes.claim_standard_streams()
    reader, writer = FrameReader(source, questions), FrameWriter(sink)
    answer_to = prepare()
    processes.limit_memory(memory_bytes)
    with suppress(BrokenPipeError):  # the parent is gone and has reported why
        writer.write_frame(encode(ready))
        while (request := reader.read()) is not None:
            processes.limit_further_cpu(cpu_s)
            writer.write_frame(answer_to(request))
