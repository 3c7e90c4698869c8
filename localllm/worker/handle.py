"""The parent's side of one worker process: start it, send frames, receive frames on a thread, report how it died.

Knows nothing of the messages' meaning or of asyncio: `on_message` and `on_exit` are called on the handle's threads.
Whatever ends one of these threads ends the process, and `on_exit` gets the reason.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, cast

from localllm.errors import InvalidParameter, QueueFull, WorkerCrashed
from localllm.system import processes
from localllm.system.printable import printable
from localllm.worker.framing import FrameReader, FrameWriter, FramingError, NotEncodable, encode
from localllm.worker.messages import Down, Up, up_decoder

logger = logging.getLogger("localllm")

STDERR_BYTES = 8 * 1024
"""How much of a worker's last stderr output is kept."""
TERM_GRACE_S = 2.0
MAX_OUTBOX_BYTES = 256 * 1024 * 1024
"""Limit for frames that a worker has not read yet. A single larger one is accepted alone."""
SMALL_FRAME_BYTES = 4096
"""Always accepted: these end requests and check whether the process is alive."""

_NAMES = {"prompt_tokens": "prompt", "texts": "input", "tokens": "input"}
"""Field of a request -> its name for clients."""


class Outbox:
    """Frames on their way to a worker, bounded in bytes."""

    def __init__(self, max_bytes: int = MAX_OUTBOX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._frames: deque[bytes | bytearray] = deque()
        self._num_bytes = 0
        self._closed = False

    def put(self, frame: bytes | bytearray) -> None:
        """Never blocks. Raises `QueueFull` when too many frames are unread."""
        with self._changed:
            is_too_much = self._num_bytes and self._num_bytes + len(frame) > self._max_bytes
            if is_too_much and len(frame) > SMALL_FRAME_BYTES:
                raise QueueFull(
                    f"{self._num_bytes / 1e6:.0f} MB of requests are waiting for the model's process, of "
                    f"{self._max_bytes / 1e6:.0f} allowed; try again later"
                )
            if not self._closed:
                self._frames.append(frame)
                self._num_bytes += len(frame)
                self._changed.notify()

    def get(self) -> bytes | bytearray | None:
        """The next frame; blocks until there is one. None once the outbox is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._closed)
            if self._closed:
                return None
            frame = self._frames.popleft()
            self._num_bytes -= len(frame)
            return frame

    def close(self) -> None:
        """Discard all frames, now and from now on."""
        with self._changed:
            self._closed = True
            self._frames.clear()
            self._num_bytes = 0
            self._changed.notify_all()


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
        """Raises `WorkerCrashed` if no process can be started."""
        self._on_message = on_message
        self._on_exit = on_exit
        self._echo_stderr = echo_stderr
        self._stderr = bytearray()
        self._verdict: str | None = None
        """Why it was killed from here."""
        self._outbox = Outbox()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                **processes.own_process_group(),
            )
        except OSError as error:  # no memory, no file descriptors, no such program
            raise WorkerCrashed(f"the model's process could not be started: {error.strerror}") from error
        processes.keep_from_forks(cast(BinaryIO, self._process.stdin))
        try:
            self._writer = self._start(self._write, "worker-writer")
            self._drainer = self._start(self._drain_stderr, "worker-stderr")
            self._reader = self._start(self._read, "worker-reader")
        except RuntimeError as error:  # no more threads
            self._process.kill()
            with suppress(OSError, ValueError):  # a thread that did start closes what it read
                self._process.communicate()
            self._outbox.close()
            raise WorkerCrashed(f"the model's process could not be started: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Down) -> None:
        """Queue one frame; never blocks. Does not raise if the worker is gone: `on_exit` reports that.

        Raises `InvalidParameter` for what exceeds a frame, `QueueFull` while too much is unread.
        """
        try:
            frame = encode(message)
        except NotEncodable as error:
            name, field = None, error.field
            if field is not None and not field.startswith("args"):
                stem = field.partition("[")[0].partition(".")[0]
                name = _NAMES.get(stem, stem) + field[len(stem) :]
            sentence = error.reason if name is None else f"{name}: {error.reason}"
            raise InvalidParameter(sentence, param=name) from error
        self._outbox.put(frame)

    def kill(self, reason: str) -> None:
        """Kill the process; `on_exit` follows with the first reason given."""
        self._verdict = self._verdict or reason
        self._process.kill()

    def join(self, timeout_s: float) -> None:
        """Wait until its threads have ended, after `on_exit`."""
        self._reader.join(timeout_s)

    def _start(self, work: Callable[[], None], name: str) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                logger.exception("defect in the thread %s", name)
                self.kill(f"its {name} failed here with {type(error).__name__}")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _write(self) -> None:
        stream = cast(BinaryIO, self._process.stdin)
        writer = FrameWriter(stream)
        try:
            while (frame := self._outbox.get()) is not None:
                writer.write_frame(frame)
        except OSError:  # it is gone, and with it what remains in the outbox
            pass
        finally:
            self._outbox.close()
            stream.close()

    def _read(self) -> None:
        reader = FrameReader(cast(BinaryIO, self._process.stdout), up_decoder)
        problem = ""
        try:
            while (message := reader.read()) is not None:
                self._on_message(message)
        except FramingError as error:
            problem = f" after it sent an invalid message ({error})"
            self._process.kill()  # its output can no longer be trusted
        except OSError as error:
            problem = f" after its pipe broke ({error})"
        except Exception as error:
            logger.exception("defect in the thread worker-reader")
            self.kill(f"its worker-reader failed here with {type(error).__name__}")
        try:
            death = self._death(problem)
        except Exception:
            logger.exception("defect in the thread worker-reader")
            death = WorkerCrashed("the model's process ended")
        self._on_exit(death)

    def _death(self, problem: str) -> WorkerCrashed:
        try:
            self._process.wait(TERM_GRACE_S)
        except subprocess.TimeoutExpired:  # it closed its stdout and lives on, which is useless
            self._process.kill()
            self._process.wait()
        self._drainer.join(TERM_GRACE_S)  # a grandchild may hold stderr open
        self._outbox.close()
        self._writer.join(TERM_GRACE_S)
        cast(BinaryIO, self._process.stdout).close()
        reason = processes.exit_reason(self._process.returncode)
        last_words = bytes(self._stderr).decode("utf-8", "replace").strip()
        if self._verdict is None:
            message = f"the model's process ended with {reason}{problem}"
        else:
            message = f"the model's process was ended: {self._verdict}"
        if last_words:
            message += f"; it last said: {last_words.splitlines()[-1][:500]}"
        return WorkerCrashed(message, exit_code=reason.exit_code, signal=reason.signal, stderr=last_words)

    def _drain_stderr(self) -> None:
        with cast(BinaryIO, self._process.stderr) as stream:  # closed here: its children may hold it for longer
            while data := stream.read(65536):
                self._stderr += data
                del self._stderr[:-STDERR_BYTES]
                if self._echo_stderr:
                    self._echo(data)

    def _echo(self, data: bytes) -> None:
        try:
            sys.stderr.write(printable(data.decode("utf-8", "replace").replace("\r\n", "\n")))
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # closed, or there never was one
            self._echo_stderr = False
