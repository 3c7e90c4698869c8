"""Creates the context of a model's own NextN layers beside its backend, or says why not. Knows nothing of when they
guess."""

from __future__ import annotations

from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.gguf.nextn import FORMS
from localllm.llama.context import LlamaBackend
from localllm.llama.headed import HeadedBackend
from localllm.llama.heads import LlamaHeads
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.next_symbols import NextFunctions, find
from localllm.worker.messages import Load

BATCH_TOKENS = 256
OUTPUTS = 32
"""Rows of logits of a batch, or one per slot."""


class Found(NamedTuple):
    """Heads, or why there are none."""

    heads: LlamaHeads | None
    reason: str = ""


def functions_for(library: Library, load: Load) -> NextFunctions | None:
    """None if the model's heads are not to be loaded, or this library cannot compute them."""
    return find(library.api) if load.placement.heads_ctx and load.draft is None else None


def load_heads(library: Library, model: LlamaModel, load: Load, backend: LlamaBackend | None, threads: int) -> Found:
    """Never raises `LoadFailed`: a model whose heads fail answers without them."""
    if load.info.heads is None or backend is None:
        return Found(None)
    if load.placement.no_heads or load.draft is not None:
        return Found(None, load.placement.no_heads or "a draft model guesses instead")
    functions = find(library.api)
    if functions is None or not isinstance(backend, HeadedBackend):
        return Found(None, "this llama.cpp has no functions for them")
    if not backend.max_rollback:
        return Found(None, f"a {backend.memory_kind} memory cannot roll back wrong guesses here")
    try:
        heads = LlamaHeads(
            library,
            model,
            backend,
            functions,
            ctx=load.placement.heads_ctx,
            threads=threads,
            batch_tokens=BATCH_TOKENS,
            max_outputs=OUTPUTS,
            is_cropped=FORMS[load.info.architecture].is_cropped,
            flash_attn="on" if backend.flash_attn else "off",
        )
    except LoadFailed as error:
        return Found(None, error.message)
    return Found(heads)
