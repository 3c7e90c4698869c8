"""Streamed answers: what `chat` and `complete` return with `stream=True`. Knows nothing about loading models.

A cancelled answer ends like any other: its last delta has a finish, with the reason `cancelled`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol, Self

from localllm.errors import WrongOwner
from localllm.runtime.runtime import Answer
from localllm.system.cancel import Cancel
from localllm.types import CallDelta, Chat, Delta, Finish, Timings, TokenLogprob, Usage, whole_calls

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

NOT_BEGUN = Finish("cancelled", Usage(0, 0), Timings(0.0, 0.0, 0.0))


class AsyncStream(AsyncIterator[Delta]):
    """`async for delta in stream`; the last delta has `finish`. Leaving its context or dropping it cancels."""

    def __init__(self, owner: object, answer: Answer | None, cancel: Cancel | None) -> None:
        """Called on the event loop. Keeps `owner` alive. `answer` is None if it was cancelled before it began."""
        self._owner = owner
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._parts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[CallDelta] = []
        self._notes: list[str] = [] if answer is None else list(answer.notes)
        self._logprobs: list[TokenLogprob] = []
        self._prompt_logprobs: list[TokenLogprob] = []
        self._finish: Finish | None = None
        self._is_closed = False
        if cancel is not None and answer is not None:
            stop = _Stop(self)
            cancel.attach(stop)
            weakref.finalize(self, cancel.detach, stop).atexit = False

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt; 0 if the request was cancelled before it was tokenized."""
        return 0 if self._answer is None else self._answer.num_prompt_tokens

    @property
    def finish(self) -> Finish | None:
        """How the answer ended; None until the last delta was read."""
        return self._finish

    @property
    def is_over(self) -> bool:
        """Whether everything has been read, or the stream was closed."""
        return self._finish is not None or self._is_closed

    def cancel(self) -> None:
        """End the answer, from any thread, without blocking. Its reader gets what has arrived, then the finish."""
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:
            pass  # the loop is closed, so the answer has ended

    async def aclose(self) -> None:
        """Cancel, and read no further."""
        self._is_closed = True
        if asyncio.get_running_loop() is self._loop:
            self._stop()
        else:
            self.cancel()

    async def result(self) -> Chat:
        """Read to the end and return the whole answer, including what was read before."""
        async for _ in self:
            pass
        return self.so_far()

    def so_far(self) -> Chat:
        """What was read so far, as an answer; its finish reason is `cancelled` if the end was not read."""
        return Chat(
            "".join(self._parts),
            self._finish or NOT_BEGUN,
            tuple(self._logprobs),
            tuple(self._prompt_logprobs),
            "".join(self._thoughts),
            whole_calls(self._calls),
            tuple(self._notes),
        )

    async def __anext__(self) -> Delta:
        if self.is_over:
            raise StopAsyncIteration
        if asyncio.get_running_loop() is not self._loop:
            raise WrongOwner("this stream belongs to the event loop that made the request; read it there, or use LLM")
        delta = Delta(finish=NOT_BEGUN) if self._answer is None else await anext(self._answer)
        self._finish = delta.finish
        self._parts.append(delta.text)
        self._thoughts.append(delta.thought)
        self._calls += delta.calls
        self._notes += delta.notes
        self._logprobs += delta.logprobs
        self._prompt_logprobs += delta.prompt_logprobs
        return delta

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _stop(self) -> None:
        if self._answer is not None:
            self._answer.cancel()


class _Stop:
    """A weak callback: a `Cancel` may outlive the stream by far."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = weakref.ref(stream)

    def __call__(self) -> None:
        if (stream := self._stream()) is not None:
            stream.cancel()


class Caller(Protocol):
    """The part of `LLM` that a stream needs."""

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any: ...


class Stream(Iterator[Delta]):
    """`for delta in stream`; the last delta has `finish`. Leaving its context or dropping it cancels the answer.

    `cancel` and `close` may be called from any thread; only one thread may iterate at a time.
    """

    def __init__(self, owner: Caller, stream: AsyncStream) -> None:
        self._owner = owner
        self._stream = stream

    @property
    def num_prompt_tokens(self) -> int:
        """Length of the prompt; 0 if the request was cancelled before it was tokenized."""
        return self._stream.num_prompt_tokens

    @property
    def finish(self) -> Finish | None:
        """How the answer ended; None until the last delta was read."""
        return self._stream.finish

    def cancel(self) -> None:
        """End the answer, from any thread, without blocking. Its reader gets what has arrived, then the finish."""
        self._stream.cancel()

    def close(self) -> None:
        """Cancel, and read no further. Never blocks; idempotent and thread-safe."""
        self._stream._is_closed = True
        self._stream.cancel()

    def result(self) -> Chat:
        """Read to the end and return the whole answer, including what was read before."""
        for _ in self:
            pass
        return self._stream.so_far()

    def __next__(self) -> Delta:
        if self._stream.is_over:
            raise StopIteration
        try:
            delta: Delta | None = self._owner._run(_next(self._stream))
        except Exception:
            raise
        except BaseException:  # Ctrl-C: the traceback may keep this object alive, and its slot busy
            self.close()
            raise
        if delta is None:
            raise StopIteration
        return delta

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _next(stream: AsyncStream) -> Delta | None:
    return await anext(stream, None)
