"""The door to this room: draft models, drafts that guess from hidden states, and what of these their target keeps.

Knows nothing of when anything guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from localllm.llama.drafts.assistant import LlamaAssistant
from localllm.llama.drafts.dflash import LlamaBlocks
from localllm.llama.drafts.draft_model import LlamaDraft
from localllm.llama.drafts.eagle import LlamaEagle
from localllm.llama.drafts.next_symbols import find as next_functions
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.drafts.target_vectors import KeptVectors
from localllm.types import DraftHead

__all__ = ["KeptVectors", "LlamaDraft", "LlamaHeads", "maker_of", "next_functions"]


def maker_of(head: DraftHead) -> Callable[..., LlamaHeads]:
    """The class of such drafts."""
    if head.reads is not None:
        return LlamaAssistant
    return LlamaEagle if head.block is None else partial(LlamaBlocks, block=head.block)
