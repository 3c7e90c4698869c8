"""Models of real sizes without their numbers: a whole header, and a file of holes that takes no disk.

For what depends on shapes only, such as what llama.cpp allocates. Knows nothing of what is computed with them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from gguf.quants import quant_shape_to_byte_shape

from tests.models.tokenizers import bpe, wordpiece


class Shape(NamedTuple):
    """As headers say it."""

    architecture: str
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    layers: int = 2
    ctx: int = 131_072
    window: int = 0
    experts: int = 0
    experts_used: int = 0
    tied: bool = False


SHAPES = {
    "Llama 3.2 1B": Shape("llama", 2048, 8192, 32, 8, 64, 128_256, tied=True),
    "Llama 3.1 8B": Shape("llama", 4096, 14_336, 32, 8, 128, 128_256),
    "Qwen3 0.6B": Shape("qwen3", 1024, 3072, 16, 8, 128, 151_936, tied=True),
    "Gemma 3 1B": Shape("gemma3", 1152, 6912, 4, 1, 256, 262_144, layers=6, window=512, tied=True),
    "Qwen3 30B-A3B": Shape("qwen3moe", 2048, 768, 32, 4, 128, 151_936, experts=128, experts_used=8),
    "TinyLlama": Shape("llama", 2048, 5632, 32, 4, 64, 32_000),
}
"""The widths of known models, and few of their layers: buffers for computing do not grow with the layers."""


ENCODERS = {
    "BERT base": Shape("bert", 768, 3072, 12, 12, 64, 30_522, ctx=512),
    "MiniLM": Shape("bert", 384, 1536, 12, 12, 32, 30_522, ctx=512),
    "XLM-R large, long": Shape("bert", 1024, 4096, 16, 16, 64, 100_000, ctx=8192),
}
KindOf = Callable[[str], GGMLQuantizationType]
"""The type of a matrix by its name."""


def write_hollow(
    path: Path,
    shape: Shape,
    kind: GGMLQuantizationType | KindOf = GGMLQuantizationType.F16,
    *,
    chat_template: str = "",
) -> Path:
    """A file with the tensors of such a model in that type, norms in F32; every number is 0."""
    kind_of = (lambda _: kind) if isinstance(kind, GGMLQuantizationType) else kind
    writer = GGUFWriter(path, shape.architecture)
    writer.add_name(path.stem)
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    for key, value in _keys(shape).items():
        if isinstance(value, bool):
            writer.add_bool(f"{shape.architecture}.{key}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{shape.architecture}.{key}", value)
        else:
            writer.add_uint32(f"{shape.architecture}.{key}", value)
    (wordpiece if shape.architecture == "bert" else bpe)(shape.vocabulary).write(writer)
    if shape.architecture == "bert":
        writer.add_token_type_count(2)
    if chat_template:
        writer.add_chat_template(chat_template)
    for name, dims in _tensors(shape):
        stored = (
            GGMLQuantizationType.F32
            if len(dims) == 1 or "_types" in name or "position" in name or "gate_inp" in name
            else kind_of(name)
        )
        rows = dims[::-1]
        size = int(np.prod(quant_shape_to_byte_shape(rows, stored), dtype=np.int64))
        # NumPy's type says nothing of a quantized tensor: the writer wants the shape in bytes then.
        stored_shape = rows if stored.name in ("F16", "F32") else quant_shape_to_byte_shape(rows, stored)
        dtype = {"F16": np.float16, "F32": np.float32}.get(stored.name, np.uint8)
        writer.add_tensor_info(name, stored_shape, np.dtype(dtype), size, stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    from localllm.gguf.header import DEFAULT_ALIGNMENT

    sizes = [info.nbytes for infos in writer.tensors for info in infos.values()]
    data = sum(-(-size // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT for size in sizes)
    start = -(-path.stat().st_size // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT
    with open(path, "r+b") as file:
        file.truncate(start + data)
    return path


def _keys(shape: Shape) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "block_count": shape.layers,
        "context_length": shape.ctx,
        "embedding_length": shape.width,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": shape.head_size,
        "vocab_size": shape.vocabulary,
    }
    if shape.architecture == "bert":
        keys |= {"attention.causal": False, "attention.layer_norm_epsilon": 1e-12, "pooling_type": 1}
    if shape.window:
        keys["attention.sliding_window"] = shape.window
    if shape.experts:
        keys |= {"expert_count": shape.experts, "expert_used_count": shape.experts_used}
        keys["expert_feed_forward_length"] = shape.feed_forward
    return keys


def _tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Name and ggml's dimensions, the row length first."""
    if shape.architecture == "bert":
        return _encoder_tensors(shape)
    width, query, kv = shape.width, shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    found: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (width, shape.vocabulary)),
        ("output_norm.weight", (width,)),
    ]
    if not shape.tied:
        found.append(("output.weight", (width, shape.vocabulary)))
    experts = (shape.experts,) if shape.experts else ()
    suffix = "_exps" if experts else ""
    for block in range(shape.layers):
        layer: list[tuple[str, tuple[int, ...]]] = [
            ("attn_norm", (width,)),
            ("attn_q", (width, query)),
            ("attn_k", (width, kv)),
            ("attn_v", (width, kv)),
            ("attn_output", (query, width)),
            ("ffn_norm", (width,)),
            (f"ffn_gate{suffix}", (width, shape.feed_forward, *experts)),
            (f"ffn_up{suffix}", (width, shape.feed_forward, *experts)),
            (f"ffn_down{suffix}", (shape.feed_forward, width, *experts)),
        ]
        if experts:
            layer.append(("ffn_gate_inp", (width, shape.experts)))
        if shape.architecture != "llama":
            layer += [("attn_q_norm", (shape.head_size,)), ("attn_k_norm", (shape.head_size,))]
        if shape.architecture == "gemma3":
            layer += [("post_attention_norm", (width,)), ("post_ffw_norm", (width,))]
        found += [(f"blk.{block}.{name}.weight", dims) for name, dims in layer]
    return found


def _encoder_tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    width, inner = shape.width, shape.feed_forward
    found: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (width, shape.vocabulary)),
        ("position_embd.weight", (width, shape.ctx)),
        ("token_types.weight", (width, 2)),
        ("token_embd_norm.weight", (width,)),
        ("token_embd_norm.bias", (width,)),
    ]
    for block in range(shape.layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            found += [(f"blk.{block}.{name}.weight", (width, width)), (f"blk.{block}.{name}.bias", (width,))]
        for name, dims in (("ffn_up", (width, inner)), ("ffn_down", (inner, width))):
            found += [(f"blk.{block}.{name}.weight", dims), (f"blk.{block}.{name}.bias", dims[1:])]
        for name in ("attn_output_norm", "layer_output_norm"):
            found += [(f"blk.{block}.{name}.weight", (width,)), (f"blk.{block}.{name}.bias", (width,))]
    return found
