"""Opens the disk cache of a model that was just loaded: what its saved states depend on, and where they are.

Knows nothing of requests.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from localllm.engine.cache.tiers import DiskTier
from localllm.kvdisk import folder, named
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.fingerprint import Parts
from localllm.kvdisk.named import NamedStates, named_bytes
from localllm.llama.context import LlamaBackend
from localllm.llama.library import Library
from localllm.llama.rope import AS_TRAINED, rope_of
from localllm.worker.identity import model_identity
from localllm.worker.messages import Load

logger = logging.getLogger("localllm")


class DiskStates(NamedTuple):
    """A model's saved states on disk."""

    tier: DiskTier
    named: NamedStates


def open_disk(library: Library, load: Load, backend: LlamaBackend, data_dir: Path) -> DiskStates | None:
    """None where no disk is to be used (`kv_disk_mb` 0)."""
    max_bytes = load.options.kv_disk_mb * 2**20
    if max_bytes == 0:
        return None
    parts = _parts(library, load, backend)
    conversations, slots = data_dir / folder.FOLDER, data_dir / named.FOLDER
    tier = DiskTier(
        lambda on_read: DiskCache(
            conversations, model=load.model_id, parts=parts, max_bytes=max_bytes, on_read=on_read,
            beside_bytes=lambda: named_bytes(slots), warn=lambda text: logger.warning("%s", text),
        )
    )  # fmt: skip
    return DiskStates(tier, NamedStates(slots, conversations, model=load.model_id, parts=parts, max_bytes=max_bytes))


def _parts(library: Library, load: Load, backend: LlamaBackend) -> Parts:
    """All that saved states depend on."""
    return Parts(
        model=model_identity(load),
        adapters=(),
        kv_types=(load.options.kv_type, load.options.kv_type),
        layout=load.placement.kv,
        slots=backend.num_slots,
        slot_capacity=backend.slot_capacity,
        flash_attention="on" if backend.flash_attn else "off",
        library_version=str(library.build),
        library_hash=library.build.fingerprint,
        other={"cells": str(backend.num_cells), "memory": backend.memory_kind} | _stretched(load),
    )


def _stretched(load: Load) -> dict[str, str]:
    """Empty where positions are not stretched, so that states saved before there was a choice are still found."""
    rope = rope_of(load.options)
    return {} if rope == AS_TRAINED else {"rope": rope.text()}
