"""One request as the engine sees it: token ids, counters that catch up, and the text they make.

    tokens          [0 ................ num_tokens)
    in the KV cache [0 .. num_computed)      as its slot's `Held` says
    still to compute          [num_computed .. num_tokens)
    the prompt      [0 .. num_prompt), what was generated [num_prompt .. num_tokens)

No phases: prefill and decode are both "compute what is pending". Tokens that a step computes after the last one,
guessed or forced, do not belong to the sequence until they are taken. Knows nothing of scheduling or of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from typing import TYPE_CHECKING

import numpy as np

from localllm.engine.answers.lines import LineRules
from localllm.engine.answers.text import TextStream
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.held import NOWHERE, Held
from localllm.engine.constraint.constraint import Constraint
from localllm.engine.constraint.follower import Follower
from localllm.engine.requests.prefill_reports import PromptReports
from localllm.engine.requests.terms import DUE, ENDING, REPORTED, REUSE, SHIFT, Due, Ending, Reported, Reuse, Shift
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.parameters import Mask, Parameters
from localllm.engine.sampling.sampler import SamplerParams
from localllm.engine.speculation.proposals import Proposal
from localllm.kvdisk.entry import DiskEntry
from localllm.types import FinishReason, PromptProgress, ResolvedSampling, Timings, Usage

if TYPE_CHECKING:
    from localllm.engine.scheduling.waits import Wait
    from localllm.engine.speculation.guesser import Guesser

SHIFTED_ANSWER = 8
"""With context shift, an answer without a limit of its own ends after this many times its slot's tokens."""


class Sequence:
    """Mutable; owned by the engine thread."""

    def __init__(
        self,
        id: int,
        prompt: Tokens[int],
        *,
        sampling: ResolvedSampling,
        max_tokens: int | None = None,
        ending: Ending = ENDING,
        reported: Reported = REPORTED,
        dry: Dry | None = None,
        constraint: Constraint | None = None,
        markers: frozenset[int] = frozenset(),
        reuse: Reuse = REUSE,
        shift: Shift = SHIFT,
        due: Due = DUE,
    ) -> None:
        """`dry` has seen the prompt; `markers` are control tokens that appear in the text."""
        self.id = id
        self.tokens = list(prompt)
        self.num_prompt = len(self.tokens)
        self.prompt = np.asarray(self.tokens, np.int32)
        self.num_prefill = self.num_prompt
        """Tokens that are prefilled: the prompt, or everything there was when the cache lost it."""
        self.num_shifted = 0
        """Tokens that were removed from its middle."""
        self.keep = shift.keep
        self.discard = shift.discard
        """0: half of what need not stay."""
        self.wanted_slot = reuse.wanted_slot
        """The only slot it may enter."""
        self.num_cached = 0
        """Tokens of the prompt that were already in the KV cache."""
        self.sampling = sampling
        self.min_tokens = ending.min_tokens
        self.max_tokens = max_tokens
        self.stop_tokens = frozenset(ending.stop_tokens)
        self.ignore_eos = ending.ignore_eos
        self.logprobs = reported.logprobs
        self.prompt_logprobs = reported.prompt_logprobs
        self.num_scored = 0
        """Tokens of the prompt whose log-probabilities were reported, if wanted."""
        self.text = TextStream(ending.stop)
        self.lines = None if ending.lines is None else LineRules(ending.lines)
        detail = reported.detail
        self.tells_tokens = detail is not None and detail.tokens
        self.tells_draws = detail is not None and detail.draws
        self.reports = None if detail is None else PromptReports(every_step=detail.progress)
        self.held: Held = NOWHERE
        """What the KV cache has of it: its slot's content, or nothing."""
        self._parameters = Parameters(
            sampling,
            self.tokens,
            num_top=reported.logprobs,
            min_tokens=ending.min_tokens,
            end_tokens=ending.end_tokens,
            dry=dry,
            tells_draws=self.tells_draws,
        )
        self.follower = None if constraint is None else Follower(constraint)
        """The constraint on its answer."""
        self.markers = markers
        self.masks: Tokens[Mask | None] = ()
        """What is allowed in each of the next rows; everything in further ones."""
        self.proposal: Proposal | None = None
        """What may be computed after its last token in the next step."""
        self.guesser: Guesser | None = None
        """Source of the proposal's guesses."""
        self.num_guesses = self.num_right_guesses = 0
        """Tokens that were guessed and computed, and how many of them were right."""
        self.lead = 0.0
        """Tokens by which its answer is ahead of what one row in each step would have brought in the same time, as far
        as the cost of steps is known. Negative: others' rows delayed it."""
        self.leaders: set[int] = set()
        """Ids of the sequences for whose work on a common prefix it has waited."""
        self.wait: Wait | None = None
        """What it waits for, as far as known."""
        self.reading_since_s: float | None = None
        """When it first waited for the disk."""
        self.reading: DiskEntry | None = None
        """What was last read from the disk for it."""
        self.cache_prompt = reuse.cache_prompt
        self.domain = Domain.of(cache_salt=reuse.cache_salt)
        self.pauses = {self.num_prompt - 1} if reuse.cache_prompt and not reuse.pauses else set(reuse.pauses)
        self.priority = due.priority
        self.created_s = due.created_s
        self.deadline_s = due.deadline_s
        self.queue_deadline_s = due.queue_deadline_s
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None

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
    def is_prefilling(self) -> bool:
        """Whether it computes its prompt, or recomputes an answer that the cache lost: anything but the last token.

        The last token costs as much as a stream's token, and a token is drawn after it.
        """
        return self.num_computed < self.num_prefill - 1

    @property
    def next_deadline_s(self) -> float:
        """Its next deadline: for the whole request, or for waiting for a slot."""
        return min(self.deadline_s, self.queue_deadline_s) if self.held.slot is None else self.deadline_s

    @property
    def wants_scores(self) -> bool:
        """Whether log-probabilities of its prompt are still to be reported."""
        return self.prompt_logprobs is not None and self.num_scored < self.num_prompt

    def can_score(self, end: int) -> int:
        """For how many tokens of the prompt log-probabilities are known once `[0, end)` is computed."""
        return min(end + 1, self.num_prompt)

    def sampler_params(self) -> SamplerParams:
        """How to draw its next token; the same object every time."""
        return self._parameters.next(self.num_generated, self.masks)

    def row_params(self, assumed: Tokens[int]) -> list[SamplerParams]:
        """How to draw its next token, and one after each of the `assumed` ones, as if these had been taken."""
        return self._parameters.rows(self.num_generated, assumed, self.masks)

    @property
    def text_may_end(self) -> bool:
        """Whether the content of its text can end the answer."""
        return self.text.may_stop or self.lines is not None

    @property
    def takes_guesses(self) -> bool:
        """Whether later draws are independent of this one's outcome: those of mirostat are not."""
        return self.sampling.mirostat == 0

    @property
    def has_masks_coming(self) -> bool:
        """Whether masks for its next rows were requested."""
        return self.follower is not None and self.follower.current_work is not None

    def pause_at(self, num_tokens: int) -> None:
        """Other sequences want to start from there."""
        self.pauses.add(num_tokens)

    def append(self, token: int) -> None:
        """Take a generated token."""
        self.tokens.append(token)
        self._parameters.append(token)

    def shift(self, drop: int) -> None:
        """Drop `drop` tokens after those to keep; other prompts are not compared with the rest."""
        del self.tokens[self.keep : self.keep + drop]
        self.prompt = self.prompt[: self.keep]
        self.num_shifted += drop
        self.num_prefill = 0
        self._parameters.shifted(self.tokens)

    @property
    def mirostat_mu(self) -> float:
        """The sampler's state for the next token."""
        return self._parameters.mirostat_mu

    def sampled(self, mirostat_mu: float) -> None:
        """Take the sampler's state for the next token."""
        self._parameters.sampled(mirostat_mu)

    @property
    def may_end(self) -> bool:
        """Whether enough was generated, including the token just drawn."""
        return self.num_generated >= self.min_tokens

    def usage(self) -> Usage:
        return Usage(
            self.num_prompt,
            self.num_generated,
            self.num_cached,
            self.num_shifted,
            accepted_guesses=self.num_right_guesses,
            rejected_guesses=self.num_guesses - self.num_right_guesses,
        )

    def timings(self, now_s: float) -> Timings:
        admitted = now_s if self.admitted_s is None else self.admitted_s
        first = now_s if self.first_token_s is None else self.first_token_s
        return Timings(queue_s=admitted - self.created_s, prefill_s=first - admitted, decode_s=now_s - first)

    def progress(self, now_s: float) -> PromptProgress:
        """How far its prompt is computed."""
        began_s = now_s if self.admitted_s is None else self.admitted_s
        num_computed = min(max(self.num_computed, self.num_cached), self.num_prompt)  # some are computed again
        slot = -1 if self.slot is None else self.slot
        return PromptProgress(self.num_prompt, self.num_cached, num_computed, now_s - began_s, slot)

    def limit_reached(self, slot_capacity: int, *, shifts: bool = False) -> FinishReason | None:
        """`length` when the request's own limit or the slot's end leaves no room for another token.

        Where the context `shifts`, there is always room, and an answer without a limit of its own gets one.
        """
        most = SHIFTED_ANSWER * slot_capacity if shifts and self.max_tokens is None else self.max_tokens
        if most is not None and self.num_generated >= most:
            return "length"
        return "length" if self.num_tokens >= slot_capacity and not shifts else None
