"""How much of an earlier computation a prompt can start from: one rule for slots, main memory and the disk."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from localllm.engine.cache.domain import Domain
from localllm.engine.media import Extent
from localllm.engine.spans import outside
from localllm.kvdisk.prefix import common_prefix


def reusable(
    prompt: npt.NDArray[np.int32],
    domain: Domain,
    *,
    tokens: npt.NDArray[np.int32],
    of: Domain,
    least: int,
    checkpoints: Iterable[int],
    extents: Iterable[Extent] = (),
) -> int:
    """How many of a prompt's tokens, from the first, a holder of `tokens` in the domain `of` can be cut to.

    It can be cut to `least` tokens and more without a checkpoint, and to the position of each of its `checkpoints`, but
    nowhere within one of its `extents`.
    """
    if of != domain:
        return 0
    return nearest(common_prefix(tokens, prompt), least, checkpoints, extents)


def nearest(length: int, least: int, checkpoints: Iterable[int], extents: Iterable[Extent] = ()) -> int:
    """The largest length up to `length` that a memory can be cut to."""
    length = outside(length, extents)
    if length >= least:
        return length
    return max((position for position in checkpoints if position <= length), default=0)
