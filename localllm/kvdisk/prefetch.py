"""States read on a separate thread and held until somebody takes them. Knows nothing of where they come from."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Literal

from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.file import SavedConversation


class Prefetcher:
    """Everything may be called from any thread; only `take` and `close` wait, for the read in progress."""

    def __init__(
        self,
        read: Callable[[DiskEntry], SavedConversation | None],
        *,
        max_bytes: int,
        on_read: Callable[[DiskEntry], None] | None,
    ) -> None:
        self._read = read
        self._max_bytes = max_bytes
        self._on_read = on_read
        self._changed = threading.Condition()
        """Guards all fields below; held briefly only."""
        self._reading: dict[DiskEntry, None] = {}
        """Requested and not read yet."""
        self._queue: deque[DiskEntry] = deque()
        self._there: dict[DiskEntry, SavedConversation] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="kv-read", daemon=True)
        self._thread.start()

    def start(self, entry: DiskEntry) -> bool:
        """Have it read, unless it is being read or was. The oldest reads are dropped if there is no room for it.

        False: too much is being read already.
        """
        with self._changed:
            if entry in self._there or entry in self._reading:
                return True
            being_read = sum(other.num_bytes for other in self._reading)
            if self._closed or (being_read and being_read + entry.num_bytes > self._max_bytes):
                return False
            held = being_read + sum(other.num_bytes for other in self._there)
            while self._there and held + entry.num_bytes > self._max_bytes:
                oldest = next(iter(self._there))
                del self._there[oldest]
                held -= oldest.num_bytes
            self._reading[entry] = None
            self._queue.append(entry)
            self._changed.notify_all()
            return True

    def status(self, entry: DiskEntry) -> Literal["memory", "reading"] | None:
        """Whether it is in memory or requested; None: neither."""
        with self._changed:
            return "memory" if entry in self._there else "reading" if entry in self._reading else None

    def drop(self, entry: DiskEntry) -> None:
        """Discard it, read or not."""
        with self._changed:
            self._reading.pop(entry, None)
            self._there.pop(entry, None)
            self._changed.notify_all()

    def take(self, entry: DiskEntry) -> SavedConversation | None:
        """The state that was read, after waiting for it if it was requested."""
        with self._changed:
            self._changed.wait_for(lambda: entry not in self._reading)
            return self._there.pop(entry, None)

    def close(self, timeout_s: float) -> None:
        """Discard everything; a read that outlasts `timeout_s` ends by itself."""
        with self._changed:
            self._closed = True
            self._reading.clear()
            self._queue.clear()
            self._there.clear()
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._queue)
                if self._closed:
                    return
                entry = self._queue.popleft()
                wanted = entry in self._reading
            if wanted:
                self._read_one(entry)

    def _read_one(self, entry: DiskEntry) -> None:
        """Not part of the loop, so that the reference to the state is dropped as early as possible."""
        saved = self._read(entry)
        with self._changed:
            if entry in self._reading:
                del self._reading[entry]
                if saved is not None:
                    self._there[entry] = saved
            self._changed.notify_all()
        if self._on_read is not None:
            self._on_read(entry)
