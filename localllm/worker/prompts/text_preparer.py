"""Turns texts to embed or rank into tokens for the embedder, or rejects them with the number of the faulty text.

Has a thread of its own, where requests take turns: ten thousand texts delay neither chats nor a single text. Knows
nothing of batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from localllm.engine.embedding.texts import TextJob
from localllm.engine.spans import NO_SPANS, Spans
from localllm.errors import ContextLengthExceeded, InvalidParameter, LocalLLMError
from localllm.types import LoadedModel
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.worker.messages import Embed, File, Rejected, Tokenized, Up
from localllm.worker.prompts.fair_turns import Turns
from localllm.worker.prompts.marked_text import MediaTokens
from localllm.worker.prompts.media_texts import MediaText, MediaTexts, with_rows
from localllm.worker.prompts.prompt_parts import Memo
from localllm.worker.prompts.tokenized import MOST_COUNTED
from localllm.worker.prompts.uncancelled import UncancelledRequests
from localllm.worker.refusals import deadline_s, errors_to, too_long

MAX_VECTORS_BYTES = 256 * 1024 * 1024
"""Limit for the vectors of one request together."""
MAX_CUTS = 8
"""Attempts to cut a document until it fits into a template."""


class Tokenizer(Protocol):
    """The part of `llama.tokens.vocab.Vocab` that is needed here."""

    def tokenize_in_steps(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        memo: Memo | None = None,
        closes: bool = False,
    ) -> Iterator[list[int]]: ...

    def fewest_tokens(self, text: str) -> int: ...

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]: ...

    def pair(self, query: Sequence[int], document: Sequence[int]) -> list[int]: ...

    @property
    def closing_tokens(self) -> tuple[int, ...]: ...


class Loop(Protocol):
    """The engine, or its stand-in for encoders."""

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
    spans: Spans = NO_SPANS
    image_tokens: int = 0
    audio_tokens: int = 0


class TextPreparer:
    """`submit` and `cancel` come from the reader thread; the work is done on the preparer's own."""

    def __init__(
        self,
        model: LoadedModel,
        vocab: Tokenizer,
        loop: Loop,
        jobs: Jobs,
        send: Callable[[Up], None],
        media: MediaTexts,
    ) -> None:
        self._model = model
        self._media = media
        self._vocab = vocab
        self._loop = loop
        self._jobs = jobs
        self._send = send
        self._wanted = UncancelledRequests(send)
        self._turns = Turns("text-preparer")

    def submit(self, message: Embed) -> None:
        id, arrived_s = message.id, self._loop.clock()
        self._wanted.add(id)
        is_wanted = partial(self._wanted.__contains__, id)
        embedding = message.embedding
        if embedding is None or embedding.parts is None:
            self._turns.add(self._draft(message, arrived_s), is_wanted)
            return
        self._media.begin(
            id,
            embedding.parts,
            is_wanted,
            lambda pieces: self._turns.add(self._draft_media(id, embedding, arrived_s, pieces), is_wanted),
            partial(self._refuse, id),
        )

    def put(self, file: File) -> None:
        """The bytes of a picture or sound that were asked for."""
        self._media.put(file)

    def cancel(self, id: int) -> None:
        """Cancel a request, whether it is still here or with the embedder. Nothing more is sent for it."""
        if not self._wanted.take(id):
            self._loop.call_soon(lambda: self._jobs.cancel(id))
        self._media.cancelled(id)

    def _refuse(self, id: int, error: LocalLLMError) -> None:
        self._wanted.answer(Rejected(id, error.info()))

    def _draft_media(self, id: int, request: EmbeddingRequest, arrived_s: float, pieces: MediaTokens) -> Iterator[None]:
        """The same for texts with pictures and sounds, which then wait for their rows."""
        refuse, limit = partial(self._refuse, id), self._model.embedding_ctx
        with errors_to(refuse):
            self._check_embedding(request)
            texts: list[MediaText] = []
            for number, parts in enumerate(request.parts or ()):
                text = yield from self._media.tokens(parts, pieces)
                text.tokens.extend(self._closing(special=True))
                if not text.tokens:
                    raise InvalidParameter(f"input {number} is empty; leave it out", param="input", item=number)
                if len(text.tokens) > limit:  # also if texts may be truncated: half a picture is none
                    raise self._too_long(f"input {number}", len(text.tokens), "input", number, at_least=False)
                texts.append(text)
            dimensions, normalize = request.dimensions or self._model.dimensions, request.normalize
            made = [
                _Text(each.tokens, False, each.spans, each.use.rows("image"), each.use.rows("audio")) for each in texts
            ]
            with_rows(
                texts,
                lambda: self._hand_over(id, request, arrived_s, made, dimensions, normalize=normalize),
                refuse,
            )

    def _draft(self, message: Embed, arrived_s: float) -> Iterator[None]:
        """Prepares one request, a slice at each `next`."""
        with errors_to(partial(self._refuse, message.id)):
            if (ranking := message.ranking) is not None:
                texts = yield from self._rank(ranking)
                self._hand_over(message.id, ranking, arrived_s, texts)
            elif (embedding := message.embedding) is not None:
                texts = yield from self._embed(embedding)
                dimensions = embedding.dimensions or self._model.dimensions
                self._hand_over(message.id, embedding, arrived_s, texts, dimensions, normalize=embedding.normalize)

    def _check_embedding(self, request: EmbeddingRequest) -> None:
        """Raises `InvalidParameter`."""
        pooling, dimensions = self._model.pooling, self._model.dimensions
        if pooling == "rank":
            raise InvalidParameter(
                f"{self._model.id} ranks documents and has no vectors; use rerank, or load it with another --pooling",
                param="model",
            )
        if request.dimensions is not None and not 1 <= request.dimensions <= dimensions:
            raise InvalidParameter(
                f"dimensions must be from 1 to the model's {dimensions}, got {request.dimensions}", param="dimensions"
            )

    def _embed(self, request: EmbeddingRequest) -> Generator[None, None, list[_Text]]:
        self._check_embedding(request)
        texts: list[_Text] = []
        items: Sequence[str | Sequence[int]] = request.tokens or () if request.texts is None else request.texts
        for number, item in enumerate(items):
            texts.append((yield from self._item(number, item, truncate=request.truncate)))
        return texts

    def _item(self, number: int, item: str | Sequence[int], *, truncate: bool) -> Generator[None, None, _Text]:
        limit = self._model.embedding_ctx
        closing, is_whole = 0, True
        if isinstance(item, str):
            if not truncate:
                self._check_bytes(item, f"input {number}", "input", number)
            tokens, is_whole = yield from self._tokenize(item, number, "input")
            closing = 1 if tokens and tokens[-1] in self._vocab.closing_tokens else 0
        else:
            try:
                tokens = self._vocab.check_tokens(item, "input")
            except InvalidParameter as error:
                raise InvalidParameter(f"input {number}: {error.message}", param="input", item=number) from error
            yield
        if not tokens:
            raise InvalidParameter(f"input {number} is empty; leave it out", param="input", item=number)
        if len(tokens) <= limit:
            return _Text(tokens, was_cut=False)
        if not truncate:
            raise self._too_long(f"input {number}", len(tokens), "input", number, at_least=not is_whole)
        return _Text(tokens[: limit - closing] + tokens[len(tokens) - closing :], was_cut=True)

    def _rank(self, request: RerankRequest) -> Generator[None, None, list[_Text]]:
        if self._model.pooling != "rank":
            raise InvalidParameter(f"{self._model.id} cannot rank: {self._no_rank()}", param="model")
        texts: list[_Text] = []
        query, _ = yield from self._tokenize(request.query, None, "query", plain=True)
        for number, document in enumerate(request.documents):
            texts.append((yield from self._pair(number, request, query, document)))
        return texts

    def _no_rank(self) -> str:
        if self._model.info.has_ranking_head:
            return f"it was loaded with pooling {self._model.pooling}; load it with --pooling rank"
        return "it has no ranking head; use a reranking model"

    def _pair(
        self, number: int, request: RerankRequest, query: list[int], document: str
    ) -> Generator[None, None, _Text]:
        """As llama-server does: the model's own template, else query and document between its special tokens."""
        limit = self._model.embedding_ctx
        template = self._model.info.chat_templates.get("rerank")
        if template is not None:
            return (yield from self._templated(number, request, template, document))
        if not request.truncate:
            self._check_bytes(document, f"document {number}", "documents", number)
        tokens, is_whole = yield from self._tokenize(document, number, "documents", plain=True)
        whole = self._vocab.pair(query, tokens)
        if len(whole) <= limit:
            return _Text(whole, was_cut=False)
        num_kept = len(tokens) - (len(whole) - limit)
        if not request.truncate or num_kept < 1:
            what = _document(number, num_kept, "query")
            raise self._too_long(what, len(whole), "documents", number, at_least=not is_whole)
        return _Text(self._vocab.pair(query, tokens[:num_kept]), was_cut=True)

    def _templated(
        self, number: int, request: RerankRequest, template: str, document: str
    ) -> Generator[None, None, _Text]:
        limit = self._model.embedding_ctx
        tokens, is_whole = yield from self._tokenize(
            _filled(template, request.query, document), number, "documents", special=False
        )
        num_tokens, at_least = len(tokens), not is_whole
        while request.truncate and document and not is_whole:  # more than twice too long
            document = document[: len(document) // 2]
            tokens, is_whole = yield from self._tokenize(
                _filled(template, request.query, document), number, "documents", special=False
            )
        for _ in range(MAX_CUTS):
            if len(tokens) <= limit:
                return _Text(tokens, was_cut=num_tokens > limit)
            if not request.truncate or not document:
                break
            # In characters, since a template takes text: as many as should fit, less a few.
            alone, _ = yield from self._tokenize(document, number, "documents", plain=True)
            about = max(1, len(alone))
            document = document[: max(0, int(len(document) * (about - (len(tokens) - limit) - 1) / about))]
            tokens, _ = yield from self._tokenize(
                _filled(template, request.query, document), number, "documents", special=False
            )
        raise self._too_long(
            _document(number, len(document), "query"), num_tokens, "documents", number, at_least=at_least
        )

    def _tokenize(
        self, text: str, number: int | None, param: str, *, special: bool = True, plain: bool = False
    ) -> Generator[None, None, tuple[list[int], bool]]:
        """The tokens, and whether these are all: at most `MOST_COUNTED` times the longest text is counted.

        `plain`: no special tokens, neither added nor parsed from the text; a closing token is still present.
        """
        tokens: list[int] = []
        most = MOST_COUNTED * self._model.embedding_ctx
        try:
            for step in self._vocab.tokenize_in_steps(
                text, add_special=special and not plain, parse_special=not plain, closes=True
            ):
                tokens += step
                if len(tokens) > most:
                    return [*tokens[:most], *self._closing(special=special and not plain)], False
                yield
        except InvalidParameter as error:
            where = param if number is None else f"{param} {number}"
            raise InvalidParameter(f"{where}: {error.message}", param=param, item=number) from error
        return tokens, True

    def _closing(self, *, special: bool) -> list[int]:
        """What `tokenize` appends to every text."""
        empty = [token for step in self._vocab.tokenize_in_steps("", add_special=special) for token in step]
        return [token for token in empty[-1:] if token in self._vocab.closing_tokens]

    def _check_bytes(self, text: str, what: str, param: str, number: int) -> None:
        fewest = self._vocab.fewest_tokens(text)
        if fewest > self._model.embedding_ctx:
            raise self._too_long(what, fewest, param, number, at_least=True)

    def _hand_over(
        self,
        id: int,
        request: EmbeddingRequest | RerankRequest,
        arrived_s: float,
        texts: list[_Text],
        dimensions: int = 1,
        *,
        normalize: bool = False,
    ) -> None:
        num_tokens = tuple(len(text.tokens) for text in texts)
        num_vectors = num_tokens if self._model.pooling == "none" else (1,) * len(texts)
        size_bytes = 4 * dimensions * sum(num_vectors)
        if size_bytes > MAX_VECTORS_BYTES:
            raise InvalidParameter(
                f"the vectors would take {size_bytes / 1e6:.0f} MB, of {MAX_VECTORS_BYTES / 1e6:.0f} allowed; "
                "send fewer texts at a time",
                param="input",
            )
        cut = tuple(number for number, text in enumerate(texts) if text.was_cut)
        job = TextJob(
            id,
            [text.tokens for text in texts],
            spans=[text.spans for text in texts] if any(text.spans for text in texts) else (),
            dimensions=dimensions,
            normalize=normalize,
            priority=request.priority,
            created_s=arrived_s,
            deadline_s=deadline_s(arrived_s, request.timeout_s),
            queue_deadline_s=deadline_s(arrived_s, request.queue_timeout_s),
        )

        media = (sum(text.image_tokens for text in texts), sum(text.audio_tokens for text in texts))

        def add() -> None:
            self._send(Tokenized(id, dimensions, num_vectors, num_tokens, cut, *media))
            self._loop.call_soon(lambda: self._jobs.add(job))

        self._wanted.hand_over(id, add)

    def _too_long(
        self, what: str, num_tokens: int, param: str, number: int, *, at_least: bool
    ) -> ContextLengthExceeded:
        limit, trained = self._model.embedding_ctx, self._model.info.context_length
        larger = limit < (trained or limit)
        # Clients of llama-server recognize this error by "too large".
        remedy = "reduce the length of that text, which is too large to process, or ask for truncation" + (
            ", or load the model with a larger --embedding-ctx" if larger else ""
        )
        return too_long(what, num_tokens, limit, remedy, param=param, item=number, at_least=at_least)


def _document(number: int, room: int, query: str) -> str:
    return f"document {number}" if room >= 1 else f"the {query} with document {number}"


def _filled(template: str, query: str, document: str) -> str:
    """Both in one pass, so that a query containing {document} is not substituted again."""
    values = {"{query}": query, "{document}": document}
    return re.sub(r"\{query\}|\{document\}", lambda match: values[match[0]], template)
