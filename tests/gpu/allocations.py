"""What llama.cpp allocates on each device for placements that are asked of it on stdin: a process, because one loads
the library once, with its plugins or without."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import msgspec

from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.llama.spread import Spread
from localllm.planning.plan import plan
from localllm.types.load_options import LoadOptions
from localllm.types.placement import Placement

MIB = 2**20
LOGGED = re.compile(r"(\S+) +(?:\w+ buffer|MoE cache) size = +([0-9.]+) MiB")


class Case(msgspec.Struct):
    """A model and how it is to be loaded."""

    path: str
    options: LoadOptions


class Outcome(msgspec.Struct):
    """By device, main memory of every kind as CPU."""

    placement: Placement
    layers: dict[str, int]
    bytes: dict[str, float]


def allocate(loaded: library.Library, case: Case) -> Outcome:
    """Loads it, makes its context, and frees both."""
    path, options = Path(case.path), case.options
    info = read_model_info(path)
    placement = plan(info, options, loaded.devices())
    mark = loaded.log.mark()
    spread = Spread(
        split=options.split, tensor_split=placement.tensor_split, overrides=placement.overrides, mmap=options.mmap
    )
    model = LlamaModel(
        loaded,
        path,
        gpu_layers=placement.gpu_layers,
        devices=placement.devices,
        must_offload=placement.must_offload,
        spread=spread,
    )
    context: LlamaBackend | LlamaEmbedder
    if not info.causal:
        context = LlamaEmbedder(
            loaded,
            model,
            causal=False,
            pooling=placement.pooling,
            ctx=placement.embedding_ctx,
            threads=2,
            is_offloaded=bool(placement.devices),
            flash_attn=options.flash_attn,
        )
    else:
        context = _backend(loaded, model, options, placement)
    lines = loaded.log.lines_since(mark)
    context.free()
    model.close()
    sizes: dict[str, float] = {}
    for line in lines:
        if (found := LOGGED.search(line)) is not None:
            device = found[1] if found[1] in placement.devices else "CPU"
            sizes[device] = sizes.get(device, 0.0) + float(found[2]) * MIB
    return Outcome(placement, model.layers_per_device, sizes)


def _backend(loaded: library.Library, model: LlamaModel, options: LoadOptions, placement: Placement) -> LlamaBackend:
    return open_backend(
        loaded,
        model,
        KvMemory(
            placement.ctx,
            placement.slots,
            kv_type=options.kv_type,
            expert_cache_bytes=options.moe_cache_mb * 10**6 if placement.cpu_experts else 0,
        ),
        Batching(
            max(2048, options.ubatch_tokens), ubatch_tokens=placement.ubatch_tokens, max_outputs=placement.max_outputs
        ),
        threads=2,
        attention=Attention(placement.flash_attn),
    )


def main() -> None:
    """A case a line, an outcome a line."""
    data_dir = Path(os.environ["LOCALLLM_HOME"])
    plugin_dir = os.environ.get("LOCALLLM_PLUGIN_DIR")
    loaded = library.load(selftest.choose(data_dir).choice, plugin_dir=Path(plugin_dir) if plugin_dir else None)
    for line in sys.stdin.buffer:
        outcome = allocate(loaded, msgspec.json.decode(line, type=Case))
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
