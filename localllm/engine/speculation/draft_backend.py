"""The part of `Backend` that drafting needs. Knows not what it is: a draft model, or the model's heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import Segment


class DraftBackend(Protocol):
    """All as in `Backend`."""

    @property
    def num_slots(self) -> int: ...

    @property
    def slot_capacity(self) -> int: ...

    @property
    def batch_capacity(self) -> int: ...

    @property
    def max_outputs(self) -> int: ...

    @property
    def can_shift(self) -> bool: ...

    def length(self, slot: int) -> int: ...

    def truncate(self, slot: int, length: int) -> None: ...

    def shift(self, slot: int, keep: int, drop: int) -> None: ...

    def set_threads(self, threads: int) -> None: ...

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool: ...

    def synchronize(self) -> None: ...

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]: ...

    def ends_generation(self, token: int) -> bool: ...

    def free(self) -> None:
        """Release all memory that only guesses need. Nothing else may be called afterwards."""
        ...
