"""A `Load` message to a model in memory with its slots, and the `LoadedModel` that says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from localllm import osdep
from localllm.llama.context import LlamaBackend
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import LoadedModel
from localllm.worker.messages import Load


def load_model(library: Library, load: Load, on_progress: Callable[[float], None]) -> tuple[LlamaBackend, LoadedModel]:
    """Loads, allocates the KV cache and reports. Raises `LoadFailed`, `DeviceUnavailable`."""
    started = time.perf_counter()
    placement = load.placement
    threads = load.options.threads or osdep.num_physical_cores()
    model = LlamaModel(
        library,
        Path(load.path),
        gpu_layers=placement.gpu_layers,
        devices=placement.devices,
        must_offload=placement.must_offload,
        on_progress=on_progress,
    )
    backend = LlamaBackend(
        library,
        model,
        ctx=placement.ctx,
        slots=placement.slots,
        threads=threads,
        batch_tokens=load.options.batch_tokens,
        num_cells=placement.num_cells if placement.kv == "unified" else None,
        kv_type=load.options.kv_type,
    )
    return backend, LoadedModel(
        id=load.model_id,
        path=load.path,
        info=load.info,
        ctx=backend.slot_capacity,
        slots=placement.slots,
        memory=backend.memory_kind,
        kv=placement.kv,
        kv_reason=placement.kv_reason,
        threads=threads,
        layers_per_device=model.layers_per_device,
        backend=library.choice.label(),
        load_s=time.perf_counter() - started,
        created_unix_s=int(time.time()),
    )
