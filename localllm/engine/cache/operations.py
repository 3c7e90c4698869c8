"""The small operations that change what slots hold: decided by the scheduler, carried out by `KvCache`.

A list of them is carried out in order. Nothing takes effect before `KvCache.apply`.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import Domain
from localllm.engine.cache.hostcache import HostEntry


class Save(NamedTuple):
    """What the slot holds goes to main memory, and on to the disk; the slot keeps it."""

    slot: int


class Copy(NamedTuple):
    """The slot gets the first `length` tokens of another, which keeps them. Both are of that domain."""

    source: int
    slot: int
    length: int
    domain: Domain


class Restore(NamedTuple):
    """The slot gets the content of an entry of that domain, and nothing else."""

    slot: int
    entry: HostEntry
    domain: Domain


class Rewind(NamedTuple):
    """The slot goes back to one of its checkpoints."""

    slot: int
    checkpoint: Checkpoint


class Truncate(NamedTuple):
    """The slot keeps its first `length` tokens, which needs no checkpoint; 0 empties it."""

    slot: int
    length: int


class Assign(NamedTuple):
    """What is computed in the slot from now on belongs to that domain, as does what it already holds."""

    slot: int
    domain: Domain


class Compact(NamedTuple):
    """The cells of these slots, all that are in use in a unified cache, move to its beginning."""

    slots: tuple[int, ...]


Operation = Save | Copy | Restore | Rewind | Truncate | Assign | Compact
