"""Log-probabilities of a prompt's own tokens, for requests that want them: each from the row of the preceding token.

Rows of logits are large (600 KB for 152,000 tokens), so a step computes few of them: no more than fit into `MAX_BYTES`
and into a step's time, which is learned from earlier steps. Knows nothing of how rows are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many
from typing import NamedTuple

import numpy as np

from localllm.engine.backend import BatchDecoder, ModelVocabulary, Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.sampling.sampler import SampledToken, Sampler, SamplerParams
from localllm.engine.sampling.selection import Row
from localllm.engine.scheduling.cost import ASSUMED_PASS, ASSUMED_TOKEN_S, CostModel
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.scheduling.rows import MOST_ROWS
from localllm.engine.threads.team import Team
from localllm.types import TokenLogprob

MAX_BYTES = 64 * 2**20
"""Maximum memory for all scored rows of one step."""
CAREFUL_VOCABULARY = 2**18
"""Vocabulary size assumed until the first row was computed; hardly any model exceeds it."""
MIN_SCORED_TOKENS = 8
"""Minimum number of tokens that a step may score, however slow it is."""


class Scores(NamedTuple):
    """Log-probabilities of one prompt's tokens that a step has computed."""

    sequence: Sequence
    logprobs: tuple[TokenLogprob, ...] | None
    """Log-probabilities of its next tokens; None: a row contains no probabilities."""
    num_rows: int
    """Number of logits rows computed for these scores."""


class PromptScorer:
    """Used by the engine's thread."""

    def __init__(
        self,
        decoder: BatchDecoder,
        vocabulary: ModelVocabulary,
        sampler: Sampler,
        *,
        num_slots: int,
        limits: StepLimits,
        team: Team | None = None,
    ) -> None:
        """`team` decides how many threads score."""
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._num_slots = num_slots
        self._sampler = sampler
        self._limits = limits
        self._team = team
        self._cost = CostModel((ASSUMED_PASS * ASSUMED_TOKEN_S, ASSUMED_TOKEN_S, ASSUMED_TOKEN_S))
        """Costs of a step, of a scored token, and of a stream's token beside it."""
        self._vocabulary_size = CAREFUL_VOCABULARY

    def max_tokens(self, num_streams: int) -> int:
        """Tokens that the next step may score, while `num_streams` answers are streaming."""
        # Rows that streams in all other slots may need are theirs.
        outputs = self._decoder.max_outputs - MOST_ROWS * (self._num_slots - 1)
        in_memory = max(1, min(outputs, MAX_BYTES // (4 * self._vocabulary_size)))
        step_s, row_s, stream_s = self._cost.rates
        limit_s = self._limits.beside_streams_s if num_streams else self._limits.max_step_s
        in_time = (limit_s - step_s - num_streams * stream_s) / row_s
        return min(in_memory, max(MIN_SCORED_TOKENS, int(in_time)))

    def score(self, segments: Many[Segment], sequences: Many[Sequence]) -> list[Scores]:
        """Scores, from the last decode, of each prompt that wants them; counts them in `num_scored`."""
        return [
            self._score(index, segment, sequence)
            for index, (segment, sequence) in enumerate(zip(segments, sequences, strict=True))
            if sequence.request.reported.prompt_logprobs is not None and segment.num_outputs and sequence.wants_scores
        ]

    def observe(self, num_tokens: int, seconds: float, num_streams: int) -> None:
        """A step that scored this many tokens beside this many streams took `seconds`, including scoring."""
        self._cost.observe((1, num_tokens, num_streams), seconds)

    def _score(self, index: int, segment: Segment, sequence: Sequence) -> Scores:
        num_top, progress = sequence.request.reported.prompt_logprobs, sequence.progress
        assert num_top is not None
        rows, end = self._decoder.logits(index), segment.start + len(segment.tokens)
        self._vocabulary_size = len(rows[0])
        scored, until = progress.num_scored, progress.can_score(end)
        places = [place for place in range(max(1, scored), until) if progress.tokens[place] >= 0]
        first = end - segment.num_outputs + 1
        found = self._logprobs(
            [rows[place - first] for place in places], [progress.tokens[place] for place in places], num_top
        )
        if found is None:
            return Scores(sequence, None, len(rows))
        logprobs = dict(zip(places, found, strict=True))
        progress.scored(until)
        return Scores(
            sequence,
            tuple(logprobs.get(place) or self._without(progress.tokens[place]) for place in range(scored, until)),
            len(rows),
        )

    def _without(self, token: int) -> TokenLogprob:
        """Of the first token, and of media rows."""
        return (
            TokenLogprob(b"", math.nan)
            if token < 0
            else TokenLogprob(self._vocabulary.spelled(token), math.nan, (), token)
        )

    def _logprobs(self, rows: Many[Row], tokens: Many[int], num_top: int) -> list[TokenLogprob] | None:
        """The sampler gives the log-probability of the likeliest tokens; that determines those of all others."""
        params = SamplerParams(temperature=0, num_top=max(1, num_top))
        threads = None if self._team is None or not rows else self._team.sampler_threads(len(rows), len(rows[0]))
        found = self._sampler.sample(rows, [params] * len(rows), threads=threads)
        if any(sampled.token < 0 or not sampled.top for sampled in found):
            return None
        spelled = self._vocabulary.spelled
        return [
            TokenLogprob(
                spelled(token),
                logprob_of(row, token, sampled),
                tuple((spelled(other), logprob) for other, logprob in sampled.top[:num_top]),
                token,
                tuple(other for other, _ in sampled.top[:num_top]),
            )
            for row, token, sampled in zip(rows, tokens, found, strict=True)
        ]


def logprob_of(row: Row, token: int, sampled: SampledToken) -> float:
    """Exactly the number in `top` for a token that is there: clients compare them."""
    known = dict(sampled.top)
    if token in known:
        return known[token]
    best, logprob = sampled.top[0]
    return float(np.float32(float(row[token]) - (float(row[best]) - logprob)))
