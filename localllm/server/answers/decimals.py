"""Vector components with the fewest digits that round-trip as float32."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_DIGITS = 9
"""Significant digits that suffice for any float32; printed as a double it would have 17."""
_LEAST, _MOST = 1e-13, 1e8
"""Outside this range the required power of ten is not exact, so numbers are printed as doubles."""


def short_decimals(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The doubles nearest to each number's 9-digit decimal form, which is how they are then printed."""
    exact = values.astype(np.float64)
    sizes = np.abs(exact)
    is_within = (sizes > _LEAST) & (sizes < _MOST)
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.where(is_within, sizes, 1.0))))
    return np.where(is_within, np.rint(exact * scale) / scale, exact)
