"""The batch sampler in NumPy: what `native/sampler` computes, bit for bit.

It is the oracle of its tests, and the fallback where no compiler was available. Every sum is taken in the same order as
in C++, so the same seed gives the same token in both: a draw is decided by sums of float32 weights in double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from localllm.engine.sampling.selection import (
    FORBIDDEN,
    HUGE,
    LOG2_E,
    Flags,
    Row,
    Sums,
    Tokens,
    buckets_of,
    drawn,
    first_of,
    likeliest,
    of_count,
    of_share,
    power_of_2,
    sums_of,
    total,
    uniform,
    weigh,
)

NO_TOKEN, NOT_FINITE, NOTHING_ALLOWED = -1, -2, -3
"""In place of a token: biases forbid every token; the row contains NaN or +inf, or no finite number at all; the mask
and the biases together allow no token of the model."""
NO_TOKEN_REASONS = {
    NOT_FINITE: "its logits are not finite numbers; the file may be damaged, or the device miscalculates",
    NO_TOKEN: "the request forbids every token",
    NOTHING_ALLOWED: "its structure and its biases together allow no token of the model here",
}
GREEDY = float(np.float32(1e-5))
"""Lower temperatures count as 0."""
TRIES = 4
"""Tokens to draw and check against a share before computing the share itself."""
XTC_STREAM = 1000
"""Random stream for XTC."""
PLAIN_TRIES = 64
"""Such draws at temperature 1, which cost next to nothing."""
PLAIN_STREAM = 2000
"""Random stream for draws at temperature 1."""
MIROSTAT_TOKENS = 100
MOST_MU = 1000.0
"""2 to this power is still a finite number."""


@dataclass(slots=True, weakref_slot=True, kw_only=True, eq=False)
class SamplerParams:
    """How to draw a token. The stages follow llama.cpp's order: the filters, temperature, mirostat.

    A mask comes before all of them, like llama.cpp's grammar where it is applied first: every filter and statistic
    covers allowed tokens only. (llama.cpp's typical_p turns forbidden ones into NaN, and its dynamic temperature counts
    them in the maximum entropy; here they do not exist.) Only mirostat 1 uses the size of the whole vocabulary, as
    llama.cpp does. Log-probabilities are the model's own, before mask and parameters; the top ones range over all
    tokens.

    From one draw to the next only the fields of the second part may change.
    """

    temperature: float = 1.0
    """0: the likeliest token."""
    dynatemp_range: float = 0.0
    """Above 0 the temperature follows the entropy, up to this far above and below."""
    dynatemp_exponent: float = 1.0
    top_k: int = 0
    typical_p: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    """0: off; else its version, 1 or 2."""
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    num_top: int = -1
    """Log-probabilities to report beside the chosen token's; -1: none at all."""
    tells_draws: bool = False
    """Report those of the draw, which `draws.py` computes; samplers give the model's own."""

    draw: int = 0
    """Number of tokens drawn before; a draw depends on seed and index only."""
    mirostat_mu: float = 10.0
    """Mirostat's state: from the last `SampledToken`, initially twice tau."""
    repeated: Sequence[int] | npt.NDArray[np.int32] = ()
    """The distinct tokens that `repeat_penalty` applies to."""
    counts: Mapping[int, int] = field(default_factory=dict)
    """Token -> occurrences in the tokens that the other two penalties apply to."""
    bias: Mapping[int, float] = field(default_factory=dict)
    """Token -> bias added to its logit; -inf forbids it."""
    lessened: Mapping[int, float] = field(default_factory=dict)
    """Token -> amount subtracted from its logit after the penalties."""
    mask: npt.NDArray[np.uint32] | None = None
    """Bit i of word i / 32: token i is allowed; consecutive words, for every token. Bits after the last token: any."""


class SampledToken(NamedTuple):
    """A token (or one of `NO_TOKEN_REASONS`), with log-probabilities of the model's own distribution if requested."""

    token: int
    logprob: float = math.nan
    top: tuple[tuple[int, float], ...] = ()
    mirostat_mu: float = 0.0
    """For the next token."""


class Sampler(Protocol):
    """Draws tokens from rows of logits, all at once."""

    def sample(
        self, rows: Sequence[Row], params: Sequence[SamplerParams], *, threads: int | None = None
    ) -> list[SampledToken]:
        """One token per row, float32 [vocab], all of the same length; the rows are not changed.

        At most `threads` draw; None: as many as the sampler was made with.
        """
        ...


class NumpySampler:
    """The slow way, row by row."""

    def sample(
        self,
        rows: Sequence[Row],
        params: Sequence[SamplerParams],
        *,
        threads: int | None = None,  # noqa: ARG002  the protocol
    ) -> list[SampledToken]:
        return [sample(row, each) for row, each in zip(rows, params, strict=True)]


def sample(row: Row, params: SamplerParams) -> SampledToken:
    """Draw a token from logits, float32 [vocab], which are not changed."""
    mu = params.mirostat_mu
    best = row.max()
    if not (np.isfinite(best) and (row <= HUGE).all()):
        return SampledToken(NOT_FINITE, mirostat_mu=mu)
    with np.errstate(over="ignore", under="ignore"):
        token, mu = _choose(_changed(row, params), _rounded(params))
        if token == NO_TOKEN and params.mask is not None:
            token = NOTHING_ALLOWED
        if params.num_top < 0 or token < 0:
            return SampledToken(token, mirostat_mu=mu)
        whole = math.log(total(sums_of(weigh(row, best)))) + float(best)
        best_tokens = likeliest(row, params.num_top) if params.num_top else ()
        top = tuple((int(i), _log_share(row[i], whole)) for i in best_tokens)
        return SampledToken(token, _log_share(row[token], whole), top, mu)


def _log_share(logit: np.float32, whole: float) -> float:
    return float(np.float32(max(float(logit) - whole, -float(HUGE))))


_NUMBERS = [each.name for each in fields(SamplerParams) if each.type == "float"]


def _rounded(params: SamplerParams) -> SamplerParams:
    """Every number rounded to float32: the compiled sampler compares those."""
    result = replace(params)
    for name in _NUMBERS:
        setattr(result, name, float(np.float32(getattr(params, name))))
    return result


def _changed(row: Row, params: SamplerParams) -> Row:
    """The row with biases, penalties (as `llama_sampler_penalties` of llama.cpp) and mask; a copy if there are any."""
    if params.mask is None and not (params.bias or len(params.repeated) or params.counts or params.lessened):
        return row
    row = row.copy()
    biased = np.array([*params.bias], np.int64)
    sums = row[biased] + np.array([*params.bias.values()], np.float32)
    row[biased] = np.where(sums == FORBIDDEN, FORBIDDEN, np.clip(sums, -HUGE, HUGE))
    repeat = np.float32(params.repeat_penalty)
    for token in params.repeated:
        row[token] = _bounded(row[token], row[token] * repeat if row[token] <= 0 else row[token] / repeat)
    for token, count in params.counts.items():
        less = np.float32(count) * np.float32(params.frequency_penalty) + np.float32(params.presence_penalty)
        row[token] = _bounded(row[token], row[token] - less)
    for token, lessened in params.lessened.items():
        row[token] = _bounded(row[token], row[token] - np.float32(lessened))
    if params.mask is not None:
        allowed = np.unpackbits(params.mask.view(np.uint8), bitorder="little")[: len(row)]
        row[allowed == 0] = FORBIDDEN
    return row


def _bounded(logit: np.float32, changed: np.float32) -> np.float32:
    """A changed logit stays finite: only the model, biases of -inf and masks forbid a token."""
    return FORBIDDEN if logit == FORBIDDEN else min(max(changed, -HUGE), HUGE)


def _choose(row: Row, params: SamplerParams) -> tuple[int, float]:
    """The token, and mirostat's state after it."""
    best = row.max()
    mu = params.mirostat_mu
    if best == FORBIDDEN:
        return NO_TOKEN, mu
    if params.temperature < GREEDY:
        return int(row.argmax()), mu
    floor = _sigma_bar(row, params.top_n_sigma) if params.top_n_sigma > 0 else FORBIDDEN
    some = 0 < params.top_k < len(row)
    if not (some or params.typical_p < 1 or params.xtc_probability > 0 or params.dynatemp_range > 0 or params.mirostat):
        token = _draw_from_row(row, best, floor, params)
        if token >= 0:
            return token, mu
    kept, weights, temperature = _candidates(row, best, floor, params)
    if temperature < GREEDY:
        return int(kept[0]), mu
    sums = sums_of(weights)
    chosen = drawn(weights, sums, uniform(params.seed, params.draw, TRIES))
    if params.mirostat:
        surprise = -math.log2(float(weights[chosen]) / total(sums))
        mu = float(np.float32(params.mirostat_mu - params.mirostat_eta * (surprise - params.mirostat_tau)))
    return int(kept[chosen]), mu


def candidates(row: Row, params: SamplerParams) -> tuple[Tokens, Row]:
    """The tokens among which `sample` draws, with their weights; none where it draws none."""
    with np.errstate(over="ignore", under="ignore"):
        row, params = _changed(row, params), _rounded(params)
        best = row.max()
        if best == FORBIDDEN or not np.isfinite(best):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if params.temperature < GREEDY:
            return np.array([row.argmax()]), np.ones(1, np.float32)
        floor = _sigma_bar(row, params.top_n_sigma) if params.top_n_sigma > 0 else FORBIDDEN
        return _candidates(row, best, floor, params)[:2]


def _candidates(row: Row, best: np.float32, floor: np.float32, params: SamplerParams) -> tuple[Tokens, Row, float]:
    """What remains after all filters, with weights and the temperature; at temperature 0 only the likeliest."""
    kept = np.flatnonzero(row > FORBIDDEN)
    if 0 < params.top_k < len(row):
        kept = kept[of_count(row[kept], params.top_k)]
    kept = kept[row[kept] >= floor]
    if params.typical_p < 1:
        kept = kept[_typical(row[kept], best, params.typical_p)]
    if params.top_p < 1:
        kept = kept[of_share(row[kept], params.top_p)]
    kept = kept[row[kept] >= _min_p_bar(row[kept].max(), params.min_p)]
    if params.xtc_probability > 0:
        kept = kept[_without_top_choices(row[kept], params)]
    temperature = _dynamic_temperature(row[kept], params) if params.dynatemp_range > 0 else params.temperature
    if temperature < GREEDY:
        return kept[row[kept].argmax() :][:1], np.ones(1, np.float32), temperature
    best = row[kept].max()
    if params.mirostat:
        kept = kept[_expected(row[kept], best, temperature, len(row), params)]
    return kept, weigh(row[kept], best, temperature), temperature


def _draw_from_row(row: Row, best: np.float32, floor: np.float32, params: SamplerParams) -> int:
    """Draw from the whole row; for a share of it, repeat until the token is in the share. -1: it never was."""
    bar = max(floor, _min_p_bar(best, params.min_p))
    weights = weigh(row, best, params.temperature)
    weights[row < bar] = 0
    proposals = sums_of(weights)
    if params.top_p >= 1:
        return drawn(weights, proposals, uniform(params.seed, params.draw))
    plain = weigh(row, best)
    plain[row < floor] = 0
    sums = sums_of(plain)
    wanted = params.top_p * total(sums)
    if LOG2_E <= LOG2_E / np.float32(params.temperature) <= 2 * LOG2_E:
        return _draw_plainly(row, best, bar, params, plain, sums, wanted)
    for tries in range(TRIES):
        token = drawn(weights, proposals, uniform(params.seed, params.draw, tries))
        if _weight_before(row, token, plain) < wanted:
            return token
    return -1


def _draw_plainly(
    row: Row, best: np.float32, bar: np.float32, params: SamplerParams, plain: Row, sums: Sums, wanted: float
) -> int:
    """The same for temperatures from 1/2 to 1, by draws at temperature 1, whose weights also define the share.

    A token is kept with probability (its weight at its own temperature) / (its weight at 1).
    """
    excess = LOG2_E / np.float32(params.temperature) - LOG2_E
    tries = 0
    for stream in range(PLAIN_STREAM, PLAIN_STREAM + 2 * PLAIN_TRIES, 2):
        token = drawn(plain, sums, uniform(params.seed, params.draw, stream))
        if row[token] < bar:
            continue
        kept = power_of_2((row[token : token + 1] - best) * excess)[0]
        if uniform(params.seed, params.draw, stream + 1) >= float(kept):
            continue
        if _weight_before(row, token, plain) < wanted:
            return token
        tries += 1
        if tries == TRIES:
            break
    return -1


def _weight_before(row: Row, token: int, weights: Row) -> float:
    """Weight of all tokens that precede this one when ordered by likelihood."""
    before = (row > row[token]) | ((row == row[token]) & (np.arange(len(row)) < token))
    return total(sums_of(np.where(before, weights, np.float32(0))))


def _min_p_bar(best: np.float32, min_p: float) -> np.float32:
    return np.float32(float(best) + math.log(min_p)) if min_p > 0 else FORBIDDEN


def _sigma_bar(row: Row, sigmas: float) -> np.float32:
    """`sigmas` standard deviations below the best; forbidden tokens do not count."""
    finite = row > FORBIDDEN
    count = int(finite.sum())
    mean = total(sums_of(np.where(finite, row, np.float32(0)))) / count
    apart = np.where(finite, row.astype(np.float64) - mean, 0.0)
    sigma = math.sqrt(total(sums_of(apart * apart)) / count)
    return np.float32(max(float(row.max()) - sigmas * sigma, -float(HUGE)))


def _mean_depth(some: Row, weights: Row) -> float:
    """The mean distance from the best, in nats; adding the logarithm of the weights' sum gives the entropy."""
    depths = np.where(weights > 0, some.max() - some, np.float32(0))  # otherwise it may be infinite
    return total(sums_of(weights.astype(np.float64) * depths.astype(np.float64))) / total(sums_of(weights))


def _typical(some: Row, best: np.float32, share: float) -> Flags:
    """Locally typical sampling (Meister et al., 2022): keep tokens whose surprise is close to the expected one."""
    weights = weigh(some, best)
    scores = np.abs((best - some).astype(np.float64) - _mean_depth(some, weights)).astype(np.float32)
    keys = scores.view(np.uint32).astype(np.int64)
    return first_of(keys, buckets_of(scores - scores.min()), weights, share * total(sums_of(weights)))


def _without_top_choices(some: Row, params: SamplerParams) -> Tokens:
    """XTC (p-e-w, 2024): with this probability keep only the least likely of all tokens that are likely enough."""
    every = np.arange(len(some))
    if params.xtc_threshold > 0.5 or uniform(params.seed, params.draw, XTC_STREAM) >= params.xtc_probability:
        return every
    weights = weigh(some, some.max())
    likely = np.flatnonzero(weights.astype(np.float64) >= params.xtc_threshold * total(sums_of(weights)))
    if len(likely) == 0:
        return every
    least = likely[np.flatnonzero(some[likely] == some[likely].min())[-1]]
    return np.sort(np.append(np.delete(every, likely), least))


def _dynamic_temperature(some: Row, params: SamplerParams) -> float:
    """Dynamic temperature (kalomaze, 2023): low where the model is certain, high where it is not."""
    if len(some) < 2:
        return params.temperature
    weights = weigh(some, some.max())
    entropy = math.log(total(sums_of(weights))) + _mean_depth(some, weights)
    share = max(0.0, entropy / math.log(len(some)))
    low, high = max(0.0, params.temperature - params.dynatemp_range), params.temperature + params.dynatemp_range
    return float(np.float32(low + (high - low) * math.pow(share, params.dynatemp_exponent)))


def _expected(some: Row, best: np.float32, temperature: float, vocab: int, params: SamplerParams) -> Tokens:
    """Mirostat (Basu et al., 2021): keep the tokens that hold the surprise near its target."""
    if params.mirostat == 1:
        first = some[likeliest(some, MIROSTAT_TOKENS)]
        count = _mirostat_count(first, len(some), temperature, params.mirostat_mu, vocab)
        return np.flatnonzero(of_count(some, count))
    weights = weigh(some, best, temperature)
    wanted = total(sums_of(weights)) * math.pow(2.0, min(-params.mirostat_mu, MOST_MU))
    return np.flatnonzero(weights.astype(np.float64) >= wanted) if wanted <= 1 else np.array([some.argmax()])


def _mirostat_count(first: Row, num_all: int, temperature: float, mu: float, vocab: int) -> int:
    """How many of the likeliest give that surprise under Zipf's law, with the exponent estimated from the first
    ones."""
    products = squares = 0.0
    for i in range(len(first) - 1):
        t = math.log((i + 2) / (i + 1))
        products += t * (float(min(first[i] - first[i + 1], HUGE)) / temperature)
        squares += t * t
    exponent = products / squares if squares > 0 else 0.0
    if exponent < 1e-9:
        return num_all
    size = math.log(vocab)
    epsilon = exponent - 1
    ratio = 1 / size if abs(epsilon) < 1e-9 else epsilon / (1 - math.exp(-epsilon * size))
    log_count = (math.log(ratio) + mu * math.log(2.0)) / exponent
    return num_all if log_count >= math.log(num_all) else max(1, int(math.exp(log_count)))
