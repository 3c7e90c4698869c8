"""Whether a model may be loaded now, or which others must be unloaded first: pure functions of what is loaded and free.

Covers main memory and device memory. Knows nothing of processes and time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from localllm.errors import LoadConflict

USABLE_SHARE = 0.9
"""Share of main memory that models may use; the rest is left to the system."""


class MemoryHolder(NamedTuple):
    """A model that holds memory now."""

    id: str
    need_bytes: int
    is_busy: bool
    stays: bool
    """Never evicted for another."""
    last_used_s: float
    is_leaving: bool = False
    """It is being unloaded, whatever is decided."""


class Load(NamedTuple):
    """Load it: it fits."""


class Evict(NamedTuple):
    """Unload this idle model, then decide again."""

    id: str


class WaitFor(NamedTuple):
    """Wait until these models are unloaded: they are being unloaded already, or are busy and accept no new requests."""

    ids: tuple[str, ...]


Decision = Load | Evict | WaitFor


class AvailableMemory(NamedTuple):
    """What is available."""

    max_models: int
    """0: no limit."""
    max_bytes: int
    """For all models together."""
    free_bytes: int
    """What could be allocated now."""


def decide(id: str, need: int, held: Sequence[MemoryHolder], room: AvailableMemory) -> Decision:
    """What to do so that a model of `need` bytes can be loaded. Raises `LoadConflict` if it never can.

    Models that are being unloaded are waited for, if that is enough. Else idle models go, least recently used first;
    then busy ones, once their requests have ended. A model that would be alone is loaded whatever the estimate says: an
    estimate is no reason to refuse.
    """
    if not held or _fits(need, held, room):
        return Load()
    gone = [one for one in held if one.is_leaving]
    if gone and _fits_without(gone, need, held, room):
        return WaitFor(tuple(one.id for one in gone))
    movable = sorted(
        (one for one in held if not one.stays and not one.is_leaving), key=lambda one: (one.is_busy, one.last_used_s)
    )
    if movable and not movable[0].is_busy:
        return Evict(movable[0].id)
    for one in movable:
        gone.append(one)
        if _fits_without(gone, need, held, room):
            return WaitFor(tuple(other.id for other in gone))
    raise LoadConflict(_never(id, need, held, room), param="model")


def decide_devices(layers_without: Callable[[Collection[str]], int], holders: Sequence[MemoryHolder]) -> Decision:
    """Which model to evict or wait for so that the new one gets more layers on devices; `Load` if that gains nothing.

    `layers_without`: layers it would get if these models were gone. `holders`: the models that hold device memory. Only
    idle models are evicted, and only those waited for that are being unloaded: fewer layers are better than waiting for
    requests to end, and the load reports it.
    """
    now = layers_without(frozenset())
    leaving = frozenset(one.id for one in holders if one.is_leaving)
    if leaving and layers_without(leaving) > now:
        return WaitFor(tuple(one.id for one in holders if one.is_leaving))
    movable = [one for one in holders if not one.is_busy and not one.stays and not one.is_leaving]
    idle = [one.id for one in sorted(movable, key=lambda one: one.last_used_s)]
    if not idle or layers_without(leaving.union(idle)) <= now:
        return Load()
    for id in idle:
        if layers_without(leaving | {id}) > now:
            return Evict(id)
    return Evict(idle[0])  # no single one is enough


def _fits(need: int, held: Sequence[MemoryHolder], room: AvailableMemory) -> bool:
    if room.max_models and len(held) >= room.max_models:
        return False
    return need <= room.free_bytes and need + sum(one.need_bytes for one in held) <= room.max_bytes


def _fits_without(gone: Sequence[MemoryHolder], need: int, held: Sequence[MemoryHolder], room: AvailableMemory) -> bool:
    rest = [one for one in held if one not in gone]
    freed = room._replace(free_bytes=room.free_bytes + sum(one.need_bytes for one in gone))
    return not rest or _fits(need, rest, freed)


def _never(id: str, need: int, held: Sequence[MemoryHolder], room: AvailableMemory) -> str:
    names = ", ".join(f"{one.id} ({one.need_bytes / 1e9:.1f} GB)" for one in held)
    if room.max_models and len(held) >= room.max_models:
        return (
            f"{id} cannot be loaded: {names} is pinned and max_loaded_models is {room.max_models}; "
            "unload it or raise the limit"
        )
    return (
        f"{id} needs about {need / 1e9:.1f} GB of memory; {max(0, room.free_bytes) / 1e9:.1f} GB are free beside "
        f"{names}, which is pinned; unload it first (`localllm stop`)"
    )
