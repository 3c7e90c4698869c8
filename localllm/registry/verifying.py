"""Reads stored models completely and compares them with their digests, at disk speed.

One thread reads and hashes one file. Threads are added while the CPU is the bottleneck; more readers than that would
only slow the disk down. Knows nothing of how progress is shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import msgspec

from localllm.registry.disk.store import DamagedFile, Store
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.remote import OnBytes
from localllm.system import cpu

TICK_S = 0.25
"""Interval at which another thread is considered."""
BUSY_SHARE = 0.7
"""CPU share of all threads' time above which another is added: the disk is not the bottleneck."""


class Work(NamedTuple):
    """A file to read, and the models that need it, each with its own record of the file."""

    file: StoredFile
    needed_by: tuple[tuple[Manifest, StoredFile], ...]


def works_of(manifests: Iterable[Manifest]) -> list[Work]:
    """Each distinct file once, largest first, so that no large file is still being read when all others are done."""
    found: dict[tuple[Digest, str | None], list[tuple[Manifest, StoredFile]]] = {}
    for manifest in manifests:
        for file in manifest.files:
            found.setdefault((file.digest, file.path), []).append((manifest, file))
    works = [Work(needed_by[0][1], tuple(needed_by)) for needed_by in found.values()]
    return sorted(works, key=lambda work: -work.file.size_bytes)


class _Usage:
    """CPU time used by the threads since the last check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: dict[int, float] = {}
        self._looked_at = (time.monotonic(), 0.0)

    def note(self) -> None:
        """To be called often by each thread."""
        with self._lock:
            self._spent[threading.get_ident()] = time.thread_time()

    def share(self) -> float:
        """CPU time since the last check as a share (0 to 1) of what the threads could have used."""
        with self._lock:
            now, spent = time.monotonic(), sum(self._spent.values())
            (then, before), self._looked_at = self._looked_at, (now, spent)
            return (spent - before) / max(1e-9, (now - then) * max(1, len(self._spent)))


def verify(
    works: Iterable[Work], store: Store, *, on_bytes: OnBytes, cancel: threading.Event, set_aside: bool = True
) -> list[tuple[Manifest, DamagedFile]]:
    """Returns damaged files of each model; blobs are set aside so that a pull fetches them again. `on_bytes` is called
    from several threads.

    Raises `Cancelled`, and `OSError` where a disk cannot be read.
    """
    waiting, damaged, usage = list(works), list[tuple[Manifest, DamagedFile]](), _Usage()
    failed = threading.Event()

    def heard(num_bytes: int) -> None:
        usage.note()
        on_bytes(num_bytes)

    def read() -> None:
        while not failed.is_set():
            try:
                work = waiting.pop(0)
            except IndexError:
                return
            found = store.verify_file(work.file, heard, cancel, set_aside=set_aside)
            if found is not None:
                damaged.extend((one, msgspec.structs.replace(found, file=file)) for one, file in work.needed_by)

    most = cpu.num_usable_cpus()
    with ThreadPoolExecutor(most, thread_name_prefix="verify") as pool:
        try:
            _run(read, pool, most, lambda: bool(waiting) and usage.share() >= BUSY_SHARE)
        except BaseException:
            failed.set()
            cancel.set()
            raise
    return damaged


def _run(read: Callable[[], None], pool: ThreadPoolExecutor, most: int, helps: Callable[[], bool]) -> None:
    futures: set[Future[None]] = {pool.submit(read)}
    num_threads = 1
    while futures:
        done, futures = wait(futures, TICK_S, FIRST_COMPLETED)
        for future in done:
            future.result()
        if futures and num_threads < most and helps():
            futures.add(pool.submit(read))
            num_threads += 1
