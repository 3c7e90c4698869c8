"""Finds a model's matrices in its tensor table, by their names and dimensions. Knows nothing of speeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from localllm.gguf.header import TensorInfo
from localllm.types.headers.products import Matrices, Products

LOOKED_UP_BY_TOKEN = ("token_embd.", "position_embd.", "token_types.", "per_layer_token_embd.")
"""Lookup tables, of which only one row per token is read: LLM_TENSOR_LAYER_INPUT in src/llama-arch.cpp."""
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""What follows `blk.N` in the names of experts' tensors: LLM_FFN_EXPS_REGEX in common/common.h."""
_LOOKED_UP = (*LOOKED_UP_BY_TOKEN, "rope_")
_HEADS = ("output.weight", "token_embd.weight")
"""Names of the output head; without the first, the embedding serves as the head."""


def products(tensors: Sequence[TensorInfo]) -> Products:
    """The matrix products of a model, from the tensors of all its shards."""
    head = next((name for name in _HEADS if any(tensor.name == name for tensor in tensors)), "")
    groups: Counter[Matrices] = Counter()
    num_vectors = vector_numbers = 0
    for tensor in tensors:
        if tensor.name != head and tensor.name.startswith(_LOOKED_UP):
            continue
        if len(tensor.dims) == 1 or not tensor.name.endswith(".weight"):
            num_vectors += 1
            vector_numbers += tensor.num_elements
            continue
        experts = tensor.dims[2] if len(tensor.dims) == 3 else 0
        groups[
            Matrices(
                type=tensor.type,
                inputs=tensor.dims[0],
                outputs=tensor.dims[1],
                count=0,
                bytes=tensor.n_bytes // (experts or 1),
                experts=experts,
                is_head=tensor.name == head,
            )
        ] += 1
    return Products(
        matrices=tuple(msgspec.structs.replace(each, count=number) for each, number in groups.items()),
        num_vectors=num_vectors,
        vector_numbers=vector_numbers,
    )
