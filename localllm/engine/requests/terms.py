"""What a request wants: when its answer ends, what is reported, how it uses the cache, when it is due. Never changes.

Knows nothing of how any of it is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Tokens
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.media import Span
from localllm.engine.requests.activation import Activation
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.types import Detail, Lines, ResolvedSampling


class Ending(NamedTuple):
    """What ends an answer, besides its number of tokens."""

    min_tokens: int = 0
    """No stop string, and none of `end_tokens`, ends it before."""
    stop: Tokens[str] = ()
    stop_tokens: frozenset[int] = frozenset()
    end_tokens: Tokens[int] = ()
    """Forbidden until there are `min_tokens`."""
    ignore_eos: bool = False
    lines: Lines | None = None


class ReportOptions(NamedTuple):
    """What is reported besides the text."""

    logprobs: int | None = None
    """Log-probabilities of its tokens, and of this many of the likeliest ones; None: none."""
    prompt_logprobs: int | None = None
    """The same of the prompt's tokens."""
    detail: Detail | None = None
    markers: frozenset[int] = frozenset()
    """Control tokens that appear in the text."""
    scored_from: int = 0
    """The first token of the prompt whose log-probability is reported; what is before it may come from the cache."""
    whole: bool = False
    """Whether all of it is reported at once, at its end."""

    @property
    def tells_draws(self) -> bool:
        """Whether log-probabilities are those of the draws, not of the model's own distribution."""
        return self.detail is not None and self.detail.draws


class Reuse(NamedTuple):
    """How it uses the KV cache."""

    cache_prompt: bool = True
    """Whether it starts from what is cached."""
    domain: Domain = COMMON
    """With whom it shares what is cached."""
    pauses: Tokens[int] = ()
    """Positions in the prompt, in tokens, where a memory that cannot rewind makes a checkpoint."""
    wanted_slot: int | None = None
    """The only slot it may enter."""


class Shift(NamedTuple):
    """What stays when the context is shifted, in tokens."""

    keep: int = 0
    """The first ones stay."""
    discard: int = 0
    """So many after them go; 0: half of what need not stay."""


class Due(NamedTuple):
    """When it is its turn, and how long it may take. Times are on the engine's clock."""

    priority: int = 0
    """Lower ones first, within a class."""
    is_batch: bool = False
    """Whether it is of the batch class, which comes after all others, and gives its slots to them."""
    created_s: float = 0.0
    deadline_s: float = math.inf
    """For the whole request."""
    queue_deadline_s: float = math.inf
    """For waiting for a slot."""


ENDING, REPORTED, REUSE, SHIFT, DUE = Ending(), ReportOptions(), Reuse(), Shift(), Due()
"""Of a request that wants nothing in particular."""


@dataclass(frozen=True, eq=False)
class Request:
    """An answer that is wanted."""

    id: int
    prompt: Tokens[int]
    """Negative: the pseudo id of a media row."""
    _: KW_ONLY
    sampling: ResolvedSampling
    spans: Tokens[Span] = ()
    """The media rows of the prompt, in order."""
    adapters: AdapterSet = NO_ADAPTERS
    """What it is computed under; a part of its domain, except for an adapter with an `activation`."""
    activation: Activation | None = None
    """Where one of them begins to work; None: all work from the beginning."""
    max_tokens: int | None = None
    """The most tokens of the answer; None: as many as fit."""
    ending: Ending = ENDING
    reported: ReportOptions = REPORTED
    reuse: Reuse = REUSE
    shift: Shift = SHIFT
    due: Due = DUE

    @property
    def domain(self) -> Domain:
        """With whom it shares what is cached."""
        return self.reuse.domain

    @property
    def takes_guesses(self) -> bool:
        """Whether later draws are independent of this one's outcome: those of mirostat are not."""
        return self.sampling.mirostat == 0
