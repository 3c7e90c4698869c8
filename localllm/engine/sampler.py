"""The batch sampler in NumPy: what `native/sampler` computes, bit for bit.

The oracle of its tests, and the fallback where no compiler was there. Every sum is taken in the order in which the C++
takes it, so that the same seed gives the same token in both: a draw is decided by sums of float32 weights in double.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]

FORBIDDEN = np.float32(-np.inf)
LANES = 8
BUCKETS = 2048
BUCKETS_PER_NAT = np.float32(64)
_EXP_FACTORS = (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerParams:
    """How to draw one token. The stages come in llama.cpp's order, temperature last."""

    temperature: float = 1.0
    """0: the likeliest token."""
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    top_n_sigma: float = 0.0
    repeat_penalty: float = 1.0
    repeated: Sequence[int] = ()
    """The distinct tokens that it is for."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    counts: Mapping[int, int] = field(default_factory=dict)
    """Token -> how often it stands in what those two are for."""
    bias: Mapping[int, float] = field(default_factory=dict)
    """Token -> what is added to its logit; -inf forbids it."""
    mask: npt.NDArray[np.uint32] | None = None
    """Bit i of word i / 32: token i is allowed."""
    seed: int = 0
    draw: int = 0
    """How many tokens were drawn before; seed and draw alone decide."""
    num_top: int = -1
    """Log-probabilities to report beside the chosen token's; -1: none at all."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A token, -1 if every one is forbidden, and log-probabilities of the model's own distribution, if asked for."""

    token: int
    logprob: float = math.nan
    top: tuple[tuple[int, float], ...] = ()


class Sampler(Protocol):
    """Draws tokens from rows of logits, all at once."""

    def sample(self, rows: Sequence[Row], params: Sequence[SamplerParams]) -> list[Sampled]:
        """One token for each row, float32 [vocab], all of one length; the rows stay as they are."""
        ...


class NumpySampler:
    """The slow way, row by row."""

    def sample(self, rows: Sequence[Row], params: Sequence[SamplerParams]) -> list[Sampled]:
        return [sample(row, each) for row, each in zip(rows, params, strict=True)]


def sample(row: Row, params: SamplerParams) -> Sampled:
    """Draw a token from logits, float32 [vocab], which stay as they are."""
    token = _choose(_changed(row, params), params)
    if params.num_top < 0 or token < 0:
        return Sampled(token)
    best = row.max()
    whole = math.log(_total(exp_of(row - best))) + float(best)
    likeliest = _likeliest(row, params.num_top) if params.num_top else ()
    top = tuple((int(i), float(np.float32(float(row[i]) - whole))) for i in likeliest)
    return Sampled(token, float(np.float32(float(row[token]) - whole)), top)


def exp_of(x: Row) -> Row:
    """e^x for x <= 0 in float32, within 2 ulp (the polynomial of Cephes' expf); 0 below -87."""
    clamped = np.maximum(x, np.float32(-87))
    n = np.rint(clamped * np.float32(1.44269504))
    r = (clamped - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    p = np.full_like(r, 1.9875691500e-4)
    for factor in _EXP_FACTORS:
        p = p * r + np.float32(factor)
    p = (p * (r * r) + r) + np.float32(1)
    result: Row = np.where(x < np.float32(-87), np.float32(0), np.ldexp(p, n.astype(np.int32)))
    return result


def uniform(seed: int, draw: int) -> float:
    """A number in [0, 1) with 53 bits, from two rounds of SplitMix64 (Steele et al., 2014)."""
    return (_mix(_mix(seed) ^ draw) >> 11) * 2.0**-53


def _mix(z: int) -> int:
    every_bit = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & every_bit
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & every_bit
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & every_bit
    return z ^ (z >> 31)


def _changed(row: Row, params: SamplerParams) -> Row:
    """The row with biases, penalties (as `llama_sampler_penalties` of llama.cpp) and mask; a copy if there are any."""
    if params.temperature <= 0 and params.mask is None and not (params.bias or params.repeated or params.counts):
        return row
    row = row.copy()
    for token, bias in params.bias.items():
        row[token] += np.float32(bias)
    repeat = np.float32(params.repeat_penalty)
    for token in params.repeated:
        row[token] = row[token] * repeat if row[token] <= 0 else row[token] / repeat
    for token, count in params.counts.items():
        row[token] -= np.float32(count) * np.float32(params.frequency_penalty) + np.float32(params.presence_penalty)
    if params.mask is not None:
        allowed = np.unpackbits(params.mask.view(np.uint8), bitorder="little")[: len(row)]
        row[allowed == 0] = FORBIDDEN
    return row


def _choose(row: Row, params: SamplerParams) -> int:
    """Draw from a row that may be written to, unless the temperature is 0."""
    best = row.max()
    if not best > FORBIDDEN:  # or no number at all
        return -1
    if params.temperature <= 0:
        return int(row.argmax())
    if params.top_n_sigma > 0:
        row[row < _sigma_bar(row, params.top_n_sigma)] = FORBIDDEN
    bar = np.float32(float(best) + math.log(float(np.float32(params.min_p)))) if params.min_p > 0 else FORBIDDEN
    u = uniform(params.seed, params.draw)
    some = 0 < params.top_k < len(row)
    if some or params.top_p < 1:
        kept = _likeliest(row, params.top_k) if some else _tokens_of_share(row, params.top_p)
        if some and params.top_p < 1:
            kept = kept[: _num_for_share(row[kept], params.top_p)]
        kept = np.sort(kept[row[kept] >= bar])
        return int(kept[_drawn(exp_of((row[kept] - best) / np.float32(params.temperature)), u)])
    row[row < bar] = FORBIDDEN
    return _drawn(exp_of((row - best) / np.float32(params.temperature)), u)


def _likeliest(row: Row, count: int) -> Tokens:
    """So many tokens in order, forbidden ones left out; of equals the lower one first."""
    bar = np.partition(row, -count)[-count] if count < len(row) else FORBIDDEN
    some = np.flatnonzero((row >= bar) & (row > FORBIDDEN))
    return some[np.argsort(-row[some], kind="stable")][:count]


def _sigma_bar(row: Row, sigmas: float) -> np.float32:
    """So many standard deviations below the best; forbidden tokens do not count."""
    some = row[row > FORBIDDEN].astype(np.float64)
    mean = np.add.accumulate(some)[-1] / len(some)
    sigma = math.sqrt(np.add.accumulate((some - mean) ** 2)[-1] / len(some))
    return np.float32(float(row.max()) - float(np.float32(sigmas)) * sigma)


def _num_for_share(ordered: Row, share: float) -> int:
    """How many of these, the likeliest first, together reach the share of them all."""
    weights = exp_of(ordered - ordered[0])
    reached = np.flatnonzero(
        np.add.accumulate(weights.astype(np.float64)) >= float(np.float32(share)) * _total(weights)
    )
    return int(reached[0]) + 1 if len(reached) else len(ordered)


def _tokens_of_share(row: Row, share: float) -> Tokens:
    """The likeliest tokens that together reach the share, without sorting the row.

    Tokens fall into buckets by how far they are below the best. Buckets are summed, and the one in which the share is
    reached is gone through in order.
    """
    best = row.max()
    weights = exp_of(row - best)
    wanted = float(np.float32(share)) * _total(weights)
    allowed = np.flatnonzero(row > FORBIDDEN)
    bucket = np.minimum((best - row[allowed]) * BUCKETS_PER_NAT, np.float32(BUCKETS - 1)).astype(np.int64)
    sums = np.add.accumulate(np.bincount(bucket, weights=weights[allowed].astype(np.float64), minlength=BUCKETS))
    edge = min(int(np.searchsorted(sums, wanted, side="left")), BUCKETS - 1)
    inside = allowed[bucket == edge]
    inside = inside[np.argsort(-row[inside], kind="stable")]
    before = float(sums[edge - 1]) if edge else 0.0
    reached = np.flatnonzero(
        np.add.accumulate(np.concatenate(([before], weights[inside].astype(np.float64))))[1:] >= wanted
    )
    if len(reached):
        inside = inside[: reached[0] + 1]
    return np.concatenate((allowed[bucket < edge], inside))


def _total(weights: Row) -> float:
    """The sum in double, over interleaved lanes."""
    lanes = np.zeros((-(-len(weights) // LANES), LANES))
    lanes.reshape(-1)[: len(weights)] = weights
    return float(np.add.accumulate(np.add.accumulate(lanes, axis=0)[-1])[-1])


def _drawn(weights: Row, u: float) -> int:
    """The first whose sum of weights passes u of the whole; never one without weight."""
    sums = np.add.accumulate(weights.astype(np.float64))
    at = int(np.searchsorted(sums, u * _total(weights), side="right"))
    return min(at, int(np.flatnonzero(weights)[-1]))
