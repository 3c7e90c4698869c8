"""Creates the context of a model's own NextN layers beside its backend, or says why not; which vectors of the model
these or a draft of hidden states need. Knows nothing of when they guess."""

from __future__ import annotations

from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.gguf.rules.draft_heads import FORMS
from localllm.llama.backend import LlamaBackend
from localllm.llama.context import Batching
from localllm.llama.drafts.making import KeptVectors, LlamaHeads, next_functions
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.worker.messages import Load

BATCH_TOKENS = 256
OUTPUTS = 32
"""Rows of logits of a batch, or one per slot."""


class NextnOutcome(NamedTuple):
    """Heads, or why there are none."""

    heads: LlamaHeads | None
    reason: str = ""


def kept_for(library: Library, load: Load) -> KeptVectors | None:
    """None if no guess needs the model's vectors, or this library does not give them out."""
    functions = next_functions(library.api)
    if functions is None:
        return None
    if load.draft is None:
        return KeptVectors(functions) if load.placement.heads_ctx else None
    head = load.draft.info.draft_head
    if head is None or (head.layers and not functions.reads_layers):
        return None
    return KeptVectors(functions, head.layers)


def load_heads(
    library: Library, model: LlamaModel, load: Load, backend: LlamaBackend | None, threads: int
) -> NextnOutcome:
    """Never raises `LoadFailed`: a model whose heads fail answers without them."""
    if load.info.heads is None or backend is None:
        return NextnOutcome(None)
    if load.placement.no_heads or load.draft is not None:
        return NextnOutcome(None, load.placement.no_heads or "a draft model guesses instead")
    if backend.vectors is None:
        return NextnOutcome(
            None, "this llama.cpp has no functions for them; `localllm runtime build cpu` builds one that has"
        )
    if not backend.cells.max_rollback:
        return NextnOutcome(None, f"a {backend.cells.memory_kind} memory cannot roll back wrong guesses here")
    try:
        heads = LlamaHeads(
            library,
            model,
            backend,
            Batching(BATCH_TOKENS, max_outputs=OUTPUTS),
            ctx=load.placement.heads_ctx,
            threads=threads,
            is_cropped=FORMS[load.info.architecture].is_cropped,
            flash_attn="on" if backend.context.flash_attn else "off",
        )
    except LoadFailed as error:
        return NextnOutcome(None, error.message)
    return NextnOutcome(heads)
