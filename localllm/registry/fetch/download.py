"""Downloads files over several connections and verifies them, resuming after any interruption.

    connections      (threads) request the next missing piece of some file, and write it where it belongs
    hashers          (a thread per file) hash written bytes in order, close behind the connections
    syncer           (a thread) flushes written bytes to disk now and then, and only then records them as safe
    caller's thread  watches the cancel flag and waits for the first error, which ends the download

`transfer` makes all decisions, under the single lock held here. Received bytes are kept for the next attempt, except
those of a file with a wrong digest. Two downloads must not share a partial file, which the store's claims ensure. Knows
nothing of names, sources or the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from localllm.errors import InvalidModelFile, PullFailed
from localllm.registry.fetch.flight import Flight
from localllm.registry.fetch.hasher import Front, follow
from localllm.registry.fetch.job import FileToFetch, Job
from localllm.registry.fetch.net import Net, Reply
from localllm.registry.fetch.pacing import OnWait, Retryable
from localllm.registry.fetch.ranges import chunk_bytes
from localllm.registry.fetch.silence import Silence
from localllm.registry.fetch.sockets import Patience
from localllm.registry.fetch.transfer import CredentialExpired, FileChanged
from localllm.registry.fetch.width import Width
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Cancelled, OnBytes, RemoteFile

CONNECTIONS = 8
"""Upper limit; `width` decides how many are used."""
MAX_FILES_AT_ONCE = 4
"""Per download: each open file needs a hasher, and earlier files should complete first."""
TICK_S = 0.05
"""How often the caller's thread checks the cancel flag."""
IDLE_S = 0.1
"""How often an idle connection checks for a slow one to help."""
FOLLOW_S = 0.01
"""How often a hasher that has caught up checks for more."""
SYNC_S = 10.0
"""A power failure loses at most this much progress."""
ROOM_STEP_BYTES = 256 * 1024 * 1024
"""Disk space requested at a time for a file of unknown size."""


def download(
    file: RemoteFile,
    partial: Path,
    *,
    net: Net,
    connections: int = CONNECTIONS,
    first_connections: int = 1,
    on_bytes: OnBytes,
    cancel: threading.Event,
    require_room: Callable[[int], None],
) -> Digest:
    """Fetches the file into `partial` and returns its sha256, which matches the source's if it gave one.

    `require_room` is called with the number of missing bytes, and may raise `DiskFull`. Raises `PullFailed`,
    `AccessDenied`, `ForbiddenAddress`, `DiskFull`, `Cancelled`.
    """
    width = Width(max(1, connections), min(first_connections, connections))
    wanted = [FileToFetch(file, partial, on_bytes)]
    return download_all(wanted, net=net, width=width, cancel=cancel, require_room=require_room)[0]


def download_all(
    wanted: Sequence[FileToFetch],
    *,
    net: Net,
    width: Width | None = None,
    cancel: threading.Event,
    require_room: Callable[[int], None],
    on_wait: OnWait = lambda *_: None,
) -> list[Digest]:
    """Fetches several files at the same time over the same connections; returns their digests in order.

    The first failure ends all of them and raises as `download` does; the other files keep their received bytes.
    """
    if len({one.partial for one in wanted}) != len(wanted):
        raise ValueError("two files would be written to the same path")
    return _Crew(wanted, net, width or Width(CONNECTIONS), cancel, require_room, on_wait).run()


class _Crew:
    def __init__(
        self,
        wanted: Sequence[FileToFetch],
        net: Net,
        width: Width,
        cancel: threading.Event,
        require_room: Callable[[int], None],
        on_wait: OnWait,
    ) -> None:
        self._net = net
        self._width = width
        self._cancel = cancel
        self._require_room = require_room
        self._lock = threading.Condition()
        self._stop = threading.Event()
        self._sync_failure: OSError | None = None
        self._on_wait = on_wait
        how = net.options.backoff, net.options.patience_s
        self._jobs = [Job(one, *how) for one in wanted]

    def run(self) -> list[Digest]:
        for job in self._jobs:
            self._report(job)
        self._check_room()
        syncer = threading.Thread(target=self._sync, name="sync", daemon=True)
        threads = self._width.most + MAX_FILES_AT_ONCE
        try:
            with ThreadPoolExecutor(threads, thread_name_prefix="download") as pool:
                try:
                    syncer.start()
                    self._watch(pool)
                finally:
                    with self._lock:
                        self._stop.set()
                        self._lock.notify_all()
            syncer.join()  # not after a failure: a slow disk must not delay giving up
        finally:
            for job in self._jobs:
                job.close()
                self._report(job)
        return [job.digest for job in self._jobs if job.digest is not None]

    # The caller's thread

    def _watch(self, pool: ThreadPoolExecutor) -> None:
        """Waits until all files are complete. Raises the first error of any thread."""
        futures: set[Future[None]] = {pool.submit(self._connect) for _ in range(self._width.most)}
        silence = Silence(time.monotonic())
        while True:
            for job in self._activate():
                futures.add(pool.submit(self._hash, job))
            done, futures = wait(futures, TICK_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            with self._lock:
                host, num_bytes = self._awaited()
                self._observe(num_bytes)
            waited_s = silence.waited_s(time.monotonic(), None if host is None else num_bytes)
            if host is not None and waited_s is not None:
                self._on_wait(host, waited_s, "")
            if self._sync_failure is not None:
                raise self._sync_failure
            if self._cancel.is_set():
                raise Cancelled("the download was cancelled; the bytes received so far are kept")
            if not futures and self._is_finished():
                return

    def _awaited(self) -> tuple[str | None, int]:
        """The host that is expected to send, and the bytes received of all files."""
        present = sum(job.transfer.present for job in self._jobs)
        waiting = [job for job in self._jobs if job.is_open and job.transfer.missing != 0]
        if not waiting or any(flight.is_paused for job in waiting for flight in job.transfer.flights):
            return None, present
        return waiting[0].transfer.host, present

    def _observe(self, num_bytes: int) -> None:
        """Adjusts the number of connections."""
        flights = [flight for job in self._jobs for flight in job.transfer.flights]
        num_moving = sum(flight.pos > flight.start for flight in flights)
        before = self._width.connections
        is_limited = any(flight.is_paused for flight in flights)
        self._width.observe(time.monotonic(), num_bytes, num_moving, is_limited=is_limited)
        if self._width.connections > before:
            self._lock.notify_all()

    def _is_finished(self) -> bool:
        return all(job.digest is not None for job in self._jobs)

    def _activate(self) -> list[Job]:
        """Opens further files, up to the limit."""
        with self._lock:
            waiting = [job for job in self._jobs if job.digest is None and not job.is_open]
            room = MAX_FILES_AT_ONCE - sum(job.is_open for job in self._jobs)
            for job in waiting[:room]:
                job.open()
            self._lock.notify_all()
            return waiting[:room]

    def _check_room(self) -> None:
        missing = sum(job.transfer.missing or 0 for job in self._jobs)
        if missing:
            self._require_room(missing)

    # A connection's thread

    def _connect(self) -> None:
        while (work := self._next_work()) is not None:
            self._fly(*work)

    def _next_work(self) -> tuple[Job, Flight] | None:
        """The next piece to request, from the file with the fewest connections; None once there is no more work."""
        with self._lock:
            while not (self._stop.is_set() or self._is_finished()):
                now, wait_s = time.monotonic(), IDLE_S
                connections = self._width.connections
                each = chunk_bytes(self._width.bytes_per_s / connections)
                open_jobs = [job for job in self._jobs if job.is_open]
                if sum(job.num_flights for job in open_jobs) >= connections:
                    open_jobs = []
                for job in sorted(open_jobs, key=lambda job: job.num_flights):
                    flight = job.transfer.next_flight(now, connections, each)
                    if flight is not None:
                        return job, flight
                    pause_s = job.transfer.wait_s(now)
                    wait_s = min(wait_s, pause_s) if pause_s > 0 else wait_s
                self._lock.wait(wait_s)
            return None

    def _fly(self, job: Job, flight: Flight) -> None:
        """Makes one request and handles its outcome. Raises errors that end the download."""
        transfer = job.transfer
        try:
            self._ask(job, flight)
            self._decide(job, lambda: transfer.landed(flight, self._width.most))
        except FileChanged:
            self._decide(job, lambda: transfer.changed(flight))
        except CredentialExpired as expired:
            self._renew(job, flight, expired.error)
        except Cancelled:
            if self._stop.is_set():
                self._decide(job, lambda: transfer.remove(flight))
            else:
                self._fail(job, flight, Retryable("a connection stopped delivering data", is_outage=True))
        except Retryable as error:
            self._fail(job, flight, error)
        except BaseException:
            self._stop.set()  # before another thread starts a request
            self._decide(job, lambda: transfer.remove(flight))
            raise

    def _fail(self, job: Job, flight: Flight, error: Retryable) -> None:
        now, chance = time.monotonic(), self._net.chance()
        self._decide(job, lambda: job.transfer.failed(flight, error, now, chance))

    def _renew(self, job: Job, flight: Flight, error: PullFailed) -> None:
        """Renews the flight's credential. Raises `error` if no other is available."""
        transfer = job.transfer
        try:
            with job.renewing:
                if transfer.credential is flight.credential and job.wanted.renew is not None:
                    found = job.wanted.renew()
                    with self._lock:
                        if found is None:
                            raise error
                        transfer.renewed(found, error)
        except Retryable as outage:
            self._fail(job, flight, Retryable(outage.message, retry_after_s=outage.retry_after_s, is_outage=True))
        except BaseException:
            self._stop.set()
            self._decide(job, lambda: transfer.remove(flight))
            raise
        else:
            self._decide(job, lambda: transfer.remove(flight))

    def _decide(self, job: Job, decision: Callable[[], None]) -> None:
        with self._lock:
            try:
                decision()
            except (Retryable, FileChanged, CredentialExpired):
                raise
            except BaseException:
                self._stop.set()
                raise
            finally:
                job.adjust_file()
                self._lock.notify_all()
        self._report(job)

    def _ask(self, job: Job, flight: Flight) -> None:
        with self._lock:
            hop = job.transfer.target(flight)
            headers = job.transfer.headers(flight)
            flight.credential = job.transfer.credential
        file = job.wanted
        with self._net.stream(
            file.url if hop is None else str(hop.url),
            credential=flight.credential if hop is None else hop.credential,
            named_by_user=file.named_by_user if hop is None else hop.named_by_user,
            headers=headers,
            patient=Patience(lambda: flight.dropped or self._stop.is_set()),
        ) as reply:
            self._decide(job, lambda: self._answered(job, flight, reply))
            self._receive(job, flight, reply)

    def _answered(self, job: Job, flight: Flight, reply: Reply) -> None:
        was_unknown = job.transfer.size is None
        job.transfer.answered(flight, reply)
        if was_unknown:
            self._check_room()

    def _receive(self, job: Job, flight: Flight, reply: Reply) -> None:
        for piece in reply.pieces():
            num_bytes = flight.room(len(piece))
            if job.transfer.size is None and flight.pos + num_bytes > job.room_bytes:
                self._require_room(ROOM_STEP_BYTES)
                job.room_bytes += ROOM_STEP_BYTES
            job.file.write(memoryview(piece)[:num_bytes], flight.pos)
            with self._lock:
                flight.moved(num_bytes, time.monotonic())
                record = job.record_if_due()
                more = job.take_unreported()
            if more:
                job.on_bytes(more)
            if record is not None:
                record()
            if flight.is_done and flight.end != flight.answer_end:
                return  # another flight took over the rest; otherwise the response must be read to its end
            self._keep_pace(job, flight, num_bytes)

    def _keep_pace(self, job: Job, flight: Flight, num_bytes: int) -> None:
        """Waits for the bandwidth limit, and for the hash if it is far behind. Without the latter, the hasher would
        compete with eight connections for the CPU and finish later, and no file is complete before its hash."""

        def is_cancelled() -> bool:
            return flight.dropped or self._stop.is_set()

        flight.is_paused = True
        waited_s = self._net.throttle(num_bytes, is_cancelled)
        while job.is_ahead and not is_cancelled():
            time.sleep(FOLLOW_S)
            waited_s += FOLLOW_S
        flight.paused(waited_s)

    def _report(self, job: Job) -> None:
        with self._lock:
            more = job.take_unreported()
        if more:
            job.on_bytes(more)

    # A hasher's thread

    def _hash(self, job: Job) -> None:
        """Raises `PullFailed` if its digest differs from the source's, `InvalidModelFile` if it is not GGUF."""
        while True:
            found = follow(job.path, lambda hashed: self._front(job, hashed), lambda: time.sleep(FOLLOW_S))
            if found is None:
                return
            with self._lock:
                digest, generation = found
                if generation != job.transfer.generation:
                    continue
                job.is_bad = True
                is_right = job.transfer.verified(digest)
                job.is_bad = False
                job.adjust_file()
                if is_right:
                    job.digest = digest
                    job.close()
                self._lock.notify_all()
            self._report(job)
            if is_right:
                return

    def _front(self, job: Job, hashed: int) -> Front | None:
        with self._lock:
            job.hashed = hashed
            if self._stop.is_set():
                return None
            try:
                job.check_magic()
            except InvalidModelFile:
                self._stop.set()  # before more of it arrives
                raise
            return job.transfer.front

    # The syncer's thread

    def _sync(self) -> None:
        while not self._stop.wait(SYNC_S):
            with self._lock:
                works = [(job, work) for job in self._jobs if (work := job.sync_work()) is not None]
            for job, work in works:
                try:
                    work.run()
                except OSError as error:  # the disk failed, so its content cannot be trusted
                    self._sync_failure = error
                    return
                with self._lock:
                    job.synced(work)
