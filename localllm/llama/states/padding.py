"""Throw-away tokens for idle slots between busy ones, because one ubatch of llama.cpp takes only consecutive slots.

Without them every gap costs a pass over all weights (4 of 8 slots with gaps: 36 ms per step; filled: 17). But each of
them attends to everything its slot holds. Pure; knows nothing of what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from localllm.engine.backend import Segment

WIDEST_FILLED_GAP = 4
"""Idle slots between busy ones that are worth a filler token each: a pass over the weights costs as much as four."""
CELLS_A_PASS = 0.5
"""Share of the weights' bytes that may be read from idle slots' cells in the time of a pass
(benchmarks/log/kv.md#gaps)."""


def fillers(
    segments: Sequence[Segment], lengths: Sequence[int], *, slot_capacity: int, batch_capacity: int, most_cells: float
) -> list[Segment]:
    """For every idle slot in a narrow gap between these segments, as many tokens as each of them has.

    `lengths`: tokens held, by slot. `most_cells`: those that the fillers of a gap may attend to.
    """
    found: list[Segment] = []
    if segments[-1].slot - segments[0].slot < len(segments):
        return found
    num_rows = [len(segment.tokens) + segment.num_padding for segment in segments]
    each = num_rows[0] if len(set(num_rows)) == 1 else 1
    for before, after in pairwise(segments):
        gap = range(before.slot + 1, after.slot)
        is_narrow = 0 < each * len(gap) <= WIDEST_FILLED_GAP
        is_narrow &= each * sum(lengths[slot] for slot in gap) <= most_cells
        if is_narrow and all(lengths[slot] + each <= slot_capacity for slot in gap):
            found += [Segment(slot, lengths[slot], [0] * each, num_outputs=0) for slot in gap]
    return found if each * len(found) <= batch_capacity - sum(num_rows) else []
