"""How far a sequence has come: counters that catch up, the text made of its tokens, and what it waits for.

    tokens          [0 ................ num_tokens)
    in the KV cache [0 .. num_computed)      as its slot's `SlotRecord` says
    still to compute          [num_computed .. num_tokens)
    the prompt      [0 .. num_prompt), what was generated [num_prompt .. num_tokens)

No phases: prefill and decode are both "compute what is pending". Tokens that a step computes after the last one,
guessed or forced, do not belong to the sequence until they are taken. Some of the prompt's tokens are media rows
(`spans`); from some token on, one more adapter may work (`requests.activation`). Knows nothing of sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from localllm.engine.answers.lines import LineRules
from localllm.engine.answers.text import TextStream
from localllm.engine.cache.held import NOWHERE, SlotRecord
from localllm.engine.media import Span
from localllm.engine.requests.adapters import AdapterSet
from localllm.engine.requests.prefill_reports import PromptReports
from localllm.engine.requests.terms import Request
from localllm.engine.spans import NO_SPANS, Spans
from localllm.kvdisk.entry import DiskEntry
from localllm.types import PromptProgress

if TYPE_CHECKING:
    from localllm.engine.cache.hostcache import HostEntry
    from localllm.engine.scheduling.waits import Wait

PICTURES_APART = 32
"""Spans with fewer tokens between them are parts of one picture: a memory that cannot rewind gets a checkpoint after
the last of them."""


@dataclass(slots=True)
class Waiting:
    """What is known of a sequence's wait for a slot. Written by `scheduling.admission` and `scheduling.waits`."""

    wait: Wait | None = None
    """What it waits for, as far as known."""
    leaders: set[int] = field(default_factory=set)
    """Ids of the sequences for whose work on a common prefix it has waited."""
    reading: DiskEntry | None = None
    """What was last read from the disk for it."""
    reading_since_s: float | None = None
    """When it first waited for the disk."""

    def read(self, entry: DiskEntry, now_s: float) -> None:
        """It waits for this entry to be read."""
        if self.reading_since_s is None:
            self.reading_since_s = now_s
        self.reading = entry

    def end(self) -> DiskEntry | None:
        """It waits no longer; returns what was read for it."""
        entry, self.wait, self.reading = self.reading, None, None
        return entry


class SequenceProgress:
    """Mutable; owned by the engine thread. `held` and `num_cached` are changed by the scheduler only."""

    def __init__(self, request: Request) -> None:
        self.tokens = list(request.prompt)
        self.num_prompt = len(self.tokens)
        self._adapters = request.adapters
        self.activation = request.activation
        self.num_scored = request.reported.scored_from
        """Tokens of the prompt whose log-probabilities were reported, if wanted."""
        self.prompt = np.asarray(self.cache_ids(0, self.num_scored or None), np.int32)
        """What other prompts, and what is cached, are compared with: the cache's ids; of one that is scored, those
        before."""
        self.spans = Spans(request.spans) if request.spans else NO_SPANS
        self._wanted: set[int] = set()
        """Starts of the spans whose rows were requested."""
        self.num_prefill = self.num_prompt
        """Tokens that are prefilled: the prompt, or everything there was when the cache lost it."""
        self.num_shifted = 0
        """Tokens that were removed from its middle."""
        self.keep = request.shift.keep
        """The first tokens stay when the context is shifted."""
        self.num_cached = 0
        """Tokens of the prompt that were already in the KV cache."""
        self.held: SlotRecord = NOWHERE
        """What the KV cache has of it: its slot's content, or nothing."""
        reuse = request.reuse
        self.pauses = {self.num_prompt - 1} if reuse.cache_prompt and not reuse.pauses else set(reuse.pauses)
        """Where it stops for a checkpoint, if its memory needs them."""
        if self.activation is not None and reuse.cache_prompt:
            self.pauses.add(self.activation.start)  # from there, the base and other adapters can go on
        if self.spans:
            self.pauses = {self.spans.outside(pause) for pause in self.pauses}
            if reuse.cache_prompt:
                self.pauses.update(self.spans.pauses(PICTURES_APART))
        self.waiting = Waiting()
        self.state: HostEntry | None = None
        """What was parked of it when it gave its slot to another sequence."""
        self.stays_until_s = -math.inf
        """Until then it gives its slot to no other sequence."""
        self.must_stay = False
        """Whether it gives its slot to another only if its state has room in main memory."""
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None
        ending, detail = request.ending, request.reported.detail
        self.text = TextStream(ending.stop)
        self.lines = None if ending.lines is None else LineRules(ending.lines)
        self.reports = None if detail is None else PromptReports(every_step=detail.progress)

    @property
    def slot(self) -> int | None:
        return self.held.slot

    @property
    def num_computed(self) -> int:
        """Tokens in the KV cache; recorded only there."""
        return self.held.length

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt + self.num_shifted

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.held.length

    @property
    def num_next(self) -> int:
        """Of these, those that one decode can take: under one set of adapters, and tokens up to a span, or the rows of
        one."""
        length, end = self.held.length, len(self.tokens)
        if self.activation is not None and length < self.activation.start:
            end = self.activation.start
        return self.spans.num_alike(length, end) if self.spans else end - length

    @property
    def num_alike_before(self) -> int:
        """How many tokens directly before the next one a decode could take with it."""
        length = self.held.length
        count = self.spans.tokens_before(length) if self.spans else length
        if self.activation is not None and length >= self.activation.start:
            return min(count, length - self.activation.start)
        return count

    @property
    def adapters(self) -> AdapterSet:
        """What its next token is computed under."""
        return self.adapters_at(self.held.length)

    def adapters_at(self, index: int) -> AdapterSet:
        """What the token at this index is computed under."""
        return self._adapters if self.activation is None else self.activation.under(self._adapters, index)

    def cache_ids(self, start: int = 0, end: int | None = None) -> list[int]:
        """The ids by which the KV cache knows the tokens `[start, end)`."""
        tokens = self.tokens[start:end]
        return tokens if self.activation is None else self.activation.ids(start, tokens)

    @property
    def next_span(self) -> Span | None:
        """The span whose row is computed next; None: a token is."""
        return self.spans.at(self.held.length) if self.spans else None

    @property
    def is_within_span(self) -> bool:
        """Whether some, but not all rows of a span are computed."""
        return bool(self.spans) and self.spans.cuts(self.held.length)

    @property
    def lacks_rows(self) -> bool:
        """Whether it cannot go on before media rows have come, or have failed."""
        span = self.next_span
        return span is not None and span.of.source.rows is None

    @property
    def is_prefilling(self) -> bool:
        """Whether it computes its prompt, or recomputes an answer that the cache lost: anything but the last token.

        The last token costs as much as a stream's token, and a token is drawn after it.
        """
        return self.held.length < self.num_prefill - 1

    @property
    def was_admitted(self) -> bool:
        """Whether it has a slot, or had one and gave it to another sequence."""
        return self.admitted_s is not None

    @property
    def has_turn(self) -> bool:
        """Whether it has its slot because it had waited long, while others outranked it."""
        return self.stays_until_s > -math.inf

    @property
    def text_may_end(self) -> bool:
        """Whether the content of its text can end the answer."""
        return self.text.may_stop or self.lines is not None

    def can_score(self, end: int) -> int:
        """For how many tokens of the prompt log-probabilities are known once `[0, end)` is computed."""
        return min(end + 1, self.num_prompt)

    def scored(self, until: int) -> None:
        """Log-probabilities of `[0, until)` are reported."""
        self.num_scored = until

    def want_rows(self, ready: Callable[[], None]) -> None:
        """Request the rows that are not in the KV cache, if that was not done yet."""
        for span in self.spans.after(self.held.length):
            if span.start not in self._wanted and span.of.source.rows is None:
                self._wanted.add(span.start)
                span.of.source.want(ready)

    def next_checkpoint(self, spacing: int) -> int:
        """Number of tokens at which it next stops for a checkpoint, at the latest its last."""
        start = self.num_computed
        if start >= self.num_prompt:
            return self.num_tokens
        marks = (mark for mark in self.pauses if start < mark < self.num_prompt)
        return min(*marks, (start // spacing + 1) * spacing, self.num_tokens)

    def pause_at(self, num_tokens: int) -> None:
        """Other sequences want to start from there."""
        self.pauses.add(num_tokens)

    def admitted(self, held: SlotRecord, num_cached: int, now_s: float) -> None:
        """It has entered a slot that holds the first `num_cached` tokens of its prompt."""
        self.held = held
        self.num_cached = num_cached
        self.admitted_s = now_s

    def moved(self, held: SlotRecord) -> None:
        """Another slot holds the same of it."""
        self.held = held

    def parked(self, state: HostEntry | None) -> None:
        """It has given its slot to another sequence; None: what it computed is lost, unless a slot still holds it."""
        self.held, self.state, self.stays_until_s = NOWHERE, state, -math.inf
        if state is None:
            self.must_recompute()
            self.prompt = np.asarray(self.cache_ids(), np.int32)

    def resumed(self, held: SlotRecord) -> None:
        """It has entered a slot again. What is told of its prompt and its wait stays."""
        self.held, self.state = held, None

    def ended(self) -> int | None:
        """It has no slot any more; returns the one it had."""
        slot, self.held = self.held.slot, NOWHERE
        return slot

    def must_recompute(self, *, from_nothing: bool = False) -> None:
        """The cache lost some of it; `from_nothing`: all."""
        self.num_prefill = len(self.tokens)
        if from_nothing:
            self.num_cached = 0

    def shift(self, keep: int, drop: int) -> None:
        """Drop `drop` tokens after the first `keep`; other prompts are not compared with the rest. Cuts no span."""
        self.keep = keep
        del self.tokens[keep : keep + drop]
        self.prompt = self.prompt[:keep]
        self.spans = self.spans.shifted(keep, drop)
        if self.activation is not None:
            self.activation = self.activation.shifted(keep, drop)
        self.num_shifted += drop
        self.num_prefill = 0

    def of_prompt(self, now_s: float) -> PromptProgress:
        """How far its prompt is computed."""
        began_s = now_s if self.admitted_s is None else self.admitted_s
        num_computed = min(max(self.num_computed, self.num_cached), self.num_prompt)  # some are computed again
        slot = -1 if self.slot is None else self.slot
        return PromptProgress(self.num_prompt, self.num_cached, num_computed, now_s - began_s, slot)
