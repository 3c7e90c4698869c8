"""Opens the disk cache of a model that was just loaded: what its saved states depend on, and where they are.

Knows nothing of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.engine.cache.tiers import OpenDisk
from localllm.kvdisk import folder, named
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.fingerprint import Parts
from localllm.kvdisk.named import NamedStates, named_bytes
from localllm.llama.backend import LlamaBackend
from localllm.llama.library import Library
from localllm.llama.rope import AS_TRAINED, rope_of
from localllm.types import DeviceInfo
from localllm.worker.messages import Load
from localllm.worker.states.identity import model_identity

logger = logging.getLogger("localllm")


class DiskStates(NamedTuple):
    """A model's saved states on disk."""

    open_cache: OpenDisk
    named: NamedStates


def open_disk(
    library: Library, load: Load, backend: LlamaBackend, layers_per_device: Mapping[str, int], data_dir: Path
) -> DiskStates | None:
    """None if the disk is not to be used (`kv_disk_mb` 0)."""
    max_bytes = load.options.kv_disk_mb * 10**6
    if max_bytes == 0:
        return None
    computed_by = by_devices(layers_per_device, library.devices())
    parts = _parts(library, load, backend, computed_by)
    conversations, slots = data_dir / folder.FOLDER, data_dir / named.FOLDER

    def open_cache(on_read: Callable[[DiskEntry], None]) -> DiskCache:
        root = folder.Folder(
            conversations,
            model=load.model_id,
            parts=parts,
            max_bytes=max_bytes,
            beside_bytes=lambda: named_bytes(slots),
        )
        return DiskCache(root, on_read=on_read, warn=lambda text: logger.warning("%s", text))

    states = NamedStates(slots, conversations, model=load.model_id, parts=parts, max_bytes=max_bytes)
    return DiskStates(open_cache, states)


def by_devices(layers_per_device: Mapping[str, int], devices: Sequence[DeviceInfo]) -> dict[str, str]:
    """What computes the layers, for the fingerprint; empty if the CPU computes all of them, since its code is part of
    the library's hash.

    A GPU rounds otherwise. Of the demo with 3 of 5 layers on a device (Vulkan), log-probabilities after a state of its
    own differ from fresh ones by 0.007 (median of the largest of each token; at most 0.02), after one that the CPU or
    all layers on the device had computed by 0.08 (0.24): benchmarks/log/kv.md#states-of-other-devices. A rejected state
    is only computed again, whereas an accepted one is trusted.
    """
    known = {device.name: device for device in devices if device.kind != "cpu"}
    used = [
        f"{count} on {known[name].backend}: {known[name].description}"
        for name, count in layers_per_device.items()
        if count and name in known
    ]
    return {"devices": "; ".join(used)} if used else {}


def _parts(library: Library, load: Load, backend: LlamaBackend, computed_by: dict[str, str]) -> Parts:
    """All that saved states depend on."""
    return Parts(
        model=model_identity(load),
        adapters=(),
        kv_types=(load.options.kv_type, load.options.kv_type),
        layout=load.placement.kv,
        slots=backend.cells.num_slots,
        slot_capacity=backend.cells.slot_capacity,
        flash_attention="on" if backend.context.flash_attn else "off",
        library_version=str(library.build),
        library_hash=library.build.fingerprint,
        other={"cells": str(backend.cells.num_cells), "memory": backend.cells.memory_kind}
        | computed_by
        | _stretched(load),
    )


def _stretched(load: Load) -> dict[str, str]:
    """Empty if positions are not stretched, so that states saved before this was configurable are still found."""
    rope = rope_of(load.options)
    return {} if rope == AS_TRAINED else {"rope": rope.text()}
