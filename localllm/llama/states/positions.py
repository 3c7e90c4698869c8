"""At which positions the tokens of a slot stand: that of a token is its index, until media rows share positions.

    index       0 1 2 3 4 5 6 7        positions go on behind a picture by its height or width, whichever is larger
    token       t t r r r r t t
    position    0 1 2 2 2 2 4 5        time; rows of a picture differ in the planes of height and width

Pure; only extents that share positions may be given. Knows nothing of what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.engine.media import Extent


def position_of(extents: Sequence[Extent], index: int) -> int:
    """The first position that nothing before this index takes: that of a token there. Within an extent, the one
    behind it."""
    saved = 0
    for start, end, num_positions, _ in extents:
        if index <= start:
            break
        if index < end:
            return start - saved + num_positions
        saved += end - start - num_positions
    return index - saved


def tokens_before(extents: Sequence[Extent], position: int, held: int) -> int:
    """How many tokens stand before this position in a slot of which `held` were recorded: of an extent that begins
    before it and goes on, those."""
    saved = 0
    for start, end, num_positions, _ in extents:
        first = start - saved
        if position <= first:
            break
        if position < first + num_positions:
            return min(held, end)
        saved += end - start - num_positions
    return position + saved
