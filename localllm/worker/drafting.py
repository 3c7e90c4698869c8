"""Loads the draft model in the worker beside its target, if both have the same vocabulary.

Knows nothing of when it drafts.
"""

from __future__ import annotations

from pathlib import Path

from localllm.errors import LoadFailed
from localllm.llama.context import LlamaBackend
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.vocab_difference import vocab_difference
from localllm.worker.messages import DraftLoad

BATCH_TOKENS = 512
MOST_OUTPUTS = 32
"""Rows of logits for all streams together, or for tokens that the draft is checked against."""


def load_draft(
    library: Library, draft: DraftLoad, target: LlamaModel, backend: LlamaBackend, threads: int
) -> LlamaBackend:
    """Loads the draft model. Raises `LoadFailed`, naming what is incompatible, and `DeviceUnavailable`."""
    if not backend.max_rollback:
        raise LoadFailed(
            f"a {backend.memory_kind} memory of this architecture cannot roll back rejected tokens; remove draft",
            param="draft",
        )
    placement = draft.placement
    model = LlamaModel(
        library,
        Path(draft.path),
        gpu_layers=placement.gpu_layers,
        devices=placement.devices,
        must_offload=placement.must_offload,
    )
    made = None
    try:
        if difference := vocab_difference(library.api, target.vocab, model.vocab):
            raise LoadFailed(
                f"{draft.id} cannot draft for this model, since their vocabularies differ: {difference}; remove "
                "draft, or use a smaller model of the same family",
                param="draft",
            )
        made = LlamaBackend(
            library,
            model,
            ctx=placement.ctx,
            slots=placement.slots,
            threads=threads,
            batch_tokens=BATCH_TOKENS,
            max_outputs=max(MOST_OUTPUTS, placement.slots),
            flash_attn=placement.flash_attn,
            is_offloaded=placement.gpu_layers > 0,
        )
        if not made.can_rewind:
            raise LoadFailed(
                f"{draft.id} has a {made.memory_kind} memory, which cannot roll back rejected tokens (draft)",
                param="draft",
            )
    except BaseException:
        if made is not None:
            made.free()
        model.close()
        raise
    return made
