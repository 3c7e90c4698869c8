"""How to draw the next tokens of one sequence: the sampler's parameters, one struct per row.

Row 0 is drawn after the last token. Where more tokens are computed in the same step, row i is drawn as if the first i
of them had been taken: penalties, `min_tokens` and the index of the draw count them, so that a token is the same
whether drawn alone or with others. Mirostat cannot do that: its state depends on what was drawn. Knows nothing of slots
or of where the rows come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from localllm.engine.requests.terms import ReportOptions, Request
from localllm.engine.sampling.distinct import Distinct
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.sampler import SamplerParams
from localllm.engine.spans import text_of

Mask = npt.NDArray[np.uint32]
"""Bit i of word i / 32: token i is allowed."""

MASKED = 1 << 40
"""Added to the index of a draw that uses a mask, to make it independent of the preceding draw without it."""


class Parameters:
    """Owned by one sequence."""

    def __init__(self, request: Request, dry: Dry | None) -> None:
        """`dry` has seen the prompt."""
        ending, sampling = request.ending, request.sampling
        self._sampling = sampling
        self._min_tokens = ending.min_tokens
        self._dry = dry
        self._counts: dict[int, int] = {}
        """Generated token -> how often, if that matters."""
        self._repeated = self._first_repeated(text_of(request.prompt) if request.spans else request.prompt)
        held_open = dict.fromkeys(ending.end_tokens, -math.inf) if ending.min_tokens else {}
        self._first_bias: Mapping[int, float] = {**sampling.logit_bias, **held_open}
        """Applies until there are `min_tokens`."""
        self._row = self._params(request.reported)
        self._rows_behind: list[SamplerParams] = []
        """For rows 1 and up, reused: converting a new object for the sampler takes longer than a row."""

    def next(self, num_generated: int, masks: Sequence[Mask | None] = ()) -> SamplerParams:
        """How to draw the next token; the same object every time."""
        params = self._row
        params.draw = num_generated
        if self._repeated is not None:
            params.repeated = self._repeated.tokens()
        if self._dry is not None:
            params.lessened = self._dry.penalties()
        if self._min_tokens and num_generated >= self._min_tokens:
            params.bias = self._sampling.logit_bias
        params.mask = masks[0] if masks else None
        if params.mask is not None:
            params.draw += MASKED
        return params

    def rows(
        self, num_generated: int, assumed: Sequence[int], masks: Sequence[Mask | None] = ()
    ) -> list[SamplerParams]:
        """How to draw the next token, and one after each of the `assumed` tokens; valid until the next call."""
        rows = [self.next(num_generated, masks)]
        while len(self._rows_behind) < len(assumed):
            self._rows_behind.append(replace(self._row))
        counts = dict(self._counts)
        repeated = None if self._repeated is None else self._repeated.copy()
        dry = None if self._dry is None else self._dry.copy()
        for number, (token, params) in enumerate(zip(assumed, self._rows_behind, strict=False), start=1):
            params.draw = num_generated + number
            params.mirostat_mu = self._row.mirostat_mu
            self._count(token, counts)
            params.counts = dict(counts)
            if repeated is not None:
                repeated.append(token)
                params.repeated = repeated.tokens().copy()
            if dry is not None:
                dry.append(token)
                params.lessened = dry.penalties()
            is_enough = num_generated + number >= self._min_tokens
            params.bias = self._sampling.logit_bias if is_enough else self._first_bias
            params.mask = masks[number] if number < len(masks) else None
            if params.mask is not None:
                params.draw += MASKED
            rows.append(params)
        return rows

    def append(self, token: int) -> None:
        """The sequence took a generated token."""
        self._count(token, self._counts)
        if self._repeated is not None:
            self._repeated.append(token)
        if self._dry is not None:
            self._dry.append(token)

    def shifted(self, tokens: Sequence[int]) -> None:
        """Only those tokens remain."""
        self._repeated = self._first_repeated(text_of(tokens))

    @property
    def mirostat_mu(self) -> float:
        return self._row.mirostat_mu

    def sampled(self, mirostat_mu: float) -> None:
        """Take the sampler's state for the next token."""
        self._row.mirostat_mu = mirostat_mu

    def _count(self, token: int, counts: dict[int, int]) -> None:
        if self._sampling.presence_penalty or self._sampling.frequency_penalty:
            counts[token] = counts.get(token, 0) + 1

    def _first_repeated(self, tokens: Sequence[int]) -> Distinct | None:
        if self._sampling.repeat_penalty == 1:
            return None
        return Distinct(tokens, self._sampling.repeat_last_n)

    def _params(self, reported: ReportOptions) -> SamplerParams:
        sampling = self._sampling
        return SamplerParams(
            temperature=sampling.temperature,
            dynatemp_range=sampling.dynatemp_range,
            dynatemp_exponent=sampling.dynatemp_exponent,
            top_k=sampling.top_k,
            typical_p=sampling.typical_p,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            top_n_sigma=sampling.top_n_sigma,
            xtc_probability=sampling.xtc_probability,
            xtc_threshold=sampling.xtc_threshold,
            mirostat=sampling.mirostat,
            mirostat_tau=sampling.mirostat_tau,
            mirostat_eta=sampling.mirostat_eta,
            mirostat_mu=2 * sampling.mirostat_tau,
            repeat_penalty=sampling.repeat_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            counts=self._counts,
            bias=self._first_bias,
            seed=sampling.seed,
            num_top=-1 if reported.logprobs is None else reported.logprobs,
            tells_draws=reported.tells_draws,
        )
