"""Batches that clients of a server made: what is known of each, on disk, so that another process goes on with it.

    OWNER/jobs/ID/job.json           a `Job`; written only by who holds `lock`
    OWNER/jobs/ID/input.jsonl        lines that came with the batch (Anthropic's; OpenAI's are in a file of the owner)
    OWNER/jobs/ID/answered.jsonl     results, appended as they come
    OWNER/jobs/ID/failed.jsonl       OpenAI's: results that are errors
    OWNER/jobs/ID/cancel             it shall end: anybody may ask for that

Methods block. Knows neither HTTP nor how a line is answered.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from localllm.batches.stored import ID, Owned, new_id
from localllm.errors import InvalidParameter
from localllm.system import files

Status = Literal["validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelled"]
ENDED: frozenset[Status] = frozenset({"completed", "failed", "expired", "cancelled"})
Kind = Literal["openai", "anthropic"]
PREFIXES: dict[Kind, str] = {"openai": "batch_", "anthropic": "msgbatch_"}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a batch failed as a whole."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class Job(msgspec.Struct, kw_only=True):
    """A batch. Times are seconds since 1970."""

    id: str
    owner: str
    kind: Kind
    endpoint: str
    window: str
    """As the client wrote it: `24h`."""
    created_s: int
    expires_s: int
    input_file: str | None = None
    metadata: dict[str, str] | None = None
    output_lifetime_s: int | None = None
    status: Status = "validating"
    began_s: int | None = None
    finalizing_s: int | None = None
    ended_s: int | None = None
    total: int = 0
    answered: int = 0
    failed: int = 0
    """Without those that were never sent."""
    unsent: int = 0
    """Lines that were not sent before it was cancelled or expired."""
    ends_as: Status | None = None
    """While finalizing."""
    problems: list[Problem] = []
    output_file: str | None = None
    error_file: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


class JobFolder:
    """The folder of one batch."""

    def __init__(self, owned: Owned, id: str) -> None:
        self.owned = owned
        self.path = owned.jobs_folder / id
        self.answered = self.path / "answered.jsonl"
        self.failed = self.path / "failed.jsonl"
        self._input = self.path / "input.jsonl"
        self._job = self.path / "job.json"
        self._cancel = self.path / "cancel"

    def load(self) -> Job | None:
        """None if there is no such batch."""
        try:
            return msgspec.json.decode(self._job.read_bytes(), type=Job)
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None

    def save(self, job: Job) -> None:
        """Raises `OSError`."""
        files.write_whole(self._job, msgspec.json.encode(job))

    def input(self, job: Job) -> Path:
        """Where its lines are."""
        return self._input if job.input_file is None else self.owned.path(job.input_file)

    def cancel(self) -> None:
        """Let it end. Raises `OSError`."""
        files.private_file(self._cancel)

    @property
    def cancelled_s(self) -> int | None:
        """When somebody wanted it to end."""
        try:
            return int(self._cancel.stat().st_mtime)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Whether this process alone may go on with the batch, for as long as the block lasts."""
        fd = files.open_plain(self.path / "lock", os.O_RDWR | os.O_CREAT)
        try:
            is_ours = files.try_lock(fd, exclusive=True)
            yield is_ours
            if is_ours:
                files.unlock(fd)
        finally:
            os.close(fd)

    def remove(self) -> None:
        """Delete it with its results. `job.json` goes first: what a kill leaves is no batch."""
        files.remove_file(self._job)
        shutil.rmtree(self.path, ignore_errors=True)


def create(owned: Owned, job: Job, lines: Sequence[bytes] | None = None) -> None:
    """Raises `InvalidParameter` if the owner has too many, `OSError`.

    lines: those that came with it; None if they are in its input file.
    """
    most = owned.limits.max_batches
    held = [*ids(owned)]
    ended = (id for id in reversed(held) if (kept := JobFolder(owned, id).load()) is None or kept.has_ended)
    while len(held) >= most:
        oldest = next(ended, None)
        if oldest is None:
            raise InvalidParameter(
                f"{len(held)} batches of this key have not ended, and at most {most} may be kept (max_batches); "
                "wait for one or cancel it"
            )
        JobFolder(owned, oldest).remove()
        held.remove(oldest)
    folder = JobFolder(owned, job.id)
    owned.prepare(folder.path)
    if lines is not None:
        with (folder.path / "input.jsonl").open("wb") as file:
            for line in lines:
                file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    folder.save(job)


def new_job(owner: str, kind: Kind, endpoint: str, window: str, window_s: int) -> Job:
    """One that begins now."""
    now_s = int(time.time())
    return Job(
        id=new_id(PREFIXES[kind]),
        owner=owner,
        kind=kind,
        endpoint=endpoint,
        window=window,
        created_s=now_s,
        expires_s=now_s + window_s,
    )


def ids(owned: Owned, kind: Kind | None = None) -> list[str]:
    """The newest first."""
    try:
        names = [entry.name for entry in os.scandir(owned.jobs_folder)]
    except FileNotFoundError:
        return []
    kinds = tuple(PREFIXES.values()) if kind is None else (PREFIXES[kind],)
    found = [name for name in names if ID.fullmatch(name) and name.startswith(kinds)]
    return sorted(found, key=lambda name: name.rpartition("_")[2], reverse=True)


def find(owned: Owned, id: str, kind: Kind) -> Job | None:
    """The owner's batch with that id."""
    if not ID.fullmatch(id) or not id.startswith(PREFIXES[kind]):
        return None
    return JobFolder(owned, id).load()


def page(owned: Owned, kind: Kind, after: str | None, limit: int) -> tuple[list[Job], bool]:
    """Some batches, the newest first, from behind `after`; whether there are more. Raises `KeyError` if that is none of
    them."""
    named = ids(owned, kind)
    if after is not None:
        if after not in named:
            raise KeyError(after)
        named = named[named.index(after) + 1 :]
    found = [job for id in named[: limit + 1] if (job := JobFolder(owned, id).load()) is not None]
    return found[:limit], len(named) > limit


def is_input(owned: Owned, file_id: str) -> str | None:
    """The batch that still reads this file, if one does."""
    for id in ids(owned, "openai"):
        job = JobFolder(owned, id).load()
        if job is not None and job.input_file == file_id and not job.has_ended:
            return id
    return None


def unfinished(owned: Owned) -> list[str]:
    """Ids of batches that have not ended, the oldest first."""
    kept = ((id, JobFolder(owned, id).load()) for id in reversed(ids(owned)))
    return [id for id, job in kept if job is not None and not job.has_ended]


def owners_with_work(root: Path) -> list[str]:
    """Who has batches that have not ended."""
    found: dict[str, None] = {}
    for path in sorted(root.glob("*/jobs/*/job.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            job = msgspec.json.decode(path.read_bytes(), type=Job)
            if not job.has_ended:
                found[job.owner] = None
    return list(found)
