"""A draft model and its target: how the draft is loaded, what it needs, where it goes.

Pure functions of headers, options and devices. Knows nothing of files and processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import LoadFailed
from localllm.gguf.rules.draft_heads import GIVES_STATES
from localllm.planning import assistants
from localllm.planning.device_choice import gpus_of
from localllm.planning.needs import FIXED_BYTES, need_bytes
from localllm.planning.nextn_heads import CTX, F32, KEPT_ROWS, MOST_BATCH
from localllm.planning.placing import DRIVER_BYTES
from localllm.planning.plan import LEAST_UBATCH, compute_bytes, context_of, memory_bytes, plan, slots_of
from localllm.types import DeviceInfo, DraftHead, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DeviceShare, DraftLoad

HEAD_TOKENS = 64
"""Tokens of the batch of a draft that guesses from hidden states: `worker.drafts.draft_model.HEAD_TOKENS`."""
KINDS = {"eagle3": "an EAGLE-3 draft", "dflash": "a DFlash draft", "gemma4-assistant": "an assistant"}
"""Kinds of such drafts in messages."""


class DraftModel(NamedTuple):
    """A draft model on disk."""

    id: str
    path: Path
    info: ModelInfo


def check_is_model(id: str, info: ModelInfo) -> None:
    """Raises `LoadFailed` for a draft that llama.cpp cannot compute without its target."""
    if info.draft_head is not None:
        raise LoadFailed(
            f"{id} ({info.architecture}) only guesses for another model; give it to that model as its draft"
        )


def beside(draft: DraftModel | None, options: LoadOptions) -> LoadOptions:
    """The options of the model that has this draft, which guesses in place of its own NextN layers even if nobody named
    it."""
    return options if draft is None else msgspec.structs.replace(options, draft=draft.id)


def draft_options(info: ModelInfo, options: LoadOptions, draft: DraftModel) -> LoadOptions:
    """The draft's options: the target's slots and context, the latter at most as the draft was trained for. Raises
    `LoadFailed`."""
    if not draft.info.causal:
        raise LoadFailed(f"{draft.id} is an embedding model; it cannot guess text (draft)", param="draft")
    if not info.causal:
        raise LoadFailed("an embedding model generates no text to draft; leave out draft", param="draft")
    if draft.info.draft_head is not None and (problem := _misfit(info, options, draft, draft.info.draft_head)):
        raise LoadFailed(f"{draft.id} {problem} (draft)", param="draft")
    ctx, slots = context_of(info, options), slots_of(info, options)
    trained = draft.info.context_length
    ubatch = options.ubatch
    if draft.info.draft_head is not None and draft.info.draft_head.reads is None:
        ctx, ubatch = min(ctx, CTX), max(HEAD_TOKENS, 2 * slots)
    elif draft.info.draft_head is not None:  # an assistant guesses after one token of each slot
        ubatch = max(LEAST_UBATCH, slots)
    return LoadOptions(
        ctx=ctx if trained is None else min(ctx, trained),
        slots=slots,
        gpu_layers=0 if options.gpu_layers == 0 else "auto",
        devices=options.devices,
        threads=options.threads,
        ubatch=ubatch,
        mtp="off",
        flash_attn="on" if options.flash_attn == "on" else "auto",
    )


def _misfit(info: ModelInfo, options: LoadOptions, draft: DraftModel, head: DraftHead) -> str:
    """Why a draft that guesses from hidden states cannot do so for this model, after its name; empty: it can."""
    made_for = assistants.MADE_FOR
    if head.problem:
        return f"is {KINDS[head.kind]} that cannot be computed: {head.problem}; use another file"
    if head.reads is not None:
        return assistants.misfit(info, options, draft.info, head)
    if info.architecture not in GIVES_STATES:
        return (
            f"guesses from its target's hidden states, which llama.cpp does not give out for {info.architecture}; use "
            "a smaller model of the same family"
        )
    if head.width != info.embedding_length:
        return (
            f"guesses from vectors of {head.width} numbers, and this model's have {info.embedding_length}; {made_for}"
        )
    if max(head.layers) > info.num_layers:
        return f"guesses from layer {max(head.layers)}, and this model has {info.num_layers}; {made_for}"
    if draft.info.vocabulary_size != info.vocabulary_size:
        return f"knows {draft.info.vocabulary_size:,} tokens, and this model has {info.vocabulary_size:,}; {made_for}"
    if head.has_embeddings and head.has_output:
        return ""
    if draft.info.embedding_length != info.embedding_length:
        return (
            f"has no embeddings or no output head of its own, and its vectors have {draft.info.embedding_length} "
            f"numbers, but this model's have {info.embedding_length}; {made_for}"
        )
    if not head.has_output and options.split in ("row", "tensor"):
        return f"uses its target's output head, which split {options.split} divides; leave out split, or remove draft"
    return ""


def draft_bytes(info: ModelInfo, options: LoadOptions, draft: DraftModel) -> int:
    """Main memory that the draft adds if it is on the CPU. Raises `LoadFailed`."""
    need = need_bytes(draft.info, draft_options(info, options, draft)) - FIXED_BYTES
    return need + states_bytes(info, options, draft) + _logits_bytes(draft, slots_of(info, options))


def states_bytes(info: ModelInfo, options: LoadOptions, draft: DraftModel) -> int:
    """Main memory for what a draft of hidden states and its target hand out, wherever they are: logits of a batch, and
    the target's hidden states, those kept of each slot, those of a batch, and those of a ubatch."""
    if draft.info.draft_head is None:
        return 0
    rows = KEPT_ROWS * slots_of(info, options) + max(MOST_BATCH, options.ubatch_tokens) + options.ubatch_tokens
    return F32 * rows * draft.info.draft_head.width * (len(draft.info.draft_head.layers) or 1) + _logits_bytes(
        draft, slots_of(info, options)
    )


def _logits_bytes(draft: DraftModel, slots: int) -> int:
    """Logits of all tokens of such a draft's batch. Its graph computes them for its own tokens, then moves them to
    the places of its target's; an assistant has a few logits, which the plan of any model covers."""
    head = draft.info.draft_head
    return (
        0 if head is None or head.reads is not None else F32 * max(HEAD_TOKENS, 2 * slots) * draft.info.vocabulary_size
    )


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
    gpus = gpus_of(options, devices) if wanted.gpu_layers != 0 else []
    if gpus:
        roomiest = max(gpus, key=lambda device: device.free_bytes)
        layers = draft.info.num_layers + 1
        computes = compute_bytes(draft.info, wanted, flash=True) + _logits_bytes(draft, slots_of(info, options))
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
