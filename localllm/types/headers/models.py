"""What the header of a model's file says of it. A part of `types`; frozen data.

Knows nothing of how headers are read, or of what llama.cpp makes of them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types.headers.drafts import DraftHead, SharedKeys
from localllm.types.headers.products import Products

Pooling = Literal["none", "mean", "cls", "last", "rank"]
"""How the vectors of tokens become the vector of a text: not at all (one per token), their mean, the first one, the
last one, or a score from the model's ranking head."""


class LayerMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many numbers one layer stores in the memory of a context."""

    keys: int = 0
    """Per token."""
    values: int = 0
    state: int = 0
    """Per slot, F32: the state of a recurrent layer, which has no keys and values."""
    is_windowed: bool = False
    """Whether it stores only a sliding window of tokens."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its GGUF header describes it. Counts are of elements, sizes are bytes."""

    architecture: str
    name: str | None
    num_parameters: int
    size_bytes: int
    """Tensor data in all shards."""
    quantization: dict[str, int]
    """ggml type name -> bytes of tensor data of that type, largest first."""
    file_type: str | None
    """The label of `general.file_type`, e.g. `Q4_K_M`."""
    context_length: int | None
    num_layers: int
    embedding_length: int | None
    deepstack_layers: int = 0
    """Layers that get further parts of a picture's rows."""
    feed_forward_length: int | None
    num_heads: int | None
    num_kv_heads: int | None
    vocabulary_size: int
    tokenizer: str | None
    """`tokenizer.ggml.model`, e.g. `gpt2` (BPE), `llama` (SentencePiece)."""
    chat_templates: dict[str, str]
    """Template name -> Jinja source; the unnamed one is `default`."""
    chat_template_source: str = ""
    """Source of `default`: the `file`, the `manifest`, the `architecture` (if the file has none), or an `option`."""
    purpose: Literal["chat", "base", ""] = ""
    """What its names say that it is: a chat model, a base model; empty: nothing."""
    sampling: dict[str, float]
    """The model's own `general.sampling.*` numbers: temperature, top_k, top_p, min_p."""
    layer_bytes: tuple[int, ...]
    """Tensor bytes per block, `num_layers` long."""
    other_bytes: int
    """Tensor bytes outside the blocks: embeddings, output head, norms."""
    tensors: dict[str, int] = {}
    """Name -> bytes; empty if planning does not need it."""
    split_count: int
    """Number of files; 1 when not split."""
    causal: bool = True
    """False for encoders such as BERT."""
    pooling: Pooling | None = None
    """The pooling that the model states, if any."""
    has_ranking_head: bool = False
    """Whether it can score a text, as pooling `rank` requires."""
    layer_memory: tuple[LayerMemory, ...] = ()
    """Memory of each block."""
    heads: LayerMemory | None = None
    """Memory of the first NextN layer (multi-token prediction); None: the file has no such layer."""
    no_heads: str = ""
    """Why the NextN layers cannot be used; empty: they can."""
    draft_head: DraftHead | None = None
    """What it takes from its target, if it guesses from hidden states."""
    shared_keys: SharedKeys | None = None
    """What an assistant of it would read, if there is any for its architecture."""
    sliding_window: int = 0
    """Window size of windowed layers in tokens; 0: no such layers."""
    experts_used: int = 0
    """Experts used per token in a mixture of experts; 0: not a mixture."""
    more_bytes_per_row: int = 0
    """Of a buffer for computing, beyond what formulas say, for each token computed at once (`planning.dry_loads`)."""
    expert_feed_forward_length: int | None = None
    """For one expert, if the header gives it separately."""
    fills_in_middle: bool = False
    """Whether it has tokens for filling in the middle of a text."""
    products: Products = Products()
    """The matrices that each token is multiplied with."""

    @property
    def input_length(self) -> int | None:
        """Numbers in one row of a picture or sound."""
        return None if self.embedding_length is None else self.embedding_length * (1 + self.deepstack_layers)

    def __repr__(self) -> str:
        return f"<ModelInfo {self.name!r}, {self.architecture}, {self.num_parameters:,} parameters, {self.file_type}>"
