"""The worker's side of one encoder process: questions from any thread, answers by id, and how it ended.

Does not know what is encoded, and restarts nothing.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Callable
from typing import BinaryIO, TypeVar, cast

import msgspec

from localllm.errors import InternalError, InvalidParameter, from_info
from localllm.system import processes
from localllm.system.programs import own_command
from localllm.system.threads import start_thread
from localllm.worker.framing import FrameReader, FrameWriter, FramingError, NotEncodable
from localllm.worker.media.encoder_messages import Describe, Encode, Open, Opened, Refused, Up

START_S = 300.0
"""Wall-clock limit for loading the projector, which may come from a slow disk."""

OTHERS_DOING = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
"""Signals that come from people, from the system when memory runs out, or from a service manager; never from a fault in
native code."""

A = TypeVar("A")
_decoder: msgspec.msgpack.Decoder[Up] = msgspec.msgpack.Decoder(Up)


class Ended(Exception):
    """The process is gone, or was killed for its slowness; the message says how it ended."""

    def __init__(self, how: str, *, was_asked: bool = True, was_killed: bool = False) -> None:
        super().__init__(how)
        self.was_asked = was_asked
        """Whether it may have got the question."""
        self.was_killed = was_killed
        """Whether something else ended it than what it computed."""


class _Question:
    def __init__(self) -> None:
        self.is_answered = threading.Event()
        self.answer: Up | None = None


class EncoderProcess:
    """One process; `ask` may be called on any thread."""

    def __init__(self, wanted: Open) -> None:
        """Starts it and waits until the projector is loaded. Raises `LocalLLMError`, `Ended`."""
        self._process = subprocess.Popen(
            own_command("localllm.worker.media.encoder_child"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            **processes.own_process_group(),
        )
        assert self._process.stdin is not None
        processes.keep_from_forks(self._process.stdin)
        self._writer = FrameWriter(cast(BinaryIO, self._process.stdin))
        self._writing = threading.Lock()
        """Not held by the reader: both pipes may be full."""
        self._ids = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._has_ended = False
        start_thread(self._read_all, "encoder-reader")
        try:
            self.sample_rate_hz = cast(Opened, self._exchange(0, wanted, START_S)).sample_rate_hz
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        return not self._has_ended

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(
        self, make: Callable[[int], Describe | Encode], kinds: type[A] | tuple[type[A], ...], deadline_s: float
    ) -> A:
        """The answer to the question that `make` returns for an id. Raises `LocalLLMError` if the library refuses it,
        `Ended`."""
        id = next(self._ids)
        answer = self._exchange(id, make(id), deadline_s)
        if not isinstance(answer, kinds):
            raise InternalError(f"the encoder answered with {type(answer).__name__}")
        return answer

    def close(self) -> None:
        """End it now. Idempotent."""
        self._process.kill()
        self._process.wait()

    def _exchange(self, id: int, message: Open | Describe | Encode, deadline_s: float) -> Up:
        was_asked, question = not self._has_ended, _Question()
        try:
            with self._writing:
                self._questions[id] = question
                self._writer.write(message)
        except NotEncodable as error:
            raise InvalidParameter(f"it is too large: {error.reason}") from None
        except (OSError, ValueError):  # it has ended, perhaps just now
            was_asked = False
        if self._has_ended:
            question.is_answered.set()
        if not question.is_answered.wait(deadline_s):
            self.close()
            raise Ended(f"no answer within {deadline_s:g} s")
        if question.answer is None:
            reason = processes.exit_reason(self._process.wait())
            raise Ended(str(reason), was_asked=was_asked, was_killed=reason.signal in OTHERS_DOING)
        if isinstance(question.answer, Refused):
            raise from_info(question.answer.error)
        return question.answer

    def _read_all(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        reader = FrameReader(cast(BinaryIO, self._process.stdout), _decoder)
        try:
            while (answer := reader.read()) is not None:
                question = self._questions.pop(answer.id, None)
                if question is not None:
                    question.answer = answer
                    question.is_answered.set()
        except (OSError, FramingError):
            self._process.kill()
        self._has_ended = True
        for question in list(self._questions.values()):
            question.is_answered.set()
        self._process.wait()
        self._process.stdout.close()
        self._process.stdin.close()
