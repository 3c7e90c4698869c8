"""The small steps by which slots are made to hold something else: decided by the scheduler, carried out by `KvCache`.

A list of them is carried out in order. None has an effect before `KvCache.apply`.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import Entry


class Save(NamedTuple):
    """What the slot holds goes to main memory, and on to the disk; the slot keeps it."""

    slot: int


class Copy(NamedTuple):
    """The slot holds the first `length` tokens of another, which keeps them. Both are of that domain."""

    source: int
    slot: int
    length: int
    domain: Domain


class Restore(NamedTuple):
    """The slot holds an entry, which is of that domain, and nothing else."""

    slot: int
    entry: Entry
    domain: Domain


class Rewind(NamedTuple):
    """The slot goes back to a checkpoint of what it holds."""

    slot: int
    checkpoint: Checkpoint


class Truncate(NamedTuple):
    """The slot keeps its first `length` tokens, to which it can be cut as it is; 0 empties it."""

    slot: int
    length: int


class Assign(NamedTuple):
    """What is computed in the slot from now on is that domain's, as what it holds already is."""

    slot: int
    domain: Domain


class Compact(NamedTuple):
    """The slots' cells, all that are taken of a unified cache, move to its beginning."""

    slots: tuple[int, ...]


Operation = Save | Copy | Restore | Rewind | Truncate | Assign | Compact
