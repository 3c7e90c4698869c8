"""How long a slot is where nobody said it: as long as a bounded part of memory allows, in steps of powers of two.

By all of a machine's memory, so that it is the same tomorrow; by what is free only where that is less. Bounded, since
llama.cpp writes to a whole cache as it makes it (a second or two a gigabyte on a slow machine), and copies between
slots move all of their cells. Pure functions; knows nothing of processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from localllm.supervisor.plan import (
    cpu_compute_bytes,
    cpu_memory_bytes,
    longest_context,
    output_bytes,
    plan,
)
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions

STEPS = (16_384, 32_768, 65_536, 131_072)
"""Beyond what every model gets, `plan.MAX_DEFAULT_CTX`. Agents need 32 k and more."""
SHARE = 1 / 8
"""Of all memory, at most, for the caches of a model's slots and what is computed beside them."""
FREE_SHARE = 1 / 2
"""Of what is free when it loads, at most, for all of the model."""


class Memory(msgspec.Struct, frozen=True):
    """Main memory, in bytes; None: the system does not say."""

    total_bytes: int | None
    free_bytes: int | None


def with_context(info: ModelInfo, options: LoadOptions, memory: Memory) -> LoadOptions:
    """The same with a context, where none was asked for and more than `plan.MAX_DEFAULT_CTX` is sensible."""
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if _may_have(info, options, ctx) and _is_sensible(info, wider, memory):
            return wider
    return options


def on_devices(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo]) -> LoadOptions:
    """The context of `with_context`, or a shorter one where GPUs would hold fewer layers for it. Raises as `plan`."""
    shortest = msgspec.structs.replace(options, ctx=None)
    layers = plan(info, shortest, devices).gpu_layers
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if ctx <= (options.ctx or 0) and (not layers or plan(info, wider, devices).gpu_layers >= layers):
            return wider
    return shortest


def _may_have(info: ModelInfo, options: LoadOptions, ctx: int) -> bool:
    """Of a model trained for 40,960 tokens: 32,768. Cells that somebody counted are for all slots together."""
    if not info.causal or not info.layer_memory or options.ctx is not None or options.kv_cells is not None:
        return False
    return info.context_length is not None and ctx <= longest_context(info.context_length, options)


def _is_sensible(info: ModelInfo, options: LoadOptions, memory: Memory) -> bool:
    if memory.total_bytes is None:
        return False
    slots_bytes = cpu_memory_bytes(info, options) + cpu_compute_bytes(info, options) + output_bytes(info, options)
    if slots_bytes > memory.total_bytes * SHARE:
        return False
    return memory.free_bytes is None or slots_bytes + info.size_bytes <= memory.free_bytes * FREE_SHARE
