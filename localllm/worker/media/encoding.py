"""Rows for those who want them: from memory, from disk, or from the encoder process, one medium after another.

The process begins with the first picture and ends when idle. If it dies, the medium that it was encoding fails, and is
refused for a while unless the process was killed; everything else continues in a new process. What nobody wants any
more is dropped from the queue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from localllm.errors import InternalError, InvalidParameter, LocalLLMError
from localllm.kvdisk.media_files import MediaFiles
from localllm.system.threads import start_thread
from localllm.types.states import MediaStatus
from localllm.worker.media.counters import MediaCounters
from localllm.worker.media.encoder_messages import (
    Chunk,
    Describe,
    Described,
    Encode,
    Encoded,
    Forgotten,
    Open,
    Source,
)
from localllm.worker.media.encoder_process import EncoderProcess, Ended
from localllm.worker.media.kept_rows import Kept
from localllm.worker.media.layout import MediaKey
from localllm.worker.media.process_limits import EncodingLimits
from localllm.worker.media.row_source import ChunkRows, Medium, Rows
from localllm.worker.media.tile_batches import TileBatches

MOST_TRIES = 4
"""Of one question, while the process had ended before it."""
CHUNK_S = 1.0
"""A medium with one chunk more yields to one that arrives up to this much later."""
DESCRIBE_DEADLINE_S = 600.0
"""Wall clock: far more than an hour of sound takes on a busy machine."""

RowKey = tuple[MediaKey, int]


class _Job(NamedTuple):
    order: float
    medium: Medium


class Encoding:
    """Any thread."""

    def __init__(
        self,
        wanted: Open,
        *,
        context: str,
        width: int,
        decode: Callable[[Medium], Source],
        rows: Kept[RowKey, Rows],
        files: MediaFiles,
        lend: Callable[[], AbstractContextManager[int]],
        limits: EncodingLimits,
        counters: MediaCounters,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`decode` makes pixels or samples; called on the encoding thread, raises `LocalLLMError`. `lend` gives the
        next call its threads, until it ends."""
        self._wanted = wanted
        self._context, self._width = context, width
        self._decode = decode
        self._rows, self._files = rows, files
        self._lend = lend
        self._limits = limits
        self._batches = TileBatches(limits.call_s)
        self._counters = counters
        self._clock = clock
        self._process: EncoderProcess | None = None
        self._starting = threading.Lock()
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._num_uses = 0
        """Descriptions and encodings in progress."""
        self._refused: dict[str, tuple[float, str]] = {}
        self._to_look_up: SimpleQueue[ChunkRows] = SimpleQueue()
        start_thread(self._look_up_all, "media-rows")
        start_thread(self._encode_all, "media-encoding")

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        process = self._process
        return process.pid if process is not None and process.is_alive else None

    def status(self) -> MediaStatus:
        """What was done since the model was loaded."""
        return self._counters.status(cache_bytes=self._rows.num_bytes, is_running=self.pid is not None)

    def is_kept(self, key: RowKey) -> bool:
        return self._rows.get(key) is not None or self._files.has(self._name(key))

    def check(self, medium_key: MediaKey, param: str) -> None:
        """Raises `InvalidParameter` for a medium that recently ended the process."""
        until_s, reason = self._refused.get(medium_key.digest, (0.0, ""))
        if self._clock() < until_s:
            raise InvalidParameter(
                f"{reason}; it is not tried again for {self._limits.refused_s / 60:.3g} minutes", param=param
            )

    def sample_rate_hz(self) -> int:
        """What sounds are resampled to. Raises `LocalLLMError`."""
        return self._running().sample_rate_hz

    def describe(self, source: Source, key: MediaKey) -> tuple[Chunk, ...]:
        """Which chunks it becomes. Raises `LocalLLMError`."""
        size_only = source if not source.width else Source(source.width, source.height, b"")
        with self._use():
            for is_last in (False, True):
                try:
                    process = self._running()
                    described = process.ask(
                        lambda id: Describe(id, str(key), size_only), Described, DESCRIBE_DEADLINE_S
                    )
                    return described.chunks
                except Ended as ended:  # perhaps because of what was encoded meanwhile
                    if is_last:
                        raise self._crash(key, ended) from None
        raise AssertionError

    def want(self, source: ChunkRows) -> None:
        """Settle it soon."""
        rows = self._rows.get((source.medium.key, source.index))
        if rows is None:
            self._to_look_up.put(source)
        else:
            self._counters.found(len(rows))
            source.settle(rows, was_cached=True)

    def close(self) -> None:
        """End the process; another one begins when it is needed."""
        with self._starting:
            if self._process is not None:
                self._process.close()
                self._process = None

    def _look_up_all(self) -> None:
        while True:
            source = self._to_look_up.get()
            if not self._is_found(source):
                self._add(source.medium)

    def _is_found(self, source: ChunkRows) -> bool:
        """Settles the source if its rows are kept."""
        key = (source.medium.key, source.index)
        if (rows := self._rows.get(key)) is not None:
            self._counters.found(len(rows))
        else:
            data = self._files.read(self._name(key))
            if data is None or len(data) % (4 * self._width):
                return False
            rows = np.frombuffer(data, np.float32).reshape(-1, self._width)
            self._counters.found(len(rows), on_disk=True)
            self._rows.put(key, rows)
        source.settle(rows, was_cached=True)
        return True

    def _add(self, medium: Medium) -> None:
        with self._changed:
            if all(job.medium is not medium for job in self._jobs):
                self._jobs.append(_Job(self._clock() + CHUNK_S * (medium.num_before + len(medium.sources)), medium))
                self._changed.notify_all()

    def _encode_all(self) -> None:
        while True:
            medium = self._next()
            try:
                with self._use():
                    is_done = self._advance(medium)
            except LocalLLMError as error:
                self._fail(medium, error)
            except Ended as ended:
                self._fail(medium, self._crash(medium.key, ended))
            else:
                if is_done:
                    self._drop(medium)

    def _next(self) -> Medium:
        with self._changed:
            while not self._jobs:
                is_notified = self._changed.wait(self._limits.idle_s if self._process is not None else None)
                if not is_notified and not self._jobs and not self._num_uses:
                    self.close()
            return min(self._jobs, key=lambda job: job.order).medium

    def _advance(self, medium: Medium) -> bool:
        """Encode some chunks; returns whether that was all. Raises `LocalLLMError`, `Ended`."""
        self.check(medium.key, medium.media.param)
        begin = min((each.index for each in medium.sources if each.is_asked and not each.is_settled), default=None)
        if begin is None or not medium.is_wanted():
            return True
        # Those behind the first will be wanted too: the prefix of a prompt is what is cached.
        missing = [each for each in medium.sources[begin:] if not each.is_settled and not self._is_found(each)]
        if not missing:
            return False
        first = missing[0].index
        together = [each.num_rows for place, each in enumerate(missing) if each.index == first + place]
        with self._lend() as threads:
            encoded = self._ask(medium, first, self._batches.count(together, threads), threads)
        self._batches.learn(sum(together[: len(encoded.rows)]), threads, encoded.seconds)
        for index, data in enumerate(encoded.rows, first):
            rows = np.frombuffer(data, np.float32).reshape(-1, self._width)
            if not np.isfinite(rows).all():
                raise InternalError("the projector computed rows that are not finite; try another runtime or device")
            self._put(medium, index, rows, encoded.seconds / len(encoded.rows))
        return False

    def _ask(self, medium: Medium, first: int, count: int, threads: int) -> Encoded:
        key, source = str(medium.key), None
        for _ in range(MOST_TRIES):
            process = self._running()

            def question(id: int, source: Source | None = source) -> Encode:
                return Encode(id, key, source, first, count, threads)

            try:
                answer = process.ask(question, (Encoded, Forgotten), self._limits.timeout_s)
            except Ended as ended:
                if ended.was_asked:
                    raise
                continue  # it had ended before, idle
            if isinstance(answer, Encoded):
                return answer
            source = self._decode(medium)
        raise InternalError("the process that encodes pictures and sounds ends again and again")

    def _put(self, medium: Medium, index: int, rows: Rows, encode_s: float) -> None:
        key = (medium.key, index)
        is_first = all(source.encode_s == 0 for source in medium.sources)
        self._counters.encoded(medium.media.kind, len(rows), encode_s, is_first=is_first)
        self._rows.put(key, rows)
        medium.sources[index].settle(rows, encode_s=encode_s)
        for other in self._same(medium):
            if not other.sources[index].is_settled:
                self._counters.found(len(rows))
                other.sources[index].settle(rows, was_cached=True)
        self._files.write(self._name(key), rows.tobytes())

    def _same(self, medium: Medium) -> list[Medium]:
        with self._changed:
            return [job.medium for job in self._jobs if job.medium.key == medium.key]

    def _fail(self, medium: Medium, error: LocalLLMError) -> None:
        for each in self._same(medium):
            for source in each.sources:
                source.settle(None, error)
            self._drop(each)

    def _drop(self, medium: Medium) -> None:
        with self._changed:
            self._jobs = [job for job in self._jobs if job.medium is not medium]
        # Asked for between the last look and the drop.
        if medium.is_wanted() and any(each.is_asked and not each.is_settled for each in medium.sources):
            self._add(medium)

    def _crash(self, key: MediaKey, ended: Ended) -> LocalLLMError:
        self._counters.crashed()
        if ended.was_killed:
            return InternalError(
                f"the process that encodes pictures and sounds was killed ({ended}), perhaps because memory ran out; "
                "send the request again"
            )
        reason = f"the picture or sound ended the process that encodes it ({ended})"
        now = self._clock()
        self._refused = {digest: entry for digest, entry in self._refused.items() if now < entry[0]}
        self._refused[key.digest] = (now + self._limits.refused_s, reason)
        return InternalError(reason)

    def _running(self) -> EncoderProcess:
        with self._starting:
            if self._process is None or not self._process.is_alive:
                if self._process is not None:
                    self._counters.restarted()
                try:
                    self._process = EncoderProcess(self._wanted)
                except Ended as ended:
                    raise InternalError(
                        f"the process that encodes pictures and sounds does not start ({ended})"
                    ) from None
            return self._process

    def _name(self, key: RowKey) -> str:
        return f"{self._context} {key[0]} {key[1]}"

    def _use(self) -> _Use:
        return _Use(self)


class _Use:
    """Keeps the process from ending as idle."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def __enter__(self) -> None:
        with self._encoding._changed:
            self._encoding._num_uses += 1

    def __exit__(self, *_: object) -> None:
        with self._encoding._changed:
            self._encoding._num_uses -= 1
            self._encoding._changed.notify_all()  # the idle time begins
