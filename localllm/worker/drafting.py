"""Loads the draft model in the worker beside its target, if both have the same vocabulary.

Knows nothing of when it drafts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localllm.errors import LoadFailed
from localllm.gguf.draft_heads import GIVES_LAST, target_tokens
from localllm.llama.context import LlamaBackend
from localllm.llama.eagle import LlamaEagle
from localllm.llama.headed import HeadedBackend
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.next_symbols import find
from localllm.llama.vocab_difference import vocab_difference
from localllm.worker.messages import DraftLoad, Load

BATCH_TOKENS = 512
MOST_OUTPUTS = 32
"""Rows of logits for all streams together, or for tokens that the draft is checked against."""
EAGLE_TOKENS = 64
"""Of a batch of an EAGLE-3 draft, whose graph computes the logits of all of them."""


class LlamaDraft(LlamaBackend):
    """The backend of a draft model, which it owns."""

    def __init__(self, library: Library, model: LlamaModel, **how: Any) -> None:
        """`how`: as for a `LlamaBackend`. Raises `LoadFailed`."""
        super().__init__(library, model, **how)
        self._model = model

    def free(self) -> None:
        """Release the KV cache and the model."""
        super().free()
        self._model.close()


def check_layers(library: Library, draft: DraftLoad, target: LlamaModel, architecture: str) -> None:
    """Raises `LoadFailed` if the draft needs vectors of a layer that llama.cpp would end the process for."""
    if draft.info.draft_head is None:
        return
    num_layers = int(library.api.llama_model_n_layer(target.handle))
    last = max(draft.info.draft_head.layers)
    if last > num_layers or (last == num_layers and architecture not in GIVES_LAST):
        raise LoadFailed(
            f"{draft.id} guesses from what enters layer {last}, and llama.cpp gives out no such vectors of this model, "
            f"which has {num_layers} layers; use the EAGLE-3 draft that was made for this model, or remove draft",
            param="draft",
        )


def load_draft(
    library: Library, load: Load, draft: DraftLoad, target: LlamaModel, backend: LlamaBackend, threads: int
) -> LlamaBackend | LlamaEagle:
    """Loads the draft model. Raises `LoadFailed`, naming what is incompatible, and `DeviceUnavailable`."""
    if not backend.max_rollback:
        raise LoadFailed(
            f"a {backend.memory_kind} memory of this architecture cannot roll back rejected tokens; remove draft",
            param="draft",
        )
    placement, eagle = draft.placement, draft.info.draft_head
    if eagle is not None:
        _check_tokens(draft, backend.vocab.size)
    # What a draft uses of its target may be on any of the target's devices.
    shared = () if eagle is None or eagle.has_output else load.placement.devices
    model = LlamaModel(
        library,
        Path(draft.path),
        gpu_layers=placement.gpu_layers,
        devices=tuple(dict.fromkeys((*placement.devices, *shared))),
        must_offload=placement.must_offload,
    )
    made: LlamaDraft | None = None
    try:
        if difference := vocab_difference(library.api, target.vocab, model.vocab):
            raise LoadFailed(
                f"{draft.id} cannot draft for this model, since their vocabularies differ: {difference}; remove "
                "draft, or use a smaller model of the same family",
                param="draft",
            )
        if eagle is not None:
            return _eagle(library, draft, model, backend, threads)
        made = LlamaDraft(
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


def _eagle(library: Library, draft: DraftLoad, model: LlamaModel, backend: LlamaBackend, threads: int) -> LlamaEagle:
    functions = find(library.api)
    if functions is None or not isinstance(backend, HeadedBackend):
        raise LoadFailed(
            f"{draft.id} is an EAGLE-3 draft, and this llama.cpp has no functions for it; build one that has them with "
            "`localllm runtime build cpu`, or remove draft",
            param="draft",
        )
    return LlamaEagle(
        library,
        model,
        backend,
        functions,
        ctx=draft.placement.ctx,
        threads=threads,
        batch_tokens=EAGLE_TOKENS,
        flash_attn=draft.placement.flash_attn,
    )


def _check_tokens(draft: DraftLoad, vocabulary_size: int) -> None:
    """llama.cpp would write outside of its memory. Raises `LoadFailed`."""
    wrong = next((token for token in target_tokens(Path(draft.path)) if not 0 <= token < vocabulary_size), None)
    if wrong is not None:
        raise LoadFailed(
            f"{draft.id} guesses token {wrong:,}, and this model has {vocabulary_size:,}; use the EAGLE-3 draft that "
            "was made for this model, or remove draft",
            param="draft",
        )
