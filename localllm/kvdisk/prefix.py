"""What two sequences of tokens begin alike with. Knows nothing of what the tokens are used for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def common_prefix(one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> int:
    """How many tokens they begin alike with."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
