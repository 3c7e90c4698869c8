"""Runs a batch: so many requests at a time, each result written as it comes. Knows neither files nor HTTP.

lines   [answered before | in flight | not yet taken)       a line is taken only when a request has ended
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from localllm.batches.lines import BatchLine
from localllm.batches.results import Reply

Send = Callable[[BatchLine], Awaitable[Reply]]
"""Sends a request; raises what ends the whole batch, above all that there is no server any more."""
Write = Callable[[BatchLine, Reply | None], None]
Take = Callable[[], Awaitable[BatchLine | None]]
"""The next line, or None at the end; called by several at a time."""
MOST_TRIES = 5
"""Of a request that finds the server full or a worker gone."""
FIRST_PAUSE_S = 0.5
"""Before the second try; doubled for each after it."""


@dataclass
class Tally:
    """How a batch stands."""

    num_answered: int = 0
    num_failed: int = 0
    """Refused, or with an error of the server."""
    first_failed: BatchLine | None = None

    @property
    def num_done(self) -> int:
        return self.num_answered + self.num_failed


def taking(lines: Iterator[BatchLine]) -> Take:
    """Takes from an iterator that does not block."""

    async def take() -> BatchLine | None:
        return next(lines, None)

    return take


async def run(
    take: Take,
    send: Send,
    write: Write,
    *,
    concurrency: int,
    tally: Tally,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Send all lines, at most `concurrency` at a time. What `send`, `write` or `take` raise ends the others.

    tally: counts up while this runs.
    """

    async def work() -> None:
        while (line := await take()) is not None:
            reply = None if line.problem else await _tried(line, send, pause)
            write(line, reply)
            if reply is not None and reply.is_answer:
                tally.num_answered += 1
            else:
                tally.num_failed += 1
                tally.first_failed = tally.first_failed or line

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors


async def _tried(line: BatchLine, send: Send, pause: Callable[[float], Awaitable[None]]) -> Reply:
    for number in range(MOST_TRIES - 1):
        reply = await send(line)
        if reply.is_final:
            return reply
        await pause(FIRST_PAUSE_S * 2**number)
    return await send(line)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
