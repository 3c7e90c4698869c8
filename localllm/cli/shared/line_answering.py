"""Answers the lines of `localllm batch`: by a model of this process, or by a server that runs on this machine.

Knows nothing of the file that they come from.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import IO, TYPE_CHECKING, NamedTuple

from localllm.batches.lines import MESSAGES, BatchLine, of_batch_class, with_model
from localllm.batches.results import Reply, ResultFile
from localllm.batches.running import Send, Tally, run, taking
from localllm.cli.render.progress import LoadProgress, PartProgress
from localllm.cli.render.units import duration

if TYPE_CHECKING:
    import httpx

    from localllm.client.api import Client
    from localllm.settings.config import Settings

DRAW_S = 0.2
"""How often the progress is drawn."""
LEAST_AT_A_TIME = 4


class LinesToAnswer(NamedTuple):
    """Those that have no answer yet."""

    lines: Iterator[BatchLine]
    num_lines: int
    model_for_all: bool
    """Whether the loaded model answers all, whatever they name."""
    concurrency: int | None
    """Requests at a time; None: by the model's slots."""


class Answering:
    """Lines on their way."""

    def __init__(self, settings: Settings, work: LinesToAnswer, open_output: Callable[[], IO[bytes]]) -> None:
        """`open_output` is called once the model is loaded."""
        self.tally = Tally()
        self.started_s = time.monotonic()
        """When the model was loaded."""
        self._settings = settings
        self._work = work
        self._open_output = open_output

    async def here(self, model: str) -> None:
        """By a model of this process: between it and its lines there is no HTTP. Raises what loading raises."""
        from localllm.server.edge import log
        from localllm.server.line_server import LineServer

        log.configure(self._settings.log_level if self._settings.verbose else "warning", self._settings.log_format)
        progress = LoadProgress()
        async with contextlib.AsyncExitStack() as stack:
            try:
                server = await stack.enter_async_context(LineServer(self._settings, model, progress))
            finally:
                progress.clear()

            def send(line: BatchLine) -> Awaitable[Reply]:
                return server.send(line._replace(body=of_batch_class(line)))

            await self._run(send, server.model, server.slots)

    async def there(self, running: Client, model: str) -> None:
        """By a server that runs, where the model is loaded."""
        from localllm.client.connection import connect_async

        slots = next((each.slots or 0 for each in running.processes() if each.model == model), 0)
        async with connect_async(running.url, running.token, self._at_a_time(slots)) as http:
            await self._run(functools.partial(_send, http), model, slots)

    def _at_a_time(self, slots: int) -> int:
        """Twice the slots, so that none is idle while an answer is on its way."""
        return self._work.concurrency or max(LEAST_AT_A_TIME, 2 * slots)

    async def _run(self, send: Send, model: str, slots: int) -> None:
        progress, drawn_s = PartProgress("batch"), 0.0
        self.started_s = started_s = time.monotonic()
        lines = self._work.lines
        if self._work.model_for_all:
            lines = (with_model(line, model) for line in lines)

        def write(line: BatchLine, reply: Reply | None) -> None:
            nonlocal drawn_s
            results.add(line, reply)
            now = time.monotonic()
            if now - drawn_s > DRAW_S:
                drawn_s = now
                progress.draw(_standing(self.tally.num_done + 1, self._work.num_lines, now - started_s))

        with self._open_output() as output:
            results = ResultFile(output)
            try:
                await run(taking(lines), send, write, concurrency=self._at_a_time(slots), tally=self.tally)
            finally:
                progress.clear()


def _standing(done: int, todo: int, seconds: float) -> str:
    rate = done / max(seconds, 0.001)
    return f"{done:,} of {todo:,}, {rate:.1f}/s, {duration((todo - done) / rate)} left"


async def _send(http: httpx.AsyncClient, line: BatchLine) -> Reply:
    """Raises `ServerGone`."""
    import httpx

    from localllm.client.api import ServerGone

    headers = {"content-type": "application/json"}
    if line.url == MESSAGES:
        headers["anthropic-version"] = "2023-06-01"
    try:
        answer = await http.post(line.url, content=of_batch_class(line), headers=headers)
    except httpx.HTTPError as error:
        raise ServerGone(
            f"the server ended while it answered line {line.number:,} ({type(error).__name__}); "
            "the same command goes on"
        ) from error
    return Reply(answer.status_code, answer.headers.get("x-request-id", ""), answer.content)
