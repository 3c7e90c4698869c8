"""Weights and their sums, random numbers, and selecting the first tokens in some order: for the sampler in NumPy.

Does what `native/sampler` does in `arithmetic.h` and `selection.h`, in the same order. Knows nothing of parameters.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]
Sums = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FORBIDDEN = np.float32(-np.inf)
HUGE = np.finfo(np.float32).max
LOG2_E = np.float32(1.44269504)
LANES = 32
BLOCK = 1024
"""Tokens that are summed separately, so that a draw looks into one block only."""
BUCKETS = 512
BUCKETS_PER_NAT = np.float32(16)
WAYS = 4
"""Partial sums of a bucket, so that additions do not wait for each other."""
MAX_SORTED = 64
"""This many are sorted; more are divided again."""
_POWER_FACTORS = (1.3264737612e-3, 9.6715131338e-3, 5.5507337186e-2, 2.4022242077e-1, 6.9314697761e-1, 1.0)


def power_of_2(x: Row) -> Row:
    """2^x for x <= 0 in float32, within 2 ulp (a polynomial fitted to 2^f - 1 for f in [-0.5, 0.5]); 0 below -126."""
    clamped = np.maximum(x, np.float32(-126))
    n = np.rint(clamped)
    f = clamped - n
    p = np.full_like(f, _POWER_FACTORS[0])
    for factor in _POWER_FACTORS[1:]:
        p = p * f + np.float32(factor)
    result: Row = np.where(x < np.float32(-126), np.float32(0), np.ldexp(p, n.astype(np.int32)))
    return result


def weigh(logits: Row, best: np.float32, temperature: float = 1.0) -> Row:
    """e^((logit - best) / temperature)."""
    return power_of_2((logits - best) * (LOG2_E / np.float32(temperature)))


def uniform(seed: int, draw: int, stream: int = 0) -> float:
    """A number in [0, 1) with 53 bits from seed, draw and stream alone, by SplitMix64 (Steele et al., 2014)."""
    return (_mix(_mix(_mix(seed) ^ draw) ^ stream) >> 11) * 2.0**-53


def _mix(z: int) -> int:
    every_bit = (1 << 64) - 1
    z = (z + 0x9E3779B97F4A7C15) & every_bit
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & every_bit
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & every_bit
    return z ^ (z >> 31)


def likeliest(row: Row, count: int) -> Tokens:
    """The `count` likeliest tokens in order, without forbidden ones; among equals the lower one first."""
    bar = np.partition(row, -count)[-count] if count < len(row) else FORBIDDEN
    some = np.flatnonzero((row >= bar) & (row > FORBIDDEN))
    return some[np.argsort(-row[some], kind="stable")][:count]


def of_count(some: Row, count: int) -> Flags:
    """Which of these are the `count` likeliest."""
    if count >= len(some):
        return np.ones(len(some), np.bool_)
    return first_of(*_by_logit(some), np.ones(len(some), np.float32), count)


def of_share(some: Row, share: float) -> Flags:
    """Which of these are the likeliest that together reach the share."""
    weights = weigh(some, some.max())
    return first_of(*_by_logit(some), weights, share * total(sums_of(weights)))


def _by_logit(some: Row) -> tuple[Tokens, Tokens]:
    """Keys and buckets, likelier tokens first."""
    bits = (some + np.float32(0)).view(np.uint32)  # turns -0 into 0
    keys = np.where(bits >> 31, bits, ~bits & np.uint32(0x7FFFFFFF)).astype(np.int64)
    return keys, buckets_of(some.max() - some)


def buckets_of(depths: Row) -> Tokens:
    buckets: Tokens = np.minimum(depths * BUCKETS_PER_NAT, np.float32(BUCKETS - 1)).astype(np.int64)
    return buckets


def first_of(keys: Tokens, buckets: Tokens, weights: Row, wanted: float) -> Flags:
    """Flags the first elements, by key, then by position, whose weights reach `wanted`; only a few are ever sorted.

    They fall into buckets, and those of the bucket in which the sum is reached into finer ones, until few are left or
    all are equal.
    """
    inside = np.arange(len(keys))
    before = 0.0
    while True:
        ways = np.bincount(
            buckets * WAYS + np.arange(len(inside)) % WAYS,
            weights=weights[inside].astype(np.float64),
            minlength=WAYS * BUCKETS,
        )
        each = np.add.accumulate(ways.reshape(-1, WAYS), axis=1)[:, -1]
        sums = np.add.accumulate(np.concatenate(([before], each)))
        edge = min(int(np.searchsorted(sums[1:], wanted, side="left")), int(buckets.max()))
        before = float(sums[edge])
        inside = inside[buckets == edge]
        low, high = int(keys[inside].min()), int(keys[inside].max())
        if len(inside) <= MAX_SORTED or low == high:
            break
        shift = 0
        while (high - low) >> shift >= BUCKETS:
            shift += 1
        buckets = (keys[inside] - low) >> shift
    inside = inside[np.argsort(keys[inside], kind="stable")]
    last = inside[_num_until(weights[inside], wanted, before) - 1]
    result: Flags = (keys < keys[last]) | ((keys == keys[last]) & (np.arange(len(keys)) <= last))
    return result


def _num_until(weights: Row, wanted: float, before: float) -> int:
    """How many of these, in order, bring the sum to `wanted`; all if they do not reach it."""
    sums = np.add.accumulate(np.concatenate(([before], weights.astype(np.float64))))[1:]
    reached = np.flatnonzero(sums >= wanted)
    return int(reached[0]) + 1 if len(reached) else len(weights)


def sums_of(weights: Row | Sums) -> Sums:
    """The sums of the blocks in double, each over interleaved lanes."""
    blocks = np.zeros((-(-len(weights) // BLOCK), BLOCK // LANES, LANES))
    blocks.reshape(-1)[: len(weights)] = weights
    lanes = np.add.accumulate(blocks, axis=1)[:, -1]
    sums: Sums = np.add.accumulate(lanes, axis=1)[:, -1]
    return sums


def total(sums: Sums) -> float:
    return float(np.add.accumulate(sums)[-1])


def drawn(weights: Row, sums: Sums, u: float) -> int:
    """The first element at which the cumulative weight exceeds u of the total; never one without weight."""
    before = np.add.accumulate(sums)
    wanted = u * float(before[-1])
    block = min(int(np.searchsorted(before, wanted, side="right")), int(np.flatnonzero(sums)[-1]))
    inside = weights[block * BLOCK : (block + 1) * BLOCK]
    start = float(before[block - 1]) if block else 0.0
    reached = np.add.accumulate(np.concatenate(([start], inside.astype(np.float64))))[1:]
    at = min(int(np.searchsorted(reached, wanted, side="right")), int(np.flatnonzero(inside)[-1]))
    return block * BLOCK + at
