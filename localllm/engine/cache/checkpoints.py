"""Positions that a memory that cannot drop its tail can go back to: recurrent, hybrid and sliding-window models.

A checkpoint is the part that such a memory cannot recompute (the recurrent state, the window's cells) as it was after
some number of tokens; the rest can be cut. Knows nothing of slots or backends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from localllm.engine.backend import State

SPACING = 2048
"""A long prompt gets a checkpoint after this many tokens even if no message ends there."""


class Checkpoint(NamedTuple):
    """What the memory contained after the first `length` tokens of a conversation."""

    length: int
    state: State


def within(checkpoints: Iterable[Checkpoint], length: int) -> tuple[Checkpoint, ...]:
    """Those that remain usable when only the first `length` tokens stay."""
    return tuple(checkpoint for checkpoint in checkpoints if checkpoint.length <= length)


def added(checkpoints: Sequence[Checkpoint], new: Checkpoint, most: int) -> tuple[Checkpoint, ...]:
    """Appends a new last one; if that makes more than `most`, drops the one closest to its neighbours.

    Never the first one (many chats share a system message) or the last (a chat continues from there).
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
    """Bytes that states occupy together; those in several places count once."""
    return sum({id(state): len(state) for group in groups for state in group}.values())
