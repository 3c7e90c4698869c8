"""Which texts go into the next batch of embeddings: pure policy. Knows nothing of threads, clocks or llama.cpp.

Requests take turns by tokens: the one that has had the fewest is next, and a new one starts with as many as the one
that has had the fewest. So a request of 10,000 texts delays one of a single text by one batch. Lower `priority` goes
first, but a request that has waited long without a text begun gets turns of its own (`aging`), so neither starves the
other.

    a job's texts   [0 .. num_begun) computed, or in a batch, or carried     [num_begun .. len(texts)) waiting

A text computed piece by piece is *carried* from batch to batch; there is one such text at a time, and half of every
batch is left to others. A text with pictures or sounds is always carried, and alone in its batches, which alternate
with batches of others: a batch has tokens or rows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from localllm.engine.backend import Piece
from localllm.engine.scheduling.aging import AGED_S, Turns
from localllm.engine.scheduling.cost import TILE
from localllm.engine.spans import NO_SPANS, Spans


class TextJob:
    """One request: texts as tokens, and the form of its vectors. Mutable; owned by the engine's thread."""

    def __init__(
        self,
        id: int,
        texts: Sequence[Sequence[int]],
        *,
        spans: Sequence[Spans] = (),
        dimensions: int | None = None,
        normalize: bool = False,
        priority: int = 0,
        created_s: float = 0.0,
        deadline_s: float = math.inf,
        queue_deadline_s: float = math.inf,
    ) -> None:
        """No text is empty. `spans`: of the pictures and sounds of each text, whose rows are there; empty: none has
        any. `dimensions`: keep only the first numbers of each vector; `normalize` is applied after that."""
        self.id = id
        self.texts = texts
        self.spans = spans
        self.dimensions = dimensions
        self.normalize = normalize
        self.priority = priority
        self.created_s = created_s
        self.deadline_s = deadline_s
        self.queue_deadline_s = queue_deadline_s
        """By when the first of its texts must begin."""
        self.num_begun = 0
        self.num_ended = 0
        self.tokens_had = 0
        """Its turn: tokens computed, plus its starting value."""
        self.served_s = created_s
        """When one of its texts last began."""

    @property
    def num_left(self) -> int:
        return len(self.texts) - self.num_ended

    @property
    def is_over(self) -> bool:
        return self.num_ended == len(self.texts)


class Text(NamedTuple):
    """One text of a job on its way through batches."""

    job: TextJob
    number: int
    """Its index in the job."""
    place: int

    @property
    def spans(self) -> Spans:
        """Its pictures and sounds."""
        return self.job.spans[self.number] if self.job.spans else NO_SPANS


class Limits(NamedTuple):
    """What the backend can do; see `EmbeddingBackend`."""

    splits_texts: bool
    max_texts: int
    together_tokens: int


class TextQueue:
    """Call `plan` for a batch, then `ended` for each text whose last piece was in it."""

    def __init__(self) -> None:
        self._jobs: dict[int, TextJob] = {}
        self._carried: tuple[Text, int] | None = None
        """A text begun and not ended, and how many of its tokens are computed."""
        self._alone: deque[tuple[TextJob, int]] = deque()
        """Texts of a failed batch."""
        self._is_turn_of_others = False
        """Whether the next batch has no piece of a carried text with pictures."""
        self._turns = Turns()

    @property
    def has_work(self) -> bool:
        return bool(self._jobs)

    @property
    def jobs(self) -> list[TextJob]:
        return list(self._jobs.values())

    def add(self, job: TextJob) -> None:
        job.tokens_had = min((other.tokens_had for other in self._jobs.values()), default=0)
        self._jobs[job.id] = job

    def remove(self, id: int) -> int | None:
        """Forget a job if it is there; returns the place of its text that is computed in part."""
        self._jobs.pop(id, None)
        self._alone = deque((job, index) for job, index in self._alone if job.id != id)
        if self._carried is None or self._carried[0].job.id != id:
            return None
        place = self._carried[0].place
        self._carried = None
        return place

    def ended(self, text: Text) -> None:
        """It has its vectors."""
        text.job.num_ended += 1
        if text.job.is_over:
            self._jobs.pop(text.job.id, None)

    def compute_alone(self, texts: Sequence[Text]) -> None:
        """A batch with these texts failed: each starts over, in a batch of its own."""
        if self._carried is not None and self._carried[0] in texts:
            self._carried = None
        self._alone.extend((text.job, text.number) for text in texts)

    def plan(self, budget: int, limits: Limits, now_s: float) -> list[tuple[Text, Piece]]:
        """The next batch; empty if there is no work. `now_s` is on the clock of the jobs' times.

        One text of at most `budget` tokens, or a longer one where texts are not split; or several of at most
        `together_tokens`.
        """
        if self._alone and self._carried is None:
            job, index = self._alone.popleft()
            return [self._piece(Text(job, index, 0), 0, budget, limits)]
        batch: list[tuple[Text, Piece]] = []
        room = budget
        together = min(budget, limits.together_tokens)
        waiting = [job for job in self._jobs.values() if job.num_begun < len(job.texts)]
        carried = self._carried
        if carried is not None and carried[0].spans:
            self._is_turn_of_others = bool(waiting) and not self._alone and not self._is_turn_of_others
            if not self._is_turn_of_others:
                return [self._piece(*carried, budget, limits)]
        elif carried is not None:
            text, start = carried
            batch.append(
                self._piece(text, start, budget if not waiting or self._alone else max(1, budget // 2), limits)
            )
            room = together - len(batch[0][1].tokens)
            if self._alone:
                return batch
        places = [place for place in range(limits.max_texts) if carried is None or place != carried[0].place]
        may_age = True
        while waiting and room > 0 and places:
            job, as_oldest = self._next(waiting, now_s if may_age else -math.inf)
            text = Text(job, job.num_begun, places[0])
            fits = len(job.texts[job.num_begun]) <= room and not text.spans
            if fits or (not batch and carried is None):  # what fits into a batch is never cut
                del places[0]
                batch.append(self._piece(text, 0, room, limits))
                room = 0 if text.spans else together - sum(len(piece.tokens) for _, piece in batch)
                job.num_begun += 1
                job.served_s = now_s
                self._turns.taken(as_oldest=as_oldest)
            else:
                may_age = may_age and not as_oldest  # the next batch begins with it
            if not fits or job.num_begun == len(job.texts):
                waiting.remove(job)
        return [self._piece(*carried, budget, limits)] if carried is not None and not batch else batch

    def _next(self, waiting: list[TextJob], now_s: float) -> tuple[TextJob, bool]:
        """The job whose text is next, and whether it was chosen because it has waited long."""
        if self._turns.is_due:
            aged = [job for job in waiting if now_s - job.served_s >= AGED_S]
            if aged:
                return min(aged, key=lambda job: (job.served_s, job.id)), True
        return min(waiting, key=lambda job: (job.priority, job.tokens_had)), False

    def _piece(self, text: Text, start: int, room: int, limits: Limits) -> tuple[Text, Piece]:
        tokens, spans = text.job.texts[text.number], text.spans
        end = min(len(tokens), start + room) if limits.splits_texts else len(tokens)
        if end < len(tokens) and room > TILE:  # half a tile takes as long as a whole one
            end -= room % TILE
        if spans:
            end = _within(spans, start, end)
        is_last = end == len(tokens)
        if not is_last:
            self._carried = (text, end)
        elif self._carried is not None and self._carried[0] == text:
            self._carried = None
        text.job.tokens_had += end - start
        if not spans:
            return text, Piece(text.place, start, tokens[start:end], is_last)
        num_saved = sum(len(span.of.ids) - span.of.num_positions for span in spans.all if span.end <= start)
        return text, Piece(text.place, start, tokens[start:end], is_last, num_saved, spans.part(start, end))


def _within(spans: Spans, start: int, end: int) -> int:
    """That end, or where tokens give way to rows or rows to tokens; after all rows that must not be cut."""
    span = spans.at(start)
    if span is not None and span.extent is not None:
        return span.end
    return start + spans.num_alike(start, end)
