"""Loads the draft model in the worker beside its target, if both have the same vocabulary.

Knows nothing of when it drafts.
"""

from __future__ import annotations

from pathlib import Path

from localllm.errors import LoadFailed
from localllm.gguf.rules.draft_heads import GIVES_LAST, target_tokens
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.drafts.making import LlamaDraft, LlamaHeads, maker_of
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab_difference import vocab_difference
from localllm.types import DraftHead
from localllm.types.placement import DraftLoad
from localllm.worker.messages import Load

BATCH_TOKENS = 512
MOST_OUTPUTS = 32
"""Rows of logits for all streams together, or for tokens that the draft is checked against."""
HEAD_TOKENS = 64
"""Of a batch of a draft that guesses from hidden states, whose graph computes the logits of all of them."""


def check_layers(library: Library, draft: DraftLoad, target: LlamaModel, architecture: str) -> None:
    """Raises `LoadFailed` if the draft needs vectors of a layer that llama.cpp would end the process for."""
    if draft.info.draft_head is None:
        return
    num_layers = int(library.api.llama_model_n_layer(target.handle))
    last = max(draft.info.draft_head.layers, default=0)
    if last > num_layers or (last == num_layers and architecture not in GIVES_LAST):
        raise LoadFailed(
            f"{draft.id} guesses from what enters layer {last}, and llama.cpp gives out no such vectors of this model, "
            f"which has {num_layers} layers; use the draft that was made for this model, or remove draft",
            param="draft",
        )


def load_draft(
    library: Library, load: Load, draft: DraftLoad, target: LlamaModel, backend: LlamaBackend, threads: int
) -> LlamaDraft | LlamaHeads:
    """Loads the draft model. Raises `LoadFailed`, naming what is incompatible, and `DeviceUnavailable`."""
    if not backend.cells.max_rollback:
        raise LoadFailed(
            f"a {backend.cells.memory_kind} memory of this architecture cannot roll back rejected tokens; remove draft",
            param="draft",
        )
    placement, head = draft.placement, draft.info.draft_head
    if head is not None:
        _check_tokens(draft, backend.vocab.size)
    # What a draft uses of its target may be on any of the target's devices.
    shared = () if head is None or (head.has_output and head.reads is None) else load.placement.devices
    model = LlamaModel(
        library,
        Path(draft.path),
        gpu_layers=placement.gpu_layers,
        devices=tuple(dict.fromkeys((*placement.devices, *shared))),
        must_offload=placement.must_offload,
    )
    made: LlamaBackend | None = None
    try:
        if difference := vocab_difference(library.api, target.vocab, model.vocab):
            raise LoadFailed(
                f"{draft.id} cannot draft for this model, since their vocabularies differ: {difference}; remove "
                "draft, or use a smaller model of the same family",
                param="draft",
            )
        if head is not None:
            return _head(library, draft, head, model, backend, threads)
        made = open_backend(
            library,
            model,
            KvMemory(placement.ctx, placement.slots),
            Batching(BATCH_TOKENS, max_outputs=max(MOST_OUTPUTS, placement.slots)),
            threads=threads,
            attention=Attention(placement.flash_attn),
        )
        if not made.cells.can_rewind:
            raise LoadFailed(
                f"{draft.id} has a {made.cells.memory_kind} memory, which cannot roll back rejected tokens (draft)",
                param="draft",
            )
    except BaseException:
        if made is not None:
            made.free()
        model.close()
        raise
    return LlamaDraft(model, made)


def _head(
    library: Library, draft: DraftLoad, head: DraftHead, model: LlamaModel, backend: LlamaBackend, threads: int
) -> LlamaHeads:
    if backend.vectors is None:
        raise LoadFailed(
            f"{draft.id} guesses from hidden states ({head.kind}), and this llama.cpp has no functions for that; build "
            "one that has them with `localllm runtime build cpu`, or remove draft",
            param="draft",
        )
    return maker_of(head)(
        library,
        model,
        backend,
        ctx=draft.placement.ctx,
        threads=threads,
        batch_tokens=HEAD_TOKENS,
        flash_attn=draft.placement.flash_attn,
    )


def _check_tokens(draft: DraftLoad, vocabulary_size: int) -> None:
    """llama.cpp would write outside of its memory. Raises `LoadFailed`."""
    wrong = next((token for token in target_tokens(Path(draft.path)) if not 0 <= token < vocabulary_size), None)
    if wrong is not None:
        raise LoadFailed(
            f"{draft.id} guesses token {wrong:,}, and this model has {vocabulary_size:,}; use the draft that was "
            "made for this model, or remove draft",
            param="draft",
        )
