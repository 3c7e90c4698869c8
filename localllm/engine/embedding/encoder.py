"""The loop of the engine thread for models that do not generate: only texts into vectors.

Offers what a worker expects of `Engine`, without slots. Knows nothing of processes or llama.cpp.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

from localllm.engine.embedding.embedder import Embedder
from localllm.engine.progress import Progress
from localllm.engine.requests.sequence import Sequence
from localllm.types.states import EngineStatus

NO_SLOTS = EngineStatus(slots=(), num_waiting=0, num_steps=0, host_cache_bytes=0, host_cache_entries=0)


class EncoderEngine:
    """`call_soon` may be called from any thread; the work is done on the thread that calls `run`."""

    def __init__(self, embedder: Embedder, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.progress = Progress()
        self._embedder = embedder
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = False

    def call_soon(self, work: Callable[[], None]) -> None:
        self._inbox.put(work)

    def submit(self, sequence: Sequence) -> None:
        raise AssertionError(f"an encoder generates nothing; request {sequence.id} should have been refused")

    def cancel(self, id: int) -> None:
        """Only texts can be cancelled, and those are the embedder's."""

    def inspect(self, callback: Callable[[EngineStatus], None]) -> None:
        """`callback` is called on the engine's thread."""
        self.call_soon(lambda: callback(NO_SLOTS))

    def stop(self) -> None:
        self.call_soon(self._stop)

    def run(self) -> None:
        """Compute while there is work, and otherwise sleep on the inbox, until `stop`."""
        while not self._stopping:
            if not self._embedder.has_work:
                self.progress.rest()
                self._inbox.get()()
            self.progress.advance()
            while not self._inbox.empty():  # only this thread takes from it
                self._inbox.get()()
            self._embedder.step()

    def _stop(self) -> None:
        self._stopping = True
