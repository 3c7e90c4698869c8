"""A draft model and its target: how the draft is loaded, what it needs, where it goes.

Pure functions of headers, options and devices. Knows nothing of files and processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import LoadFailed
from localllm.supervisor.placing import DRIVER_BYTES
from localllm.supervisor.plan import compute_bytes, context_of, memory_bytes, plan, slots_of
from localllm.supervisor.room import FIXED_BYTES, need_bytes
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.worker.messages import DeviceShare, DraftLoad

TIED = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Architectures of drafts that compute from hidden states of their target, which nothing passes to them."""


class DraftModel(NamedTuple):
    """A draft model on disk."""

    id: str
    path: Path
    info: ModelInfo


def draft_options(info: ModelInfo, options: LoadOptions, draft: DraftModel) -> LoadOptions:
    """The draft's options: the target's slots and context, the latter at most as the draft was trained for. Raises
    `LoadFailed`."""
    if not draft.info.causal:
        raise LoadFailed(f"{draft.id} is an embedding model; it cannot guess text (draft)", param="draft")
    if draft.info.architecture in TIED:
        raise LoadFailed(
            f"{draft.id} ({draft.info.architecture}) guesses from its target's hidden states, which is not served; use "
            "a smaller model of the same family (draft)",
            param="draft",
        )
    if not info.causal:
        raise LoadFailed("an embedding model generates no text to draft; leave out draft", param="draft")
    ctx = context_of(info, options)
    trained = draft.info.context_length
    return LoadOptions(
        ctx=ctx if trained is None else min(ctx, trained),
        slots=slots_of(info, options),
        gpu_layers=0 if options.gpu_layers == 0 else "auto",
        devices=options.devices,
        threads=options.threads,
        ubatch=options.ubatch,
        mtp="off",
        flash_attn="on" if options.flash_attn == "on" else "auto",
    )


def draft_bytes(info: ModelInfo, options: LoadOptions, draft: DraftModel) -> int:
    """Main memory that the draft adds if it is on the CPU. Raises `LoadFailed`."""
    return need_bytes(draft.info, draft_options(info, options, draft)) - FIXED_BYTES


class PlacedDraft(NamedTuple):
    """Where the draft goes."""

    load: DraftLoad
    share: DeviceShare | None
    """Its share of a GPU; None: it is on the CPU."""
    devices: Sequence[DeviceInfo]
    """All devices with the memory that the draft leaves free."""


def place_draft(info: ModelInfo, options: LoadOptions, draft: DraftModel, devices: Sequence[DeviceInfo]) -> PlacedDraft:
    """On the GPU with most free memory if all of it fits there, else on the CPU.

    Raises `LoadFailed`, and as `plan` does.
    """
    share = None
    wanted = draft_options(info, options, draft)
    on_cpu = msgspec.structs.replace(wanted, gpu_layers=0, devices=None)
    placement = plan(draft.info, on_cpu, devices)
    gpus = [device for device in devices if device.kind == "gpu"] or [each for each in devices if each.kind == "igpu"]
    if options.devices is not None:
        named = {name.lower() for name in options.devices}
        gpus = [device for device in gpus if device.name.lower() in named]
    if gpus and wanted.gpu_layers != 0:
        roomiest = max(gpus, key=lambda device: device.free_bytes)
        layers = draft.info.num_layers + 1
        computes = compute_bytes(draft.info, wanted, flash=True)
        keeps = sum(memory_bytes(draft.info, wanted, flash=True))
        whole = DeviceShare(roomiest.name, layers, draft.info.size_bytes, keeps, computes)
        need = whole.total + DRIVER_BYTES
        if need <= roomiest.free_bytes:
            share = whole
            placement = msgspec.structs.replace(
                placement, gpu_layers=layers, devices=(roomiest.name,), flash_attn="auto", must_offload=False
            )
            devices = [
                msgspec.structs.replace(device, free_bytes=device.free_bytes - need) if device is roomiest else device
                for device in devices
            ]
    info = msgspec.structs.replace(draft.info, tensors={})  # only planning needs tensor names
    return PlacedDraft(DraftLoad(draft.id, str(draft.path), info, placement), share, devices)
