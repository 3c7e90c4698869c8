"""Places that a memory which cannot lose its tail can go back to: recurrent, hybrid and sliding-window models.

A checkpoint is what such a memory cannot make again (the recurrent state, the window's cells) as it was after so many
tokens; the rest can be cut. Knows nothing of slots or backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from localllm.engine.backend import State

SPACING = 2048
"""A long prompt gets a checkpoint after so many tokens, even where no message ends."""


class Checkpoint(NamedTuple):
    """What the memory was after the first `length` tokens of a conversation."""

    length: int
    state: State


def within(checkpoints: Iterable[Checkpoint], length: int) -> tuple[Checkpoint, ...]:
    """Those that are still of use when only the first `length` tokens stay."""
    return tuple(checkpoint for checkpoint in checkpoints if checkpoint.length <= length)


def added(checkpoints: Sequence[Checkpoint], new: Checkpoint, most: int) -> tuple[Checkpoint, ...]:
    """With a new last one, and of more than `most` without the one that is closest to its neighbours.

    The first stays (many chats share a system message), and so does the last (a chat goes on from there).
    """
    kept = [checkpoint for checkpoint in checkpoints if checkpoint.length < new.length]
    kept.append(new)
    while len(kept) > most:
        if len(kept) == 2:
            del kept[0]
        else:
            gaps = [after.length - before.length for before, after in zip(kept, kept[2:], strict=False)]
            del kept[1 + gaps.index(min(gaps))]
    assert all(before.length < after.length for before, after in pairwise(kept))
    return tuple(kept)


def num_bytes(*groups: Iterable[State]) -> int:
    """What states occupy together, those counted once that are in several places."""
    return sum({id(state): len(state) for group in groups for state in group}.values())
