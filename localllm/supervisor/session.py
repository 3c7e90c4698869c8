"""One life of one worker process, seen from the event loop: loading, answering, death. A session is never restarted.

    starting --Hello--> planning --Load--> loading --Ready--> answering --exit--> dead      (reachable from any state)

Knows nothing of names, files or other models.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from localllm.errors import Draining, InternalError, LocalLLMError, RequestTimeout, WorkerCrashed, from_info
from localllm.supervisor import text_queue
from localllm.supervisor.collector import Collector, embed_frame
from localllm.supervisor.open_calls import OpenCalls
from localllm.supervisor.open_requests import OpenRequests
from localllm.supervisor.pending import DEADLINE_GRACE_S, Pending, remaining
from localllm.supervisor.process import WorkerProcess
from localllm.supervisor.retries import Retries
from localllm.supervisor.session_observer import SessionObserver
from localllm.supervisor.waiting import QueueTimes
from localllm.types import GenerationRequest, LoadedModel, MediaFile
from localllm.types.embeddings import EmbeddingRequest, Embeddings, RerankRequest
from localllm.worker.messages import (
    SLOT_METHODS,
    Accepted,
    Call,
    Cancel,
    Deltas,
    Failed,
    File,
    Hello,
    Load,
    Loading,
    NeedFiles,
    Ready,
    Rejected,
    Reply,
    Submit,
    Tokenized,
    Up,
    Vectors,
)  # fmt: skip

logger = logging.getLogger("localllm")

CALL_TIMEOUT_S, SLOT_CALL_TIMEOUT_S = 120.0, 1800.0
"""Timeouts of a short call, and of one that reads or writes the disk."""
MakeLoad = Callable[[Hello], Load]


class SessionLimits(NamedTuple):
    """How much and how long a session waits."""

    max_waiting: int
    """Requests beyond those in slots, and calls."""
    worker_timeout_s: float = 0.0
    """See `Heartbeat`."""
    step_timeout_s: float = 0.0


class Session:
    """All messages to a worker go through here, on the loop that made it."""

    def __init__(
        self,
        command: Sequence[str],
        make_load: MakeLoad,
        limits: SessionLimits,
        *,
        observer: SessionObserver | None = None,
        retries: Retries[Session] | None = None,
        verbose: bool = False,
        saves: bool = False,
    ) -> None:
        """Starts the process. `make_load` plans from the worker's `Hello`; an error it raises fails the load. `retries`
        gets the requests for which nothing was sent before the worker died. `saves`: the worker has something to save
        when it shuts down. Raises `WorkerCrashed` if no process can be started.
        """
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[LoadedModel] = self._loop.create_future()
        # Avoids "exception was never retrieved" for a load that fails after its caller gave up.
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self.model: LoadedModel | None = None
        """What the worker reported last; it reports again when a draft model was dropped."""
        self._make_load = make_load
        self._max_waiting = limits.max_waiting
        self._saves = saves
        self._queue_times = QueueTimes()
        self._observer = observer or SessionObserver()
        self._retries = retries
        self._pending = OpenRequests(limits.max_waiting, self._queue_times)
        self._collectors: dict[int, Collector] = {}
        self._num_texts = 0
        """Texts in all collectors together."""
        self._calls = OpenCalls(limits.max_waiting)
        self._ids = itertools.count(1)
        self._death: LocalLLMError | None = None
        self._process = WorkerProcess(
            command,
            on_message=self._take,
            on_exit=self._bury,
            has_unprepared=self._has_unprepared,
            worker_timeout_s=limits.worker_timeout_s,
            step_timeout_s=limits.step_timeout_s,
            verbose=verbose,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._death is None

    @property
    def death(self) -> LocalLLMError | None:
        """The error that ended it."""
        return self._death

    @property
    def is_silent(self) -> bool:
        """Whether it has left a ping unanswered for a while."""
        return self._process.is_silent

    @property
    def num_requests(self) -> int:
        """Requests and calls that are not answered yet."""
        return len(self._pending) + len(self._collectors) + len(self._calls)

    @property
    def num_batch(self) -> int:
        """How many of them are of the batch class."""
        return self._pending.num_batch

    def submit(self, request: GenerationRequest) -> Pending:
        """Send a request; its mailbox gets the answer. Raises `InvalidParameter`, `QueueFull`, `WorkerCrashed`."""
        if self._death is not None:
            raise self._death
        self.check_room(1, is_batch=request.batch)
        id = next(self._ids)
        self._process.send(_submit(id, request))
        pending = Pending(request, self, self._observer.ended)
        self._adopt(id, pending)
        return pending

    def resume(self, pending: Pending) -> None:
        """Send a request again whose first worker died. Raises `RequestTimeout`, `WorkerCrashed`."""
        if self._death is not None:
            raise self._death
        id = next(self._ids)
        self._process.send(_submit(id, pending.remaining()))
        self._adopt(id, pending)

    def _adopt(self, id: int, pending: Pending) -> None:
        self._pending[id] = pending
        pending.id, pending.holder = id, self

    def withdraw(self, pending: Pending) -> None:
        """Cancel a request whose answer is no longer wanted."""
        if self._pending.take(pending.id) is not None:
            self._process.send(Cancel(pending.id))

    def check_room(self, num_requests: int, *, is_batch: bool = False) -> None:
        """Raises `QueueFull` if there is no room for that many more."""
        self._pending.check_room(num_requests, self.ready.result().slots, is_batch=is_batch)

    def has_room(self, *, is_batch: bool) -> bool:
        """Whether `check_room` lets one more request pass."""
        return self._pending.has_room(self.ready.result().slots, is_batch=is_batch)

    async def one_left(self) -> None:
        """Waits until a request has ended, or all have with the process."""
        await self._pending.one_left()

    async def embed(self, request: EmbeddingRequest | RerankRequest) -> Embeddings:
        """The vectors of all texts; for reranking, one vector of a single number per document: its score.

        Cancelled with the task. Raises the worker's error, `QueueFull`, `RequestTimeout`, `WorkerCrashed`.
        """
        if self._death is not None:
            raise self._death
        text_queue.check_room(text_queue.count(request), self._num_texts, len(self._collectors), self._max_waiting)
        started_s = self._loop.time()
        end: str | None = InternalError.code
        try:
            async with asyncio.timeout(None if request.timeout_s is None else request.timeout_s + DEADLINE_GRACE_S):
                try:
                    made = await self._embed(request)
                except WorkerCrashed as crash:
                    if self._retries is None:
                        raise
                    made = await self._retries.alone(
                        crash, lambda session: session._embed(remaining(request, self._loop.time() - started_s))
                    )
            end = None
        except TimeoutError:
            end = RequestTimeout.code
            raise text_queue.late(request) from None
        except LocalLLMError as error:
            end = error.code
            raise
        except asyncio.CancelledError:
            end = "cancelled"
            raise
        finally:
            if end is None:
                self._observer.embedded()
            else:
                self._observer.ended(end)
        return made

    async def _embed(self, request: EmbeddingRequest | RerankRequest) -> Embeddings:
        if self._death is not None:
            raise self._death
        files = request.media if isinstance(request, EmbeddingRequest) else ()
        id, collector, num_texts = next(self._ids), Collector(self._loop, files), text_queue.count(request)
        self._process.send(embed_frame(id, request))
        self._collectors[id] = collector
        self._num_texts += num_texts
        timer = None
        if request.queue_timeout_s is not None:
            timer = self._loop.call_later(request.queue_timeout_s + DEADLINE_GRACE_S, self._late_in_queue, id, request)
        try:
            return await collector.result
        except (asyncio.CancelledError, RequestTimeout):
            self._process.send(Cancel(id))
            raise
        finally:  # counted before callbacks run: a model that is idle now may be unloaded
            if timer is not None:
                timer.cancel()
            del self._collectors[id]
            self._num_texts -= num_texts

    def _late_in_queue(self, id: int, request: EmbeddingRequest | RerankRequest) -> None:
        collector = self._collectors.get(id)
        if collector is not None and (not collector.is_expected or self.is_silent):
            collector.fail(text_queue.late_in_queue(request))

    async def call(self, method: str, *args: Any, files: tuple[MediaFile, ...] = ()) -> Any:
        """The result of a short call. `files`: of the messages in it. Raises the worker's error, `QueueFull`,
        `RequestTimeout`, `WorkerCrashed`."""
        timeout_s = SLOT_CALL_TIMEOUT_S if method in SLOT_METHODS else CALL_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await self._call(method, args, files)
                except WorkerCrashed as crash:
                    if self._retries is None or method in SLOT_METHODS:  # the contents of slots died with the worker
                        raise
                    return await self._retries.alone(crash, lambda session: session._call(method, args, files))
        except TimeoutError:
            raise RequestTimeout(f"the model's process did not answer {method!r} within {timeout_s:g} s") from None

    async def _call(self, method: str, args: tuple[Any, ...], files: tuple[MediaFile, ...]) -> Any:
        if self._death is not None:
            raise self._death
        id = next(self._ids)
        try:
            with self._calls.opened(id, method, files) as answer:
                self._process.send(Call(id, method, args))
                return await answer
        except asyncio.CancelledError:
            self._process.send(Cancel(id))
            raise
        finally:
            self._observer.called()  # as above: this call may be what kept the model loaded

    def give_up(self, error: LocalLLMError) -> None:
        """Fail the load with this error."""
        self._fail_load(error)

    async def aclose(self) -> None:
        """End the process and wait until it is gone; running answers fail with `Draining`."""
        await self._process.aclose(saves=self._saves and self._is_answering)

    def dismiss(self) -> None:
        """Ask the process to shut down, from any thread, for callers that cannot wait for `aclose`. Never blocks."""
        self._process.dismiss()

    @property
    def _is_answering(self) -> bool:
        """Whether it had finished loading, before any death."""
        return self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None

    def _has_unprepared(self) -> bool:
        return any(not pending.mailbox.accepted.done() for pending in self._pending.values()) or any(
            not collector.is_expected for collector in self._collectors.values()
        )

    def _take(self, message: Up) -> None:
        if isinstance(message, Accepted | Rejected | Tokenized):
            self._process.prepared()
        if isinstance(message, Deltas):
            for id, delta in message.items:
                pending = self._find(id, ends=delta.finish is not None)
                if pending is not None and delta.finish is not None:
                    self._queue_times.observe(delta.finish.timings)
                if pending is not None:
                    pending.put(delta)
        elif isinstance(message, NeedFiles):
            self._send_files(message)
        elif isinstance(message, Accepted):
            if (pending := self._find(message.id)) is not None:
                accept = pending.mailbox.accept
                accept(message.num_prompt_tokens, message.notes, message.beginning, message.cache, message.making)
        elif isinstance(message, Rejected):
            if (collector := self._collectors.get(message.id)) is not None:
                collector.fail(from_info(message.error))
            elif (pending := self._find(message.id, ends=True)) is not None:
                pending.fail(from_info(message.error))
        elif isinstance(message, Tokenized):
            if (collector := self._collectors.get(message.id)) is not None:
                collector.expect(message)
        elif isinstance(message, Vectors):
            if (collector := self._collectors.get(message.id)) is not None:
                collector.take(message)
        elif isinstance(message, Reply):
            self._calls.reply(message)
        elif isinstance(message, Hello):
            self._plan(message)
            self._process.watch()
        elif isinstance(message, Loading):
            self._observer.loading(message.fraction)
        elif isinstance(message, Ready):
            self.model = message.model
            if not self.ready.done():
                self.ready.set_result(message.model)
            elif self._is_answering:
                self._observer.reported(message.model)
        elif isinstance(message, Failed):
            self._fail_load(from_info(message.error))

    def _send_files(self, message: NeedFiles) -> None:
        pending, collector = self._find(message.id), self._collectors.get(message.id)
        there = self._calls.files_of(message.id) if pending is None else pending.request.media
        files = {file.digest: file for file in (there if collector is None else collector.files)}
        try:
            for digest in message.digests if files else ():
                if digest not in files:
                    raise InternalError(f"the request has no bytes of the medium {digest}")
                self._process.send(File(digest, files[digest].data))
        except LocalLLMError as error:  # too much waits for the worker
            if pending is not None:
                self.withdraw(pending)
                pending.fail(error)
            elif collector is not None:
                collector.fail(error)
            else:
                self._calls.fail(message.id, error)

    def _find(self, id: int, *, ends: bool = False) -> Pending | None:
        """The request; None if it was cancelled while this message was on its way."""
        return self._pending.take(id) if ends else self._pending.get(id)

    def _plan(self, hello: Hello) -> None:
        try:
            self._process.send(self._make_load(hello))
        except LocalLLMError as error:
            self._fail_load(error)

    def _fail_load(self, error: LocalLLMError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)

    def _bury(self, crash: WorkerCrashed) -> None:
        was_answering, is_closing = self._is_answering, self._process.is_leaving
        death = self._death = Draining("the model is being unloaded") if is_closing else crash
        self._fail_load(death)
        if was_answering and not is_closing:
            _guarded(self._observer.died)
        for each in self._pending.take_all():
            if is_closing or self._retries is None or each.was_retried or each.begun.is_set():
                _guarded(partial(each.fail, death))
            else:
                self._retries.take(each, crash)
        for collector in self._collectors.values():
            collector.fail(death)
        self._calls.fail_all(death)


def _submit(id: int, request: GenerationRequest) -> Submit:
    return Submit(id, replace(request, media=(), documents=()) if request.media or request.documents else request)


def _guarded(callback: Callable[[], None]) -> None:
    """Call it, and log an error, so that the remaining callbacks still learn of the end."""
    try:
        callback()
    except Exception:
        logger.exception("defect in a session")
