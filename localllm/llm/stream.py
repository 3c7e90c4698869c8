"""Answers as they come: what `chat` and `complete` give with `stream=True`. Knows nothing of how models are loaded.

An answer that is cancelled ends like any other: its last delta has a finish, whose reason is `cancelled`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol, Self

from localllm.cancel import Cancel
from localllm.errors import WrongOwner
from localllm.runtime.runtime import Answer
from localllm.types import CallDelta, Chat, Delta, Finish, Timings, TokenLogprob, Usage, whole_calls

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

NOT_BEGUN = Finish("cancelled", Usage(0, 0), Timings(0.0, 0.0, 0.0))


class AsyncStream(AsyncIterator[Delta]):
    """`async for delta in stream`; the last delta has `finish`. A context manager; letting go of it cancels as well."""

    def __init__(self, owner: object, answer: Answer | None, cancel: Cancel | None) -> None:
        """On the event loop. `owner` stays alive as long as this. Without `answer` it was cancelled before it began."""
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
        """Of the prompt; 0 where it was cancelled before they were counted."""
        return 0 if self._answer is None else self._answer.num_prompt_tokens

    @property
    def finish(self) -> Finish | None:
        """How it ended; None until the last delta was read."""
        return self._finish

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to read."""
        return self._finish is not None or self._is_closed

    def cancel(self) -> None:
        """End the answer, from any thread; never blocks. Who reads gets what has come, and a finish that says so."""
        try:
            self._loop.call_soon_threadsafe(self._stop)
        except RuntimeError:
            pass  # the loop is closed, and so is the answer

    async def aclose(self) -> None:
        """`cancel`, and read no more."""
        self._is_closed = True
        if asyncio.get_running_loop() is self._loop:
            self._stop()
        else:
            self.cancel()

    async def result(self) -> Chat:
        """Read to the end; the whole answer, with what was read before."""
        async for _ in self:
            pass
        return self.so_far()

    def so_far(self) -> Chat:
        """What was read, as an answer; `cancelled` if its end was not."""
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
            raise WrongOwner("this stream belongs to the event loop that asked; read it there, or use LLM")
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
    """For a `Cancel` that may outlive the stream by far."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = weakref.ref(stream)

    def __call__(self) -> None:
        if (stream := self._stream()) is not None:
            stream.cancel()


class Caller(Protocol):
    """The part of `LLM` that a stream needs."""

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any: ...


class Stream(Iterator[Delta]):
    """`for delta in stream`; the last delta has `finish`. A context manager; letting go of it cancels as well.

    `cancel` and `close` may be called from any thread; only one may iterate at a time.
    """

    def __init__(self, owner: Caller, stream: AsyncStream) -> None:
        self._owner = owner
        self._stream = stream

    @property
    def num_prompt_tokens(self) -> int:
        """Of the prompt; 0 where it was cancelled before they were counted."""
        return self._stream.num_prompt_tokens

    @property
    def finish(self) -> Finish | None:
        """How it ended; None until the last delta was read."""
        return self._stream.finish

    def cancel(self) -> None:
        """End the answer, from any thread; never blocks. Who reads gets what has come, and a finish that says so."""
        self._stream.cancel()

    def close(self) -> None:
        """`cancel`, and read no more. Never blocks, from any thread. Idempotent."""
        self._stream._is_closed = True
        self._stream.cancel()

    def result(self) -> Chat:
        """Read to the end; the whole answer, with what was read before."""
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
        except BaseException:  # Ctrl-C: the traceback may hold this object for long, and a slot with it
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
