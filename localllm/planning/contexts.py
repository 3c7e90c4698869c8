"""Default context length of a slot: as long as a bounded share of memory allows, in powers of two.

Decided by the machine's total memory, so that the answer is the same tomorrow; by free memory only if that is short.
Bounded, because llama.cpp writes a whole cache when it creates it (a second or two per gigabyte on a slow machine), and
copies between slots move all of their cells. Pure functions; knows nothing of processes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from localllm.planning.draft_plan import DraftModel, beside, draft_bytes
from localllm.planning.plan import cpu_compute_bytes, cpu_memory_bytes, heads_of, longest_context, output_bytes
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions

STEPS = (16_384, 32_768, 65_536, 131_072)
"""Contexts beyond `plan.MAX_DEFAULT_CTX`, which every model gets. Agents need 32 k and more."""
SHARE = 1 / 8
"""Largest share of total memory for a model's KV cache and compute buffers, with those of what guesses for it."""
FREE_SHARE = 1 / 2
"""Largest share of the memory free at load time for the whole model."""


class Memory(msgspec.Struct, frozen=True):
    """Main memory in bytes; None if the system does not report it."""

    total_bytes: int | None
    free_bytes: int | None


def with_context(info: ModelInfo, options: LoadOptions, memory: Memory, draft: DraftModel | None = None) -> LoadOptions:
    """The options, with a context if none was requested and more than `plan.MAX_DEFAULT_CTX` is sensible. Raises
    `LoadFailed` if the draft cannot guess for this model."""
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if _may_have(info, options, ctx) and _is_sensible(info, wider, memory, draft):
            return wider
    return options


def on_devices(options: LoadOptions, layers_with: Callable[[LoadOptions], int]) -> LoadOptions:
    """The context of `with_context`, or a shorter one if GPUs would otherwise hold fewer layers: `layers_with` these
    options."""
    shortest = msgspec.structs.replace(options, ctx=None)
    layers = layers_with(shortest)
    for ctx in reversed(STEPS):
        wider = msgspec.structs.replace(options, ctx=ctx)
        if ctx <= (options.ctx or 0) and (not layers or layers_with(wider) >= layers):
            return wider
    return shortest


def _may_have(info: ModelInfo, options: LoadOptions, ctx: int) -> bool:
    """Whether a context may be chosen, and `ctx` is within what the model was trained for. `kv_cells`, if given, is for
    all slots together and leaves no choice."""
    if not info.causal or not info.layer_memory or options.ctx is not None or options.kv_cells is not None:
        return False
    return info.context_length is not None and ctx <= longest_context(info.context_length, options)


def _is_sensible(info: ModelInfo, options: LoadOptions, memory: Memory, draft: DraftModel | None) -> bool:
    if memory.total_bytes is None:
        return False
    weights = info.size_bytes
    slots_bytes = cpu_memory_bytes(info, options) + cpu_compute_bytes(info, options) + output_bytes(info, options)
    slots_bytes += heads_of(info, beside(draft, options)).total
    if draft is not None:
        weights += draft.info.size_bytes
        slots_bytes += draft_bytes(info, options, draft) - draft.info.size_bytes
    if slots_bytes > memory.total_bytes * SHARE:
        return False
    return memory.free_bytes is None or slots_bytes + weights <= memory.free_bytes * FREE_SHARE
