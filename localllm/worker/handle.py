"""The parent's side of one worker process: start it, send frames, receive frames on a thread, learn how it died.

Knows nothing of what the messages mean, nor of asyncio: `on_message` and `on_exit` are called on the handle's threads.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO, cast

from localllm import osdep
from localllm.errors import WorkerCrashed
from localllm.worker.framing import FrameReader, FrameWriter, FramingError
from localllm.worker.messages import Down, Shutdown, Up, up_decoder

STDERR_BYTES = 8 * 1024
"""How much of a worker's last words is kept."""
TERM_GRACE_S = 2.0


class WorkerHandle:
    """One child process. `on_exit` is called exactly once, after the last `on_message`, with the reason."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_message: Callable[[Up], None],
        on_exit: Callable[[WorkerCrashed], None],
        echo_stderr: bool = False,
    ) -> None:
        self._on_message = on_message
        self._on_exit = on_exit
        self._echo_stderr = echo_stderr
        self._stderr = bytearray()
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **osdep.own_process_group(),
        )
        osdep.keep_from_forks(cast(BinaryIO, self._process.stdin))
        self._outbox: queue.SimpleQueue[Down | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="worker-writer", daemon=True)
        self._drainer = threading.Thread(target=self._drain_stderr, name="worker-stderr", daemon=True)
        self._reader = threading.Thread(target=self._read, name="worker-reader", daemon=True)
        for thread in (self._writer, self._drainer, self._reader):
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Down) -> None:
        """Queue one frame; never blocks. A worker that is gone is not an error here: `on_exit` tells."""
        self._outbox.put(message)

    def close(self, grace_s: float = TERM_GRACE_S) -> None:
        """Ask it to leave, then terminate, then kill; returns when the process is gone and its threads have ended."""
        self._outbox.put(Shutdown())
        for insist in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(grace_s)
                break
            except subprocess.TimeoutExpired:
                insist()
        self._process.wait()
        self._reader.join()

    def _write(self) -> None:
        stream = cast(BinaryIO, self._process.stdin)
        writer = FrameWriter(stream)
        while (message := self._outbox.get()) is not None:
            try:
                writer.write(message)
            except OSError:  # it is gone; what is left in the outbox goes nowhere
                break
        stream.close()

    def _read(self) -> None:
        reader = FrameReader(cast(BinaryIO, self._process.stdout), up_decoder)
        problem = ""
        try:
            while (message := reader.read()) is not None:
                self._on_message(message)
        except FramingError as error:
            problem = f" after it sent something that is no message ({error})"
            self._process.kill()  # nothing that it says can be trusted any more
        except OSError as error:
            problem = f" after its pipe broke ({error})"
        self._on_exit(self._death(problem))

    def _death(self, problem: str) -> WorkerCrashed:
        try:
            self._process.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:  # it closed its stdout and lives on: of no use to anybody
            self._process.kill()
            self._process.wait()
        self._drainer.join(TERM_GRACE_S)  # a grandchild may hold stderr open
        self._outbox.put(None)
        self._writer.join()
        cast(BinaryIO, self._process.stdout).close()
        if not self._drainer.is_alive():
            cast(BinaryIO, self._process.stderr).close()
        reason = osdep.exit_reason(self._process.returncode)
        last_words = bytes(self._stderr).decode("utf-8", "replace").strip()
        message = f"the model's process ended with {reason}{problem}"
        if last_words:
            message += f"; it last said: {last_words.splitlines()[-1][:500]}"
        return WorkerCrashed(message, exit_code=reason.exit_code, signal=reason.signal, stderr=last_words)

    def _drain_stderr(self) -> None:
        stream = cast(BinaryIO, self._process.stderr)
        while data := stream.read(65536):
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]
            if self._echo_stderr:
                sys.stderr.write(data.decode("utf-8", "replace"))
                sys.stderr.flush()
