"""Numbers of vectors in the fewest digits that give the same float32 again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DIGITS = 9
"""Significant ones, which are enough for any float32; as a double it would be written with 17."""
_LEAST, _MOST = 1e-13, 1e8
"""Beyond these the power of ten that it takes is not exact, so numbers are written as doubles are."""


def short_decimals(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The doubles next to each number's decimal form of 9 digits, which is what they are then written as."""
    exact = values.astype(np.float64)
    sizes = np.abs(exact)
    is_within = (sizes > _LEAST) & (sizes < _MOST)
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.where(is_within, sizes, 1.0))))
    return np.where(is_within, np.rint(exact * scale) / scale, exact)
