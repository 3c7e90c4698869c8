"""Turns texts to embed or to rank into tokens for the embedder, or refuses them with the number of the text at fault.

Has a thread of its own, where requests take turns: ten thousand texts delay neither chats nor a single text. Knows
nothing of batches.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from localllm.embeddings import EmbeddingRequest, RerankRequest
from localllm.engine.texts import TextJob
from localllm.errors import ContextLengthExceeded, InvalidParameter
from localllm.types import LoadedModel
from localllm.worker.messages import Embed, Rejected, Tokenized, Up
from localllm.worker.refusals import as_ours, deadline_s, too_long

SLICE_CHARACTERS = 50_000
"""Tokenized of one request before the next has its turn: some 10 ms."""
MAX_VECTORS_BYTES = 256 * 1024 * 1024
"""Of the vectors of one request together."""
MAX_CUTS = 8
"""Attempts to cut a document to fit into a template."""


class Tokenizer(Protocol):
    """The part of `llama.vocab.Vocab` that is needed here."""

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]: ...

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]: ...

    def pair(self, query: Sequence[int], document: Sequence[int]) -> list[int]: ...

    @property
    def closing_tokens(self) -> tuple[int, ...]: ...


class Loop(Protocol):
    """The engine, or what stands for it."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def call_soon(self, work: Callable[[], None]) -> None: ...


class Jobs(Protocol):
    """The embedder, on the loop's thread."""

    def add(self, job: TextJob) -> None: ...

    def cancel(self, id: int) -> None: ...


class _Text(NamedTuple):
    tokens: list[int]
    was_cut: bool


class TextPreparer:
    """`submit` and `cancel` come from the reader thread; the work is done on the preparer's own."""

    def __init__(
        self, model: LoadedModel, vocab: Tokenizer, loop: Loop, jobs: Jobs, send: Callable[[Up], None]
    ) -> None:
        self._model = model
        self._vocab = vocab
        self._loop = loop
        self._jobs = jobs
        self._send = send
        self._inbox: queue.SimpleQueue[tuple[Embed, float]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._preparing: set[int] = set()
        threading.Thread(target=self._run, name="text-preparer", daemon=True).start()

    def submit(self, message: Embed) -> None:
        with self._lock:
            self._preparing.add(message.id)
        self._inbox.put((message, self._loop.clock()))

    def cancel(self, id: int) -> None:
        """Wherever the request is: still here, or with the embedder. Nothing more is sent for it."""
        with self._lock:
            if id in self._preparing:
                self._preparing.remove(id)
                return
        self._loop.call_soon(lambda: self._jobs.cancel(id))

    def _run(self) -> None:
        drafts: deque[Iterator[None]] = deque()
        while True:
            while not drafts or not self._inbox.empty():
                drafts.append(self._draft(*self._inbox.get()))
            draft = drafts.popleft()
            if next(draft, False) is None:
                drafts.append(draft)

    def _draft(self, message: Embed, arrived_s: float) -> Iterator[None]:
        """Prepares one request, a slice at each `next`."""
        try:
            if message.ranking is not None:
                yield from self._rank(message.id, message.ranking, arrived_s)
            elif message.embedding is not None:
                yield from self._embed(message.id, message.embedding, arrived_s)
        except Exception as error:  # noqa: BLE001  one request's surprise must not end this thread for all others
            with self._lock:
                self._preparing.discard(message.id)
            self._send(Rejected(message.id, as_ours(error).info()))

    def _embed(self, id: int, request: EmbeddingRequest, arrived_s: float) -> Iterator[None]:
        pooling, dimensions = self._model.pooling, self._model.dimensions
        if pooling == "rank":
            raise InvalidParameter(
                f"{self._model.id} ranks documents and gives no vectors; use rerank, or load it with another --pooling",
                param="model",
            )
        if request.dimensions is not None and not 1 <= request.dimensions <= dimensions:
            raise InvalidParameter(
                f"dimensions must be from 1 to the model's {dimensions}, got {request.dimensions}", param="dimensions"
            )
        texts: list[_Text] = []
        characters = 0
        items: Sequence[str | Sequence[int]] = request.tokens or () if request.texts is None else request.texts
        for number, item in enumerate(items):
            if characters >= SLICE_CHARACTERS:
                characters = 0
                yield
                if self._is_cancelled(id):
                    return
            characters += len(item)
            texts.append(self._item(number, item, truncate=request.truncate))
        kept = request.dimensions or dimensions
        job = TextJob(
            id,
            [text.tokens for text in texts],
            dimensions=kept,
            normalize=request.normalize,
            priority=request.priority,
            created_s=arrived_s,
            deadline_s=deadline_s(arrived_s, request.timeout_s),
            queue_deadline_s=deadline_s(arrived_s, request.queue_timeout_s),
        )
        counts = tuple(len(text.tokens) for text in texts)
        self._hand_over(job, texts, kept, counts if pooling == "none" else (1,) * len(texts))

    def _item(self, number: int, item: str | Sequence[int], *, truncate: bool) -> _Text:
        closing = 0
        if isinstance(item, str):
            tokens = self._tokenize(item, number, "input")
            closing = 1 if tokens and tokens[-1] in self._vocab.closing_tokens else 0
        else:
            try:
                tokens = self._vocab.check_tokens(item, "input")
            except InvalidParameter as error:
                raise InvalidParameter(f"input {number}: {error.message}", param="input", item=number) from error
        if not tokens:
            raise InvalidParameter(f"input {number} is empty; leave it out", param="input", item=number)
        limit = self._model.embedding_ctx
        if len(tokens) <= limit:
            return _Text(tokens, was_cut=False)
        if not truncate:
            raise self._too_long(f"input {number}", len(tokens), "input", number)
        return _Text(tokens[: limit - closing] + tokens[len(tokens) - closing :], was_cut=True)

    def _rank(self, id: int, request: RerankRequest, arrived_s: float) -> Iterator[None]:
        if self._model.pooling != "rank":
            raise InvalidParameter(f"{self._model.id} cannot rank: {self._no_rank()}", param="model")
        texts: list[_Text] = []
        query = self._tokenize(request.query, None, "query", plain=True)
        characters = 0
        for number, document in enumerate(request.documents):
            if characters >= SLICE_CHARACTERS:
                characters = 0
                yield
                if self._is_cancelled(id):
                    return
            characters += len(document)
            texts.append(self._pair(number, request, query, document))
        job = TextJob(
            id,
            [text.tokens for text in texts],
            priority=request.priority,
            created_s=arrived_s,
            deadline_s=deadline_s(arrived_s, request.timeout_s),
            queue_deadline_s=deadline_s(arrived_s, request.queue_timeout_s),
        )
        self._hand_over(job, texts, 1, (1,) * len(texts))

    def _no_rank(self) -> str:
        if self._model.info.has_ranking_head:
            return f"it was loaded with pooling {self._model.pooling}; load it with --pooling rank"
        return "it has no ranking head; use a reranking model"

    def _pair(self, number: int, request: RerankRequest, query: list[int], document: str) -> _Text:
        """As llama-server does: the model's own template, else query and document between its special tokens."""
        limit = self._model.embedding_ctx
        template = self._model.info.chat_templates.get("rerank")
        if template is not None:
            return self._templated(number, request, template, document)
        tokens = self._tokenize(document, number, "documents", plain=True)
        whole = self._vocab.pair(query, tokens)
        if len(whole) <= limit:
            return _Text(whole, was_cut=False)
        left = len(tokens) - (len(whole) - limit)
        if not request.truncate or left < 1:
            raise self._too_long(_document(number, left, "query"), len(whole), "documents", number)
        return _Text(self._vocab.pair(query, tokens[:left]), was_cut=True)

    def _templated(self, number: int, request: RerankRequest, template: str, document: str) -> _Text:
        limit = self._model.embedding_ctx
        tokens = self._tokenize(_filled(template, request.query, document), number, "documents", special=False)
        whole = len(tokens)
        for _ in range(MAX_CUTS):
            if len(tokens) <= limit:
                return _Text(tokens, was_cut=whole > limit)
            if not request.truncate or not document:
                break
            # Characters, since a template wants text: as many as should do, and a few less.
            about = max(1, len(self._tokenize(document, number, "documents", plain=True)))
            document = document[: max(0, int(len(document) * (about - (len(tokens) - limit) - 1) / about))]
            tokens = self._tokenize(_filled(template, request.query, document), number, "documents", special=False)
        raise self._too_long(_document(number, len(document), "query"), whole, "documents", number)

    def _tokenize(
        self, text: str, number: int | None, param: str, *, special: bool = True, plain: bool = False
    ) -> list[int]:
        """`plain`: no special tokens, neither added nor read out of the text."""
        try:
            return self._vocab.tokenize(text, add_special=special and not plain, parse_special=not plain)
        except InvalidParameter as error:
            where = param if number is None else f"{param} {number}"
            raise InvalidParameter(f"{where}: {error.message}", param=param, item=number) from error

    def _hand_over(self, job: TextJob, texts: list[_Text], dimensions: int, num_vectors: tuple[int, ...]) -> None:
        size_bytes = 4 * dimensions * sum(num_vectors)
        if size_bytes > MAX_VECTORS_BYTES:
            raise InvalidParameter(
                f"the vectors would take {size_bytes / 2**20:.0f} MiB and {MAX_VECTORS_BYTES // 2**20} are allowed; "
                "send fewer texts at a time",
                param="input",
            )
        accepted = Tokenized(
            job.id,
            dimensions,
            num_vectors,
            tuple(len(text.tokens) for text in texts),
            tuple(number for number, text in enumerate(texts) if text.was_cut),
        )
        with self._lock:  # after this a cancel goes to the embedder, and so finds the request there
            if job.id not in self._preparing:
                return
            self._preparing.discard(job.id)
            self._send(accepted)
            self._loop.call_soon(lambda: self._jobs.add(job))

    def _is_cancelled(self, id: int) -> bool:
        with self._lock:
            return id not in self._preparing

    def _too_long(self, what: str, num_tokens: int, param: str, number: int) -> ContextLengthExceeded:
        limit, trained = self._model.embedding_ctx, self._model.info.context_length
        larger = limit < (trained or limit)
        remedy = "reduce the length of that text, ask for truncation" + (
            ", or load the model with a larger --embedding-ctx" if larger else ""
        )
        return too_long(what, num_tokens, limit, remedy, param=param, item=number)


def _document(number: int, left: int, query: str) -> str:
    return f"document {number}" if left >= 1 else f"the {query} with document {number}"


def _filled(template: str, query: str, document: str) -> str:
    """Both in one pass: a query that says {document} is a query."""
    values = {"{query}": query, "{document}": document}
    return re.sub(r"\{query\}|\{document\}", lambda match: values[match[0]], template)
