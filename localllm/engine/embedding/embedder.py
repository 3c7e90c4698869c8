"""Computes texts into vectors in bounded pieces, between the steps of a generation or alone.

Everything happens on the engine's thread: two thread pools of ggml would compete for the same cores. Knows nothing of
processes, tokenizing or llama.cpp.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from localllm.engine.backend import BackendError, EmbeddingBackend, Vectors
from localllm.engine.embedding.texts import Limits, Text, TextJob, TextQueue
from localllm.engine.scheduling.cost import ASSUMED_PASS, ASSUMED_TOKEN_S, CostModel
from localllm.engine.threads.team import Team
from localllm.errors import InternalError, LocalLLMError, RequestTimeout

LARGEST_TOKENS = 512
"""The largest batch, except for a longer text that cannot be split. More tokens at a time are not faster."""
WHOLE_TOKENS = 256
LONGEST_WHOLE = 2.0
"""While nothing streams, this many tokens are computed at once even if they take this many times longer than a step
may: cutting a text in two or three takes a third longer on a slow machine."""


class TextOutput(NamedTuple):
    """What one batch produced for one request."""

    id: int
    items: list[tuple[int, Vectors]]
    """(number of the text, its vectors)"""
    is_last: bool
    error: LocalLLMError | None = None
    """Set when no more will come."""


class Embedder:
    """One model's texts. Not thread-safe: `Engine.call_soon` brings work to its thread."""

    def __init__(
        self,
        make_backend: Callable[[], EmbeddingBackend],
        emit: Callable[[TextOutput], None],
        *,
        max_step_s: float = 0.3,
        prefill_step_s: float = 0.1,
        clock: Callable[[], float] = time.perf_counter,
        team: Team | None = None,
    ) -> None:
        """`make_backend` is called when the first text arrives; `LoadFailed` ends the requests queued by then."""
        self.clock = clock
        self._make_backend = make_backend
        self._backend: EmbeddingBackend | None = None
        self._emit = emit
        self._max_step_s = max_step_s
        self._prefill_step_s = min(prefill_step_s, max_step_s)
        self._team = team
        self._cost = CostModel((ASSUMED_PASS * ASSUMED_TOKEN_S, ASSUMED_TOKEN_S))
        """Of a batch, and of a token in it."""
        self._queue = TextQueue()

    @property
    def has_work(self) -> bool:
        return self._queue.has_work

    def add(self, job: TextJob) -> None:
        self._queue.add(job)

    def cancel(self, id: int) -> None:
        """Compute nothing more for it and report nothing; an unknown id belongs to one that has ended."""
        place = self._queue.remove(id)
        if place is not None and self._backend is not None:
            self._backend.forget(place)

    def step(self, num_streams: int = 0) -> None:
        """Compute one batch, if there is work; a shorter one while `num_streams` answers are streaming."""
        self._end_expired()
        if not self._queue.has_work:
            return
        try:
            backend = self._ready_backend()
        except LocalLLMError as error:
            for job in self._queue.jobs:
                self._fail(job, error)
            return
        limits = Limits(backend.splits_texts, backend.max_texts, backend.together_tokens)
        planned = self._queue.plan(self._budget(num_streams), limits, self.clock())
        pieces = [piece for _, piece in planned]
        if self._team is not None:
            backend.set_threads(self._team.begin(sum(len(piece.tokens) for piece in pieces), is_text=True))
        started_s = self.clock()
        try:
            results = backend.compute(pieces)
        except BackendError as error:
            self._isolate([text for text, _ in planned], error)
            return
        if self._team is not None:
            self._team.end(self.clock() - started_s)
        num_tokens = sum(len(piece.tokens) for piece in pieces)
        if num_tokens <= LARGEST_TOKENS:  # a longer text is no measure for batches: its tokens cost more
            self._cost.observe((1, num_tokens), self.clock() - started_s)
        self._emit_vectors(
            [(text, vectors) for (text, _), vectors in zip(planned, results, strict=True) if vectors is not None]
        )

    def _emit_vectors(self, results: list[tuple[Text, Vectors]]) -> None:
        items: dict[int, list[tuple[int, Vectors]]] = {}
        broken = {text.job.id: text for text, vectors in results if not np.isfinite(vectors).all()}
        for text in broken.values():
            self._fail(text.job, InternalError(f"the vector of text {text.number} is not finite"))
        results = [(text, vectors) for text, vectors in results if text.job.id not in broken]
        for text, vectors in results:
            self._queue.ended(text)
            items.setdefault(text.job.id, []).append((text.number, shaped(vectors, text.job)))
        for id, job in {text.job.id: text.job for text, _ in results}.items():
            self._emit(TextOutput(id, items[id], is_last=job.is_over))

    def _ready_backend(self) -> EmbeddingBackend:
        if self._backend is None:
            self._backend = self._make_backend()
        return self._backend

    def _budget(self, num_streams: int) -> int:
        seconds = self._prefill_step_s if num_streams else self._max_step_s
        tokens = self._tokens_in(seconds)
        if not num_streams:
            tokens = max(tokens, min(WHOLE_TOKENS, self._tokens_in(LONGEST_WHOLE * seconds)))
        return max(1, min(LARGEST_TOKENS, tokens))

    def _tokens_in(self, seconds: float) -> int:
        batch_s, token_s = self._cost.rates
        return int((seconds - batch_s) / token_s + 1e-6)

    def _end_expired(self) -> None:
        now_s = self.clock()
        for job in self._queue.jobs:
            if job.deadline_s <= now_s:
                reason = f"{job.num_left} of {len(job.texts)} texts were not computed"
                self._fail(job, _late(job, reason, job.deadline_s, "the request allows (timeout)"))
            elif job.num_begun == 0 and job.queue_deadline_s <= now_s:
                none = f"none of {len(job.texts)} texts began"
                self._fail(job, _late(job, none, job.queue_deadline_s, "a request may wait (queue_timeout_s)"))

    def _isolate(self, texts: list[Text], error: BackendError) -> None:
        """Only the culprit's request fails: each text of the batch is computed again, alone."""
        if len(texts) > 1:
            self._queue.compute_alone(texts)
        else:
            self._fail(texts[0].job, InternalError(f"the model failed to compute text {texts[0].number}: {error}"))

    def _fail(self, job: TextJob, error: LocalLLMError) -> None:
        self.cancel(job.id)
        self._emit(TextOutput(job.id, [], is_last=True, error=error))


def _late(job: TextJob, what: str, deadline_s: float, whose: str) -> RequestTimeout:
    return RequestTimeout(f"{what} within the {deadline_s - job.created_s:.3g} s that {whose}")


def shaped(vectors: Vectors, job: TextJob) -> Vectors:
    """In the requested form: the first `dimensions` numbers, normalized to length 1 if asked; zeros stay zeros."""
    vectors = vectors[:, : job.dimensions]
    if job.normalize:
        lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
        vectors = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return vectors
