"""Slots to named files and back, on a thread of its own: the engine saves and restores states without waiting for disk.

One operation at a time, so that at most one state is in memory. Knows nothing of rules for names or of file formats.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.engine import Engine
from localllm.engine.media import Extent
from localllm.errors import LocalLLMError, UnsupportedParameter
from localllm.kvdisk import file
from localllm.kvdisk.named import NamedStates
from localllm.types.states import SlotTransfer
from localllm.worker.messages import SLOT_METHODS, Call, Reply, Up
from localllm.worker.refusals import errors_to

T = TypeVar("T")


class SlotFiler:
    """`call` comes from the reader thread; the work is done on this object's own thread."""

    def __init__(self, engine: Engine, named: NamedStates | None, send: Callable[[Up], None]) -> None:
        """`named`: None if the disk is not to be used."""
        self._engine = engine
        self._named = named
        self._send = send
        self._inbox: queue.SimpleQueue[Call] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="slot-filer", daemon=True).start()

    def call(self, message: Call) -> None:
        """One of `SLOT_METHODS`."""
        assert message.method in SLOT_METHODS
        self._inbox.put(message)

    def _run(self) -> None:
        while True:
            self._answer(self._inbox.get())

    def _answer(self, message: Call) -> None:
        """Not part of the loop, so that the reference to the state is dropped as early as possible."""
        work: Callable[..., Any] = getattr(self, f"_{message.method}")
        with errors_to(lambda error: self._send(Reply(message.id, None, error.info()))):
            self._send(Reply(message.id, work(*message.args)))

    def _save_slot(self, slot: int, name: str) -> SlotTransfer:
        started_s = time.perf_counter()
        named = self._disk()
        named.check(name)
        entry = self._on_engine(lambda: self._engine.slots.save(slot))
        checkpoints = tuple(file.DiskCheckpoint(one.length, one.state) for one in entry.checkpoints)
        size_bytes = named.write(
            name, entry.tokens, file.SavedConversation(entry.state, checkpoints, entry.extents), entry.domain.digest
        )
        return SlotTransfer(len(entry.tokens), size_bytes, time.perf_counter() - started_s)

    def _restore_slot(self, slot: int, name: str) -> SlotTransfer:
        started_s = time.perf_counter()
        found = self._disk().read(name)
        checkpoints = tuple(Checkpoint(one.position, one.state) for one in found.saved.checkpoints)
        extents = tuple(map(Extent._make, found.saved.extents))
        entry = HostEntry(found.tokens, found.saved.state, checkpoints, Domain(found.domain), extents)
        self._on_engine(lambda: self._engine.slots.restore(slot, entry))
        return SlotTransfer(len(found.tokens), found.size_bytes, time.perf_counter() - started_s)

    def _erase_slot(self, slot: int) -> int:
        return self._on_engine(lambda: self._engine.slots.erase(slot))

    def _keep(self) -> int:
        """Store everything that slots hold, without names; returns how many of them had something new."""
        writeback = self._engine.writeback
        if writeback is None:
            raise _no_disk("model")
        count, first = 0, 0
        while (slot := self._on_engine(lambda: writeback.store_next(first))) is not None:  # noqa: B023  called immediately
            writeback.flush()
            count, first = count + 1, slot + 1
        return count

    def _disk(self) -> NamedStates:
        if self._named is None:
            raise _no_disk("action")
        return self._named

    def _on_engine(self, work: Callable[[], T]) -> T:
        """Between two steps. Raises what `work` raises of our errors; other exceptions end the worker, as in the
        engine."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except LocalLLMError as error:
                done.set_exception(error)

        self._engine.call_soon(run)
        return done.result()


def _no_disk(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        "slots can only be saved if the model is loaded with --kv-disk-mb, which is 0 here", param=param
    )
