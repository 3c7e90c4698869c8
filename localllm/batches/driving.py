"""Answers a batch that a client made of a server, from wherever an earlier process left it.

    validating -> in_progress -> finalizing -> completed | expired | cancelled
        `-> failed: a line is wrong, or there is no room for the results

Results are appended as they come, and read again after a kill: every line has one, whatever happens to the process.
Knows neither HTTP nor models.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import IO, Any, NamedTuple

import msgspec

from localllm.batches.jobs import Job, JobFolder, Problem, Status
from localllm.batches.lines import BatchLine, batched, model_of, read_lines
from localllm.batches.results import Outcome, Reply, ResultFile, result_of, unsent_result, written
from localllm.batches.running import Send, Tally, run
from localllm.batches.stored import Limits, full, new_id
from localllm.batches.windows import Ahead, InThread
from localllm.errors import InvalidParameter, sentence_of

MOST_PROBLEMS = 20
"""Named, of a batch's wrong lines."""
SAVE_S = 2.0
"""How often the counts are written, for other processes."""


class _Cancelled(Exception):
    """Somebody wants the batch to end."""


class Driver:
    """One batch, while this process holds its lock."""

    def __init__(
        self, folder: JobFolder, job: Job, in_thread: InThread, on_line: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        """`on_line`: called with what became of each line, from any thread."""
        self.job = job
        self._on_line = on_line
        self._folder = folder
        self._in_thread = in_thread
        self._done: set[str] = set()
        self._cancelled = asyncio.Event()

    def cancel(self) -> None:
        """Let it end now: the folder says so already."""
        self._cancelled.set()

    async def drive(self, send: Send, concurrency: Callable[[str | None], int]) -> None:
        """To its end. A cancelled call leaves it to be gone on with. `concurrency`: for the model of the first line."""
        try:
            if self.job.status == "validating":
                await self._in_thread(self._validate)
            if self.job.status == "in_progress":
                await self._answer(send, concurrency)
            if self.job.status == "finalizing":
                await self._in_thread(self._finalize)
        except (InvalidParameter, OSError) as error:
            why = sentence_of(error) if isinstance(error, OSError) else error.message
            self.job.problems = [Problem("no_room" if isinstance(error, InvalidParameter) else "disk", why)]
            await self._in_thread(lambda: self._finalize("failed"))

    def _lines(self) -> Iterator[BatchLine]:
        with self._folder.input(self.job).open("rb") as file:
            yield from read_lines(file, self.limits.max_line_bytes)

    def _validate(self) -> None:
        job = self.job
        job.total, job.problems = check(self._lines(), job.endpoint, self.limits.max_batch_lines)
        if job.problems:
            self._become("failed", ended_s=int(time.time()))
        else:
            self._become("in_progress", began_s=int(time.time()))

    def _become(self, status: Status, **changes: Any) -> None:
        """On disk first: what is seen of the job here is true for everybody."""
        self._folder.save(msgspec.structs.replace(self.job, status=status, **changes))
        for name, value in changes.items():
            setattr(self.job, name, value)
        self.job.status = status

    async def _answer(self, send: Send, concurrency: Callable[[str | None], int]) -> None:
        folder = self._folder
        room_bytes = await self._in_thread(self._recall)
        with folder.answered.open("ab") as answered, folder.failed.open("ab") as failed:
            writing = _Writing(self, ResultFile(answered), ResultFile(failed), room_bytes)
            todo = (batched(line) for line in self._lines() if line.id not in self._done)
            ahead = Ahead(todo, self._in_thread)
            ends_as = await self._until_ended(self._run(ahead, send, writing, concurrency))
        finalizing_s = int(time.time())
        await self._in_thread(lambda: self._become("finalizing", finalizing_s=finalizing_s, ends_as=ends_as))

    async def _run(self, ahead: Ahead, send: Send, writing: _Writing, concurrency: Callable[[str | None], int]) -> None:
        saving = asyncio.create_task(self._save_counts())
        try:
            first = await ahead.first()
            model = None if first is None else model_of(first)
            await run(ahead.take, send, writing.write, concurrency=concurrency(model), tally=Tally())
        finally:
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)

    async def _until_ended(self, work: Coroutine[Any, Any, None]) -> Status:
        """What the batch ends as. Raises what `work` raises."""
        running = asyncio.ensure_future(work)
        cancelled = asyncio.ensure_future(self._cancelled.wait())
        try:
            left_s = max(0.0, self.job.expires_s - time.time())
            done, _ = await asyncio.wait({running, cancelled}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if running in done:
                with contextlib.suppress(_Cancelled):
                    running.result()
                    return "completed"
            return "expired" if not done else "cancelled"
        finally:
            for task in (running, cancelled):
                task.cancel()
            await asyncio.gather(running, cancelled, return_exceptions=True)

    async def _save_counts(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            await self._in_thread(lambda: self._folder.save(self.job))

    def _recall(self) -> int:
        """Read what was answered before; returns how much may be written."""
        job, self._done = self.job, set()
        job.answered = job.failed = job.unsent = 0
        for path in (self._folder.answered, self._folder.failed):
            written(path, self._count)
        return self._folder.owned.room_bytes()

    def _count(self, id: str, outcome: Outcome) -> None:
        self._done.add(id)
        setattr(self.job, outcome, getattr(self.job, outcome) + 1)

    def _finalize(self, ends_as: Status | None = None) -> None:
        job, folder = self.job, self._folder
        ends_as = ends_as or job.ends_as or "completed"
        if ends_as in ("cancelled", "expired"):
            self._recall()
            file = folder.failed if job.kind == "openai" else folder.answered
            with file.open("ab") as rest:
                self._add_unsent(rest, is_expired=ends_as == "expired")
        if job.kind == "openai":
            self._publish()
        self._become(ends_as, ended_s=int(time.time()))

    def _add_unsent(self, file: IO[bytes], *, is_expired: bool) -> None:
        results = ResultFile(file)
        for line in self._lines():
            if line.id not in self._done:
                results.append(unsent_result(line, is_expired=is_expired))
                self._count(line.id, "unsent")
                self._on_line("unsent")

    def _publish(self) -> None:
        """Make files of the results; their ids are written first, so that a kill in between makes none twice."""
        job, folder = self.job, self._folder
        if job.output_file is None and folder.answered.exists() and folder.answered.stat().st_size:
            job.output_file = new_id("file-")
        if job.error_file is None and folder.failed.exists() and folder.failed.stat().st_size:
            job.error_file = new_id("file-")
        folder.save(job)
        expires_s = None if job.output_lifetime_s is None else int(time.time()) + job.output_lifetime_s
        for id, path, name in (
            (job.output_file, folder.answered, "output"),
            (job.error_file, folder.failed, "errors"),
        ):
            if id is not None:
                folder.owned.take(path, id, f"{job.id}_{name}.jsonl", expires_s)

    @property
    def limits(self) -> Limits:
        """The owner's."""
        return self._folder.owned.limits

    def is_cancelled(self) -> bool:
        """Whether another process wants it to end."""
        return self._folder.cancelled_s is not None

    def wrote(self, line: BatchLine, *, is_answer: bool) -> None:
        """Count a result."""
        outcome: Outcome = "answered" if is_answer else "failed"
        self._count(line.id, outcome)
        self._on_line(outcome)


class _Writing(NamedTuple):
    """Where results of a running batch go."""

    driver: Driver
    answered: ResultFile
    failed: ResultFile
    room_bytes: int
    """When it began or was gone on with."""

    def write(self, line: BatchLine, reply: Reply | None) -> None:
        """Raises `_Cancelled`, `InvalidParameter` if there is no room for more, `OSError`."""
        is_answer = reply is not None and reply.is_answer
        file = self.answered if is_answer or line.is_anthropic else self.failed
        if self.answered.size_bytes + self.failed.size_bytes > self.room_bytes:
            raise full(self.driver.limits)
        file.append(result_of(line, reply))
        self.driver.wrote(line, is_answer=is_answer)
        if self.driver.is_cancelled():
            raise _Cancelled


def check(lines: Iterator[BatchLine], endpoint: str, most: int) -> tuple[int, list[Problem]]:
    """How many lines there are, and what is wrong with them; no more are named than anybody reads."""
    numbers: dict[str, int] = {}
    problems: list[Problem] = []
    for line in lines:
        if line.problem:
            problems.append(Problem("invalid_line", line.problem, line.number))
        elif line.url != endpoint:
            problems.append(
                Problem("mismatched_endpoint", f"url must be that of the batch, {endpoint}", line.number, "url")
            )
        if line.id in numbers:
            said = f"line {numbers[line.id]:,} has the same custom_id {line.id[:80]!r}"
            problems.append(Problem("duplicate_custom_id", said, line.number, "custom_id"))
        numbers.setdefault(line.id, line.number)
        if len(numbers) > most:
            problems.append(Problem("too_many_lines", f"a batch may have {most:,} lines (max_batch_lines)"))
        if len(problems) >= MOST_PROBLEMS or len(numbers) > most:
            break
    if not numbers:
        problems.append(Problem("empty", "the file has no lines", param="input_file_id"))
    return len(numbers), problems
