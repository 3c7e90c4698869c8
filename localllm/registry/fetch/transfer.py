"""The transfer of one file: which connection gets which bytes next, and how to react to responses. Pure decisions.

    |==========>.........|=====>....|............|      a flight is one request: [start, pos) is written,
     start     pos     end                              [pos, end) is on its way

A range whose flight failed is simply missing again. The caller owns the lock, the clock and the sockets. Servers are
trusted as little as possible: a 206 must be for exactly the requested range, with the same size and validator as other
responses. If the bytes on disk cannot belong to the same file, the download restarts as a new generation, once all
flights of the old one have ended.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from localllm.errors import PullFailed
from localllm.registry.fetch.flight import Flight
from localllm.registry.fetch.hasher import Front
from localllm.registry.fetch.net import Hop, Reply
from localllm.registry.fetch.pacing import DEFAULT_BACKOFF, MAX_MISTAKES, PATIENCE_S, Backoff, Retryable, within
from localllm.registry.fetch.partial import Record
from localllm.registry.fetch.ranges import MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Range, Ranges, next_chunk
from localllm.registry.fetch.responses import Nothing, Part, RefusedResponse, WholeFile, read_answer
from localllm.registry.fetch.sharing import shorten, steal
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Credential, RemoteFile
from localllm.registry.sources.source import MAX_FILE_BYTES

PROGRESS_BYTES = 64 * 1024
"""A request that brought this much has not failed by much: the next one follows at once, and counts begin anew."""
MAX_RESTARTS = 3
"""A file that has to be restarted more often than this is abandoned."""
MAX_IGNORED_RANGES = 2
"""How often a server that supported ranges may send the whole file instead before ranges are no longer requested."""


class FileChanged(Exception):
    """The server's file has changed: its bytes cannot be combined with ours."""


class CredentialExpired(Exception):
    """The server no longer accepts the credential; `error` is raised if there is no replacement."""

    def __init__(self, error: PullFailed) -> None:
        super().__init__(error.message)
        self.error = error


class Transfer:
    """The state of one download."""

    def __init__(
        self,
        file: RemoteFile,
        record: Record | None = None,
        good: Ranges | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`record` and `good`: left by an earlier download. `patience_s`: the longest time without data."""
        self.file = file
        self.size = file.size_bytes
        self.validator: str | None = None
        self.generation = 1
        self.done = Ranges()
        self.flights: list[Flight] = []
        self.synced: tuple[Range, ...] = ()
        self.suspect = False
        """Whether its parts may come from different files, which only the digest can tell."""
        self.credential = file.credential
        """Replaced when the server no longer accepts it."""
        self._backoff = backoff
        self._patience_s = patience_s
        self._hop: Hop | None = None
        self._has_ranges = False
        """Whether a response of this run has given the size and shown that ranges work."""
        self._no_ranges = False
        self._num_ignored = 0
        self._num_restarts = 0
        self._num_failures = 0
        """Failures since one brought bytes: the longer the row, the longer the pause."""
        self._num_mistakes = 0
        """Unusable responses since the last progress of `PROGRESS_BYTES`."""
        self._present_at_failure = 0
        self._outage_began: float | None = None
        self._renewed_at: int | None = None
        """Bytes on disk when the credential was last renewed."""
        self._round = 0
        self._best = 0
        self._not_before = 0.0
        self._limit: int | None = None
        """How many connections the server seems to tolerate."""
        if record is not None and good is not None:
            self._resume(record, good)

    def _resume(self, record: Record, good: Ranges) -> None:
        if record.digest != self._digest or self.file.size_bytes not in (None, record.size_bytes):
            return
        if record.digest is None:  # so a request must confirm that it is still the same file
            good = good.within(max(0, record.size_bytes - MIN_CHUNK_BYTES) if record.validator else 0)
        if good.num_bytes > 0:
            self.done, self.size, self.validator = good, record.size_bytes, record.validator
            self.suspect, self._best = True, good.num_bytes

    @property
    def _digest(self) -> str | None:
        return None if self.file.digest is None else str(self.file.digest)

    @property
    def written(self) -> Ranges:
        """The valid bytes in the file."""
        written = Ranges(self.done)
        for flight in self.flights:
            if flight.generation == self.generation:
                written.add(flight.start, flight.pos)
        return written

    @property
    def present(self) -> int:
        """Bytes written."""
        return self.done.num_bytes + sum(
            flight.pos - flight.start for flight in self.flights if flight.generation == self.generation
        )

    @property
    def missing(self) -> int | None:
        """Bytes still to come; None: unknown."""
        return None if self.size is None else self.size - self.present

    @property
    def host(self) -> str:
        """The host that requests currently go to."""
        return urlsplit(self.file.url).netloc if self._hop is None else self._hop.url.netloc.decode("ascii")

    @property
    def is_complete(self) -> bool:
        return self.size is not None and self.done.front >= self.size and not self.flights

    @property
    def front(self) -> Front:
        """How far the hash may proceed."""
        end = self.done.front
        for flight in self.flights:
            if flight.start == end and flight.generation == self.generation:
                end = flight.pos
                break
        return Front(self.generation, end, self.is_complete)

    def record(self) -> Record | None:
        """The note to write beside the file; None if there is nothing to record."""
        if self.size is None or (self._no_ranges and self.flights):  # a response in one piece cannot be resumed
            return None
        ranges = tuple(self.written)
        return Record(
            size_bytes=self.size, digest=self._digest, validator=self.validator, ranges=ranges, synced=self.synced
        )

    def wait_s(self, now: float) -> float:
        """Seconds until `next_flight` may return a flight."""
        return max(0.0, self._not_before - now)

    def next_flight(self, now: float, connections: int, chunk_bytes: int = MAX_CHUNK_BYTES) -> Flight | None:
        """What a free connection should request now, if anything; with several, at most `chunk_bytes`."""
        if self.is_complete or now < self._not_before:
            return None
        if self._limit is not None and len(self.flights) >= self._limit:
            return None
        if any(flight.generation != self.generation for flight in self.flights):
            return None  # one of the old flights could still write
        if not self._has_ranges or self._no_ranges:
            return None if self.flights else self._launch(*self._probe(connections), now)
        assert self.size is not None
        chunk = next_chunk(self._held(self.size), self.size, connections, chunk_bytes)
        if chunk is None and shorten(self.flights, chunk_bytes):
            chunk = next_chunk(self._held(self.size), self.size, connections, chunk_bytes)
        chunk = chunk or steal(self.flights, now)
        return None if chunk is None else self._launch(*chunk, now)

    def _held(self, size: int) -> Ranges:
        """Ranges that have arrived or are on their way."""
        held = Ranges(self.done)
        for flight in self.flights:
            held.add(flight.start, size if flight.end is None else flight.end)
        return held

    def _probe(self, connections: int) -> tuple[int, int | None]:
        if self._no_ranges:
            return 0, None
        if self.size is None:
            return 0, MIN_CHUNK_BYTES
        return next_chunk(self.done, self.size, connections) or (0, None)

    def _launch(self, start: int, end: int | None, now: float) -> Flight:
        conditional = end is not None and self.file.digest is None and self.validator is not None
        flight = Flight(start, end, now, self.generation, self._round, conditional)
        self.flights.append(flight)
        return flight

    def target(self, flight: Flight) -> Hop | None:
        """The URL to use instead of the file's own."""
        flight.remembered = self._hop is not None
        return self._hop

    def headers(self, flight: Flight) -> dict[str, str]:
        """The headers that this flight's request adds."""
        headers = {"accept-encoding": "identity"}
        if flight.asked_end is not None:
            headers["range"] = f"bytes={flight.start}-{flight.asked_end - 1}"
        if flight.conditional and self.validator is not None:
            headers["if-range"] = self.validator
        return headers

    def answered(self, flight: Flight, reply: Reply) -> None:
        """Reads the head of a response. Raises `Retryable`, `FileChanged`, or `PullFailed` for permanent failures."""
        if flight.generation != self.generation:
            raise Retryable("no longer of use")
        try:
            answer = read_answer(reply, self.file.file_name, flight.start, flight.asked_end)
        except RefusedResponse as refused:
            if not flight.remembered:
                if refused.error.details.get("status") == 401 and self.file.renew is not None:
                    raise CredentialExpired(refused.error) from None
                raise refused.error from None
            self._hop = None  # a signed URL lives for minutes; the original URL leads to a new one
            raise Retryable(refused.error.message) from None
        if isinstance(answer, Part):
            self._part_answered(flight, answer)
        elif isinstance(answer, WholeFile):
            self._whole_answered(flight, answer)
        else:
            self._nothing_answered(flight, answer)
        self._hop = reply.hop if str(reply.hop.url) != self.file.url else None

    def _part_answered(self, flight: Flight, part: Part) -> None:
        total = self.size if part.total is None else part.total
        if total is None:
            raise PullFailed(f"the server does not give the size of {self.file.file_name}")
        self._settle(total, part.validator)
        flight.answer_end = part.end
        flight.end = part.end if flight.end is None else min(flight.end, part.end)
        self._has_ranges = True

    def _whole_answered(self, flight: Flight, whole: WholeFile) -> None:
        """Handles a 200: the server does not support ranges, or the file has changed."""
        name = self.file.file_name
        is_alone = self.present == 0 and len(self.flights) == 1
        if flight.conditional and not is_alone:
            raise FileChanged
        if self._has_ranges and not is_alone:
            self._num_ignored += 1
            if self._num_ignored <= MAX_IGNORED_RANGES:
                raise Retryable(f"the server sent all of {name} instead of a range")
        self._no_ranges = True
        if not is_alone:
            raise FileChanged
        if not whole.is_framed and self.file.size_bytes is None:
            raise PullFailed(f"the server does not give the size of {name}")
        if whole.length is not None:
            self._settle(whole.length, whole.validator)
        flight.start = flight.pos = 0
        flight.end = flight.answer_end = self.size if whole.length is None else whole.length

    def _nothing_answered(self, flight: Flight, nothing: Nothing) -> None:
        if nothing.total == 0 and self.size is None:
            self.size = flight.end = flight.answer_end = 0
            return
        if self.suspect and self.file.size_bytes is None:
            raise FileChanged
        shown = "fewer" if nothing.total is None else f"{nothing.total:,}"
        raise PullFailed(f"the server has {shown} bytes of {self.file.file_name}, not {self.size}")

    def _settle(self, total: int, validator: str | None) -> None:
        """Checks that the response describes the same file as earlier ones."""
        name, expected = self.file.file_name, self.file.size_bytes
        if total > MAX_FILE_BYTES:
            raise PullFailed(f"the server gives the size of {name} as {total:,} bytes; no model file is that large")
        if expected is not None and total != expected:
            raise PullFailed(f"the server has {total:,} bytes of {name} instead of {expected:,}")
        if self.size not in (None, total):
            raise FileChanged
        if self.size is not None and self.present > 0 and validator != self.validator:
            if self.file.digest is None:
                raise FileChanged
            self.suspect = True
        self.size, self.validator = total, validator

    def landed(self, flight: Flight, connections: int) -> None:
        """Handles the end of a response. Raises `Retryable` if bytes are missing."""
        if flight.end is None:
            flight.end = flight.pos
            if flight.generation == self.generation:
                self._settle_size(flight.pos)
        if not flight.is_done:
            raise Retryable(f"{self.file.file_name} ended too early")
        self.remove(flight)
        if self._limit is not None:
            self._limit = min(self._limit + 1, connections)

    def _settle_size(self, size: int) -> None:
        if self.file.size_bytes not in (None, size):
            raise PullFailed(f"{self.file.file_name} ended after {size:,} bytes instead of {self.file.size_bytes:,}")
        self.size = size

    def remove(self, flight: Flight) -> None:
        """Ends a flight; the bytes it wrote stay."""
        self.flights.remove(flight)
        if flight.generation == self.generation:
            self.done.add(flight.start, flight.pos)

    def failed(self, flight: Flight, error: Retryable, now: float, chance: float) -> None:
        """Handles a failed flight, whose bytes are missing again. Raises `PullFailed` after the last attempt."""
        is_stale = flight.generation != self.generation
        self.remove(flight)
        present = self.present
        if self._no_ranges and not is_stale:
            self._begin_anew()
        if is_stale or flight.round != self._round:  # in one outage, every connection reports a failure
            return
        if present > self._present_at_failure:
            self._num_failures = 0
        self._present_at_failure = present
        has_progressed = present >= self._best + PROGRESS_BYTES
        if has_progressed:
            self._num_mistakes = 0
            self._best, self._outage_began = present, None
        if error.busy and self.flights:
            self._limit = len(self.flights)
        self._round += 1
        if has_progressed and not error.busy and error.retry_after_s is None:
            return
        self._num_failures += 1
        pause_s = self._backoff.pause_s(self._num_failures, retry_after_s=error.retry_after_s, chance=chance)
        self._not_before = now + self._patient_pause_s(error, now, pause_s)

    def _patient_pause_s(self, error: Retryable, now: float, pause_s: float) -> float:
        """The pause, cut by what remains of the patience. Raises `PullFailed` if nothing does."""
        if not error.is_outage:
            self._num_mistakes += 1
            if self._num_mistakes >= MAX_MISTAKES:
                raise PullFailed(
                    f"{error.message} (after {MAX_MISTAKES} attempts; the bytes received so far are kept)"
                ) from error
            return pause_s
        self._outage_began = now if self._outage_began is None else self._outage_began
        if error.retry_after_s is not None and pause_s > self._patience_s:
            raise PullFailed(
                f"{error.message} and asks to be retried in {pause_s:.0f} s; pull again then (the "
                "bytes received so far are kept), or wait longer with --download-patience-s"
            ) from error
        cut_s = within(pause_s, error, self._patience_s - (now - self._outage_began))
        if cut_s is None:
            raise PullFailed(
                f"{error.message} (no data for {now - self._outage_began:.0f} s; the bytes received so far are kept)"
            ) from error
        return cut_s

    def renewed(self, credential: Credential, error: PullFailed) -> None:
        """Uses this credential from now on. Raises `error` if the previous renewal brought no bytes."""
        if self._renewed_at is not None and self.present <= self._renewed_at:
            raise error
        self._renewed_at, self.credential = self.present, credential

    def changed(self, flight: Flight) -> None:
        """Restarts the file. Raises `PullFailed` after too many restarts."""
        is_stale = flight.generation != self.generation
        self.remove(flight)
        if not is_stale:
            self._restart(f"{self.file.file_name} keeps changing during the download")

    def verified(self, digest: Digest) -> bool:
        """Checks the digest of the complete file. False: the download restarts. Raises `PullFailed` if the digest
        differs from the source's."""
        expected = self.file.digest
        if expected is None or digest == expected:
            return True
        message = (
            f"{self.file.file_name} arrived with the sha256 {digest.short}... instead of "
            f"{expected.short}... and was discarded; try again, or report it to its source"
        )
        if not self.suspect:
            raise PullFailed(message, expected=str(expected), received=str(digest))
        self._restart(message)
        return False

    def _restart(self, message: str) -> None:
        self._num_restarts += 1
        if self._num_restarts > MAX_RESTARTS:
            raise PullFailed(message)
        self._begin_anew()
        self.size, self.validator, self.suspect = self.file.size_bytes, None, False
        self._hop, self._has_ranges, self._best = None, False, 0

    def _begin_anew(self) -> None:
        self.generation += 1
        self.done, self.synced = Ranges(), ()
        self._present_at_failure = 0
        for flight in self.flights:
            flight.dropped = True
