"""What one slot's KV cache holds, as the engine believes: the only place where that is recorded.

    tokens       [0 ................ length)
    as computed  [0 .. sound)                 after a shift, later cells are not as if computed in order
    can be cut to        [least .. length]    and to 0, and to the position of every checkpoint

Written by `Residency` only. A running sequence reads here how much of it is computed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.media import Extent


class SlotRecord:
    """One slot."""

    __slots__ = ("changed_at", "checkpoints", "domain", "extents", "least", "length", "row", "slot", "sound", "used_at")

    def __init__(self, slot: int | None, capacity: int) -> None:
        self.slot = slot
        self.row: npt.NDArray[np.int32] = np.zeros(capacity, np.int32)
        """Token ids, shape [capacity]; the first `length` are valid."""
        self.length = 0
        self.sound = 0
        """How many of the first tokens others can use."""
        self.least = 0
        """The slot can be cut to this many tokens or more without a checkpoint."""
        self.domain: Domain = COMMON
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self.extents: tuple[Extent, ...] = ()
        """Those that begin in the slot; the last one may not be complete."""
        self.used_at = 0
        """When it was last used; larger is later."""
        self.changed_at = 0
        """Value of `Residency.changes` when anything but a continuation last happened to it."""

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """The ids in that slot, a view of shape [length]."""
        return self.row[: self.length]


NOWHERE = SlotRecord(None, 0)
"""For a sequence that has no slot."""
