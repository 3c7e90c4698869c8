"""What headers say of guesses: the door to the rules of drafts and of a model's own NextN layers.

Which drafts guess from their target's hidden states is said by the architecture of their files.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.gguf.header import TensorInfo
from localllm.gguf.rules.assistants import TARGET, assistant
from localllm.gguf.rules.dflash import dflash
from localllm.gguf.rules.eagle import eagle
from localllm.gguf.rules.nextn import FORMS
from localllm.gguf.rules.target_states import GIVES_LAST, GIVES_STATES, DraftKeys, target_tokens
from localllm.types import DraftHead

__all__ = ["FORMS", "GIVES_LAST", "GIVES_STATES", "TARGET", "draft_head", "target_tokens"]

_READERS = {"dflash": dflash, "eagle3": eagle, "gemma4-assistant": assistant}


def draft_head(
    keys: DraftKeys, tensors: Sequence[TensorInfo], *, num_layers: int, vocabulary_size: int
) -> DraftHead | None:
    """None if the file is another kind of model. Raises `InvalidModelFile`."""
    read = _READERS.get(keys.architecture)
    if read is None:
        return None
    return read(
        keys, {tensor.name: tensor for tensor in tensors}, num_layers=num_layers, vocabulary_size=vocabulary_size
    )
