"""Default context length of a slot: as long as a bounded share of memory allows, in powers of two.

Decided by the machine's total memory, so that the answer is the same tomorrow; by free memory only if that is short.
Bounded, because llama.cpp writes a whole cache when it creates it (a second or two per gigabyte on a slow machine), and
copies between slots move all of their cells. Pure functions; knows nothing of processes.
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
"""Contexts beyond `plan.MAX_DEFAULT_CTX`, which every model gets. Agents need 32 k and more."""
SHARE = 1 / 8
"""Largest share of total memory for a model's KV cache and compute buffers."""
FREE_SHARE = 1 / 2
"""Largest share of the memory free at load time for the whole model."""


class Memory(msgspec.Struct, frozen=True):
    """Main memory in bytes; None if the system does not report it."""

    total_bytes: int | None
    free_bytes: int | None


def with_context(info: ModelInfo, options: LoadOptions, memory: Memory) -> LoadOptions:
    """The options, with a context if none was requested and more than `plan.MAX_DEFAULT_CTX` is sensible."""
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if _may_have(info, options, ctx) and _is_sensible(info, wider, memory):
            return wider
    return options


def on_devices(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo]) -> LoadOptions:
    """The context of `with_context`, or a shorter one if GPUs would otherwise hold fewer layers. Raises as
    `plan`."""
    shortest = msgspec.structs.replace(options, ctx=None)
    layers = plan(info, shortest, devices).gpu_layers
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if ctx <= (options.ctx or 0) and (not layers or plan(info, wider, devices).gpu_layers >= layers):
            return wider
    return shortest


def _may_have(info: ModelInfo, options: LoadOptions, ctx: int) -> bool:
    """Whether a context may be chosen, and `ctx` is within what the model was trained for. `kv_cells`, if given, is for
    all slots together and leaves no choice."""
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
