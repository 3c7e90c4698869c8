"""One life of one worker process, seen from the event loop: loading, answering, death. A session is never restarted.

    starting --Hello--> planning --Load--> loading --Ready--> answering --exit--> dead      (reached from anywhere)

Knows nothing of names, files or which other models there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from localllm.embeddings import EmbeddingRequest, Embeddings, RerankRequest
from localllm.errors import Draining, InvalidParameter, LocalLLMError, QueueFull, WorkerCrashed, from_info
from localllm.supervisor.collector import Collector
from localllm.supervisor.mailbox import Mailbox
from localllm.supervisor.waiting import QueueTimes
from localllm.types import Finish, GenerationRequest, LoadedModel
from localllm.worker.handle import TERM_GRACE_S, WorkerHandle
from localllm.worker.messages import (
    Accepted,
    Call,
    Cancel,
    Deltas,
    Embed,
    Failed,
    Hello,
    Load,
    Loading,
    Ready,
    Rejected,
    Reply,
    Submit,
    Tokenized,
    Up,
    Vectors,
)  # fmt: skip

MAX_WAITING_TEXTS = 20_000
"""Texts to embed or rank that one model may have at a time, those of all its requests together."""

TEXT_METHODS = frozenset({"tokenize", "pieces", "render"})
"""Those of `Call` that take time on the worker's preparer; `max_waiting` of them may wait, and as many others."""

MakeLoad = Callable[[Hello], Load]


class Session:
    """Everything that is said to a worker goes through here, on the loop that made it."""

    def __init__(
        self,
        command: Sequence[str],
        make_load: MakeLoad,
        *,
        max_waiting: int,
        on_end: Callable[[Finish | str], None] = lambda _: None,
        on_embedded: Callable[[], None] = lambda: None,
        on_death: Callable[[], None] = lambda: None,
        on_progress: Callable[[float], None] | None = None,
        verbose: bool = False,
        grace_s: float = TERM_GRACE_S,
    ) -> None:
        """Starts the process. `make_load` plans from the worker's `Hello`; what it raises fails the load. `grace_s`:
        how long it may take to leave when it is asked to.

        `on_end` is told how each request ended, by its finish or an error's code; `on_embedded` that one of texts was
        answered; `on_death` that a session which
        answered does not any more, unless it was closed.
        """
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[LoadedModel] = self._loop.create_future()
        self.ready.add_done_callback(_retrieve)
        self._exited = asyncio.Event()
        self._make_load = make_load
        self._max_waiting = max_waiting
        self._grace_s = grace_s
        self._queue_times = QueueTimes()
        self._on_end = on_end
        self._on_embedded = on_embedded
        self._on_death = on_death
        self._on_progress = on_progress
        self._mailboxes: dict[int, Mailbox] = {}
        self._collectors: dict[int, Collector] = {}
        self._num_texts = 0
        """In all collectors together."""
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._num_calls = {True: 0, False: 0}
        """Of those, how many are in `TEXT_METHODS` and how many are not."""
        self._ids = itertools.count(1)
        self._death: LocalLLMError | None = None
        self._closing = False
        self._handle = WorkerHandle(
            command,
            on_message=lambda message: self._post(self._take, message),
            on_exit=lambda error: self._post(self._bury, error),
            echo_stderr=verbose,
        )

    @property
    def pid(self) -> int:
        return self._handle.pid

    @property
    def alive(self) -> bool:
        return self._death is None

    @property
    def num_requests(self) -> int:
        """Requests and questions that are not answered yet."""
        return len(self._mailboxes) + len(self._collectors) + len(self._calls)

    def submit(self, request: GenerationRequest) -> tuple[int, Mailbox]:
        """Send a request; its answer comes to the mailbox. Raises `QueueFull`, `WorkerCrashed`."""
        if self._death is not None:
            raise self._death
        slots = self.ready.result().slots
        if len(self._mailboxes) >= slots + self._max_waiting:
            waiting = len(self._mailboxes) - slots
            raise self._queue_times.full(num_waiting=waiting, max_waiting=self._max_waiting, slots=slots)
        id, mailbox = next(self._ids), Mailbox(self._loop)
        self._mailboxes[id] = mailbox
        self._handle.send(Submit(id, request))
        return id, mailbox

    async def embed(self, request: EmbeddingRequest | RerankRequest) -> Embeddings:
        """The vectors of all texts, or of each document one of a single number: its score.

        Cancelled when the task is. Raises what the worker refuses, `QueueFull`, `WorkerCrashed`.
        """
        if self._death is not None:
            raise self._death
        num_texts = _count_texts(request)
        self._check_room(num_texts)
        id, collector = next(self._ids), Collector(self._loop)
        self._collectors[id] = collector
        self._num_texts += num_texts
        if isinstance(request, RerankRequest):
            self._handle.send(Embed(id, None, request))
        else:
            self._handle.send(Embed(id, request, None))
        end: str | None = None
        try:
            return await collector.result
        except LocalLLMError as error:
            end = error.code
            raise
        except asyncio.CancelledError:
            self._handle.send(Cancel(id))
            end = "cancelled"
            raise
        finally:  # counted off before it is told: who is idle now may be unloaded
            del self._collectors[id]
            self._num_texts -= num_texts
            if end is None:
                self._on_embedded()
            else:
                self._on_end(end)

    def _check_room(self, num_texts: int) -> None:
        if len(self._collectors) >= self._max_waiting:
            raise QueueFull(
                f"{len(self._collectors)} requests with texts wait already and {self._max_waiting} may (max_waiting); "
                "try again later",
                waiting=len(self._collectors),
                limit=self._max_waiting,
            )
        if num_texts > MAX_WAITING_TEXTS:
            raise InvalidParameter(
                f"{num_texts} texts are too many for one request; send at most {MAX_WAITING_TEXTS}", param="input"
            )
        if self._num_texts + num_texts > MAX_WAITING_TEXTS:
            raise QueueFull(
                f"{self._num_texts} texts wait already and {MAX_WAITING_TEXTS} may; try again later",
                waiting=self._num_texts,
                limit=MAX_WAITING_TEXTS,
            )

    def cancel(self, id: int) -> None:
        """Nobody waits for this answer any more."""
        if self._mailboxes.pop(id, None) is not None:
            self._handle.send(Cancel(id))
            self._on_end("cancelled")

    def abandon(self, id: int) -> None:
        """`cancel`, from any thread: an answer was garbage-collected before its end."""
        self._post(self.cancel, id)

    async def call(self, method: str, *args: Any) -> Any:
        """A small question. Raises what the worker answers, `QueueFull`, or `WorkerCrashed`."""
        if self._death is not None:
            raise self._death
        is_text = method in TEXT_METHODS
        self._check_calls(self._num_calls[is_text])
        id = next(self._ids)
        answer = self._calls[id] = self._loop.create_future()
        self._num_calls[is_text] += 1
        try:
            self._handle.send(Call(id, method, args))
            return await answer
        except asyncio.CancelledError:
            if is_text:
                self._handle.send(Cancel(id))
            raise
        finally:
            self._num_calls[is_text] -= 1
            self._calls.pop(id, None)

    def _check_calls(self, num_waiting: int) -> None:
        if num_waiting >= self._max_waiting:
            raise QueueFull(
                f"{num_waiting} small requests wait already and {self._max_waiting} may (max_waiting); try again later",
                waiting=num_waiting,
                limit=self._max_waiting,
            )

    async def aclose(self) -> None:
        """End the process and wait until it is gone; answers that still run fail with `Draining`."""
        self._closing = True
        await asyncio.to_thread(self._handle.close, self._grace_s)
        await self._exited.wait()

    def _post(self, callback: Callable[[Any], None], item: object) -> None:
        """From any thread to the loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback, item)

    def _take(self, message: Up) -> None:
        if isinstance(message, Deltas):
            for id, delta in message.items:
                if (mailbox := self._find(id, ends=delta.finish is not None)) is not None:
                    mailbox.put(delta)
                    if delta.finish is not None:
                        self._queue_times.observe(delta.finish.timings)
                        self._on_end(delta.finish)
        elif isinstance(message, Accepted):
            if (mailbox := self._find(message.id)) is not None:
                mailbox.accept(message.num_prompt_tokens)
        elif isinstance(message, Rejected):
            if (collector := self._collectors.get(message.id)) is not None:
                collector.fail(from_info(message.error))
            elif (mailbox := self._find(message.id, ends=True)) is not None:
                mailbox.fail(from_info(message.error))
                self._on_end(message.error.code)
        elif isinstance(message, Tokenized | Vectors):
            self._collect(message)
        elif isinstance(message, Reply):
            self._reply(message)
        elif isinstance(message, Hello):
            self._plan(message)
        elif isinstance(message, Loading):
            if self._on_progress is not None:
                self._on_progress(message.fraction)
        elif isinstance(message, Ready):
            if not self.ready.done():
                self.ready.set_result(message.model)
        elif isinstance(message, Failed):
            self._fail_load(from_info(message.error))

    def _find(self, id: int, *, ends: bool = False) -> Mailbox | None:
        """The request's mailbox; None for one that was cancelled while this was on its way."""
        return self._mailboxes.pop(id, None) if ends else self._mailboxes.get(id)

    def _collect(self, message: Tokenized | Vectors) -> None:
        collector = self._collectors.get(message.id)
        if collector is None:  # cancelled while this was on its way
            return
        if isinstance(message, Tokenized):
            collector.expect(message)
            return
        collector.take(message)

    def _reply(self, message: Reply) -> None:
        answer = self._calls.get(message.id)
        if answer is None or answer.done():
            return
        if message.error is not None:
            answer.set_exception(from_info(message.error))
        else:
            answer.set_result(message.result)

    def _plan(self, hello: Hello) -> None:
        try:
            self._handle.send(self._make_load(hello))
        except LocalLLMError as error:
            self._fail_load(error)

    def _fail_load(self, error: LocalLLMError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)

    def _bury(self, crash: WorkerCrashed) -> None:
        death = Draining("the model is being unloaded") if self._closing else crash
        answered = self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None
        self._death = death
        self._exited.set()
        self._fail_load(death)
        mailboxes, self._mailboxes = self._mailboxes, {}
        for mailbox in mailboxes.values():
            mailbox.fail(death)
            self._on_end(death.code)
        for collector in self._collectors.values():
            collector.fail(death)
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(death)
        if answered and not self._closing:
            self._on_death()


def _count_texts(request: EmbeddingRequest | RerankRequest) -> int:
    """Raises `InvalidParameter` for a request without any."""
    if isinstance(request, RerankRequest):
        if not request.documents:
            raise InvalidParameter("give at least one document", param="documents")
        return len(request.documents)
    if (request.texts is None) == (request.tokens is None):
        raise InvalidParameter("give texts or token arrays, one of them", param="input")
    items = request.tokens if request.texts is None else request.texts
    if not items:
        raise InvalidParameter("give at least one text", param="input")
    return len(items)


def _retrieve(future: asyncio.Future[LoadedModel]) -> None:
    """A load that fails after its caller gave up is no "exception was never retrieved"."""
    if not future.cancelled():
        future.exception()
