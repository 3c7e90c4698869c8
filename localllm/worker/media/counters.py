"""What reading pictures and sounds has cost since the model was loaded. Thread-safe; knows no process and no row."""

from __future__ import annotations

import threading

from localllm.types import MediaKind
from localllm.types.states import MediaStatus


class MediaCounters:
    """Rows of a chunk count once for each request that gets them: encoded, or found in memory or on disk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.encodes = 0
        """Chunks."""
        self.encode_s = 0.0
        self.num_pictures = 0
        """Including frames of videos."""
        self.num_sounds = 0
        """Including parts of long ones."""
        self.num_rows = 0
        self.memory_hits = self.memory_rows = 0
        """Chunks whose rows were kept in memory, and those rows."""
        self.disk_hits = self.disk_rows = 0
        self.decodes = 0
        """Files."""
        self.crashes = 0
        """Encoder processes that ended unasked, while something was asked of them."""
        self.restarts = 0
        """Encoder processes started in place of one that ended unasked."""

    def encoded(self, kind: MediaKind, num_rows: int, seconds: float, *, is_first: bool) -> None:
        """A chunk. `is_first`: of this medium."""
        with self._lock:
            self.encodes += 1
            self.encode_s += seconds
            self.num_rows += num_rows
            if is_first and kind == "audio":
                self.num_sounds += 1
            elif is_first:
                self.num_pictures += 1

    def found(self, num_rows: int, *, on_disk: bool = False) -> None:
        """Rows of a chunk were kept."""
        with self._lock:
            if on_disk:
                self.disk_hits += 1
                self.disk_rows += num_rows
            else:
                self.memory_hits += 1
                self.memory_rows += num_rows

    def decoded(self) -> None:
        with self._lock:
            self.decodes += 1

    def crashed(self) -> None:
        with self._lock:
            self.crashes += 1

    def restarted(self) -> None:
        with self._lock:
            self.restarts += 1

    def status(self, *, cache_bytes: int, is_running: bool) -> MediaStatus:
        with self._lock:
            return MediaStatus(
                pictures=self.num_pictures,
                sounds=self.num_sounds,
                encoded_rows=self.num_rows,
                memory_rows=self.memory_rows,
                disk_rows=self.disk_rows,
                encode_s=self.encode_s,
                restarts=self.restarts,
                cache_bytes=cache_bytes,
                is_running=is_running,
            )
