"""A backend as the worker makes it: what the plan says, for a model on the CPU; what llama.cpp says it allocates."""

from __future__ import annotations

import re
from collections.abc import Iterable

from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.planning.plan import plan
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions


def planned_backend(library: Library, model: LlamaModel, info: ModelInfo, options: LoadOptions) -> LlamaBackend:
    placement = plan(info, options, [])
    return open_backend(
        library,
        model,
        KvMemory(
            placement.ctx,
            placement.slots,
            num_cells=placement.num_cells if placement.kv == "unified" else None,
            kv_type=options.kv_type,
            snapshots=placement.snapshots,
        ),
        Batching(options.ubatch_tokens, ubatch_tokens=placement.ubatch_tokens, max_outputs=placement.max_outputs),
        threads=2,
        attention=Attention(placement.flash_attn),
    )


_CONTEXT = "constructing llama_context"
_SIZE = re.compile(r"(\S+) +(\w+) buffer size = +([0-9.]+) MiB")


def allocated_mib(lines: Iterable[str], *kinds: str) -> float:
    """Of these kinds of buffers (model, KV, RS, compute, output ...), by llama.cpp's log.

    From 0.6 on a context makes its buffer for computing again once it knows what is read from it: the last one counts.
    """
    number, sizes = 0, dict[tuple[object, ...], float]()
    for position, line in enumerate(lines):
        number += _CONTEXT in line
        if (found := _SIZE.search(line)) is not None and (not kinds or found[2] in kinds):
            is_replaced = found[2] == "compute"
            sizes[found[1], found[2], number if is_replaced else -position - 1] = float(found[3])
    return sum(sizes.values())
