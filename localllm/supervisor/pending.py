"""One generation request until it ends, on the worker it was sent to or on its replacement. Lives on one event loop.

Its deadlines are also enforced here: normally the worker ends a late request, with what it has; here it is ended if the
worker hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol, TypeVar

import msgspec

from localllm.errors import LocalLLMError, RequestTimeout
from localllm.supervisor.mailbox import Mailbox
from localllm.types import Delta, Finish, GenerationRequest
from localllm.types.embeddings import EmbeddingRequest, RerankRequest

DEADLINE_GRACE_S = 5.0
"""Time beyond a deadline for the worker to end the request itself, with what it has."""


MIN_TIMEOUT_S = 0.001
"""The shortest timeout that a request may have."""

TimedT = TypeVar("TimedT", GenerationRequest, EmbeddingRequest, RerankRequest)
R = TypeVar("R", bound=GenerationRequest | EmbeddingRequest | RerankRequest)


class Holder(Protocol):
    """What holds the request now: a session, or the retries."""

    @property
    def is_silent(self) -> bool:
        """Whether the worker is not responding at the moment."""

    def withdraw(self, pending: Pending) -> None:
        """The request has ended; do nothing more for it."""


class OnEnd(Protocol):
    """What becomes of a request is told once: its finish, or an error code."""

    def __call__(self, end: Finish | str, /, *, is_batch: bool) -> None: ...


class Pending:
    """`mailbox` is the reader's side."""

    def __init__(self, request: GenerationRequest, holder: Holder, on_end: OnEnd) -> None:
        self._loop = asyncio.get_running_loop()
        self.mailbox = Mailbox(self._loop)
        self.request = request
        self.holder = holder
        self.id = 0
        """Its id in the holder's messages to the worker."""
        self.was_retried = False
        self.begun = asyncio.Event()
        """Set when the answer has begun, or the request has ended."""
        self._on_end = on_end
        self._has_ended = False
        self._started_s = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []
        for seconds, callback in ((request.timeout_s, self._late), (request.queue_timeout_s, self._late_in_queue)):
            if seconds is not None:
                self._timers.append(self._loop.call_later(seconds + DEADLINE_GRACE_S, callback))

    def put(self, delta: Delta) -> None:
        """The next piece of the answer; a piece with a `finish` ends it."""
        self.mailbox.put(delta)
        if not delta.progress or delta.num_tokens:
            self.begun.set()
        if delta.finish is not None:
            self._end(delta.finish)

    def fail(self, error: LocalLLMError) -> None:
        """End it with this error; its holder has already let go of it."""
        self.mailbox.fail(error)
        self._end(error.code)

    def cancel(self) -> None:
        """End it, since its answer is no longer wanted. Idempotent."""
        if not self._has_ended:
            self.holder.withdraw(self)
            self._end("cancelled")

    def abandon(self) -> None:
        """`cancel`, from any thread: an answer was garbage-collected before its end."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the request with it
            self._loop.call_soon_threadsafe(self.cancel)

    def remaining(self) -> GenerationRequest:
        """The request with the time that remains. Raises `RequestTimeout`."""
        return remaining(self.request, self._loop.time() - self._started_s)

    def _late(self) -> None:
        self._expire(f"it was not answered within the {self.request.timeout_s:.3g} s that it allows (timeout)")

    def _late_in_queue(self) -> None:
        """Only the worker knows which requests have slots, so this decides only while the worker is silent."""
        if not self.begun.is_set() and (not self.mailbox.accepted.done() or self.holder.is_silent):
            seconds = self.request.queue_timeout_s
            self._expire(f"no slot was free within the {seconds:.3g} s that a request may wait (queue_timeout_s)")

    def _expire(self, sentence: str) -> None:
        if not self._has_ended:
            self.holder.withdraw(self)
            self.fail(RequestTimeout(f"{sentence}; the model's process does not answer"))

    def _end(self, end: Finish | str) -> None:
        if not self._has_ended:
            self._has_ended = True
            for timer in self._timers:
                timer.cancel()
            self.begun.set()
            self._on_end(end, is_batch=self.request.batch)


def remaining(request: R, elapsed_s: float) -> R:
    """The request for another attempt. Raises `RequestTimeout` when its time is up."""
    if request.timeout_s is None:
        return request
    left_s = request.timeout_s - elapsed_s
    if left_s < MIN_TIMEOUT_S:
        raise RequestTimeout(
            f"its {request.timeout_s:.3g} s (timeout) ran out before it could be retried: "
            "the model's process had crashed"
        )
    return msgspec.structs.replace(request, timeout_s=left_s)


def with_less_time(request: TimedT, waited_s: float) -> TimedT:
    """`request` with the rest of its time limits after a wait of `waited_s`."""

    def rest(limit_s: float | None) -> float | None:
        return None if limit_s is None else max(MIN_TIMEOUT_S, limit_s - waited_s)

    return msgspec.structs.replace(
        request, timeout_s=rest(request.timeout_s), queue_timeout_s=rest(request.queue_timeout_s)
    )
