"""The queue of batches: each owner's one after the other, all owners at the same time, from where a process left them.

A batch is driven by the server whose process holds its lock. What the lines ask for is served after all requests that
somebody waits for; another model that is asked for gets its room between two lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from localllm.batches.driving import Driver
from localllm.batches.jobs import Job, JobFolder, owners_with_work, unfinished
from localllm.batches.lines import BatchLine
from localllm.batches.results import Reply
from localllm.batches.stored import FOLDER, Limits, Owned, Owners
from localllm.errors import Draining
from localllm.server.apis.batches.sending import send
from localllm.server.edge import log
from localllm.server.edge.callers import ANYBODY, Caller, KeyRing
from localllm.server.watching.meters import BatchMeters
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads

LOOK_AGAIN_S = 30.0
"""How often a batch that another process drives is looked at."""
LEAST_AT_A_TIME = 4


class _KeyGone(Exception):
    """The key that made the batch is not valid any more; it is gone on with if it becomes valid again."""


class Batches:
    """Everything of files and batches in one server. Belongs to one event loop."""

    def __init__(self, settings: Settings, slots: Callable[[str | None], int], meters: BatchMeters) -> None:
        """`slots`: how many answers a model writes at the same time."""
        self.meters = meters
        self.owners = Owners(settings.data_dir / FOLDER, limits_of(settings))
        self.disk = Threads("batches", 4, max_waiting=settings.max_waiting, full=": too many requests need the disk")
        self._driving = Threads("batch-lines", 4)
        self._slots = slots
        self._queues: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        """By owner: set when there is another batch, or one shall end."""
        self._drivers: dict[str, Driver] = {}
        """By batch, those that are under way here."""
        self._app: ASGIApp | None = None
        self._keys: KeyRing | None = None

    @property
    def num_running(self) -> int:
        """Batches under way in this process."""
        return len(self._drivers)

    async def start(self, app: ASGIApp, keys: KeyRing, *, resumes: bool) -> None:
        """Answer batches from now on. `resumes`: also those that another process left."""
        self._app, self._keys = app, keys
        if resumes:
            for owner in await self.disk.run(owners_with_work, self.owners.root):
                await self.disk.run(self.owners.of(owner).sweep)
                self.wake(owner)

    def wake(self, owner: str) -> None:
        """There is a batch to answer."""
        self._news.setdefault(owner, asyncio.Event()).set()
        if owner not in self._queues and self._app is not None:
            self._queues[owner] = asyncio.get_running_loop().create_task(self._work(owner))

    def job(self, owned: Owned, job: Job) -> Job:
        """What is known of a batch now, if it is under way here."""
        driver = self._drivers.get(job.id)
        return job if driver is None or driver.job.owner != owned.owner else driver.job

    async def cancel(self, owned: Owned, job: Job) -> None:
        """Let it end. Raises `OSError`."""
        await self.disk.run(JobFolder(owned, job.id).cancel)
        driver = self._drivers.get(job.id)
        if driver is not None:
            driver.cancel()
        self.wake(owned.owner)

    async def stop(self) -> None:
        """Leave all batches as they are, for the next process."""
        self._app = None
        tasks = list(self._queues.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, owner: str) -> None:
        try:
            await self._answer_all(owner)
        finally:
            del self._queues[owner]  # at once: a batch that is made from now on wakes another

    async def _answer_all(self, owner: str) -> None:
        owned, news = self.owners.of(owner), self._news[owner]
        while True:
            news.clear()
            named = await self._driving.run(unfinished, owned)
            if not named and not news.is_set():
                return
            for id in named:
                if await self._try(owned, id):
                    break  # look again: others may have come
            else:
                if not named:
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_AGAIN_S)

    async def _try(self, owned: Owned, id: str) -> bool:
        """Whether the batch was driven to its end."""
        folder = JobFolder(owned, id)
        try:
            with folder.locked() as is_ours:
                job = await self._driving.run(folder.load) if is_ours else None
                if job is None or job.has_ended:
                    return False
                await self._drive(folder, job)
                return True
        except _KeyGone:
            log.event(logging.WARNING, "batch_waits_for_its_key", batch=id)
        except Draining:
            log.event(logging.INFO, "batch_waits_for_a_server", batch=id)
        except Exception as error:  # noqa: BLE001 (no batch may end the queue)
            log.logger.error("batch %s cannot be gone on with", id, exc_info=error)
        return False

    async def _drive(self, folder: JobFolder, job: Job) -> None:
        driver = self._drivers[job.id] = Driver(folder, job, self._driving.run, self.meters.line)
        self.meters.running(self.num_running)
        log.event(logging.INFO, "batch_begins", batch=job.id, status=job.status)
        try:
            await driver.drive(self._sender(job.owner), self._at_a_time(job.owner))
        finally:
            del self._drivers[job.id]
            self.meters.running(self.num_running)
        counts: dict[str, Any] = {"answered": job.answered, "failed": job.failed, "unsent": job.unsent}
        log.event(logging.INFO, "batch_ended", batch=job.id, status=job.status, lines=job.total, **counts)

    def _sender(self, owner: str) -> Callable[[BatchLine], Any]:
        async def sent(line: BatchLine) -> Reply:
            if self._app is None:
                raise Draining("the server is shutting down")
            return await send(self._app, self._caller(owner), line)

        return sent

    def _at_a_time(self, owner: str) -> Callable[[str | None], int]:
        """Twice the slots, so that none waits for the next line, but no more than the key may have."""

        def at_a_time(model: str | None) -> int:
            most = self._caller(owner).max_concurrent
            wanted = max(LEAST_AT_A_TIME, 2 * self._slots(model))
            return min(wanted, most) if most else wanted

        return at_a_time

    def _caller(self, owner: str) -> Caller:
        """Raises `_KeyGone`."""
        assert self._keys is not None
        if owner == ANYBODY.owner and not self._keys.pairs:
            return self._keys.anybody
        for caller, _ in self._keys.pairs:
            if caller.owner == owner:
                return caller
        raise _KeyGone


def limits_of(settings: Settings) -> Limits:
    """Those of the settings."""
    return Limits(
        settings.max_file_mb,
        settings.max_files_mb,
        settings.max_files,
        settings.max_batches,
        settings.max_batch_lines,
        settings.max_body_bytes,
    )
