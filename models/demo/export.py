"""Writes a trained network or adapter as GGUF, in F16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tokenizer as bpe
import tokenizers
import torch
from gguf import GGUFEndian, GGUFWriter, LlamaFileType
from network import Network
from numpy.typing import NDArray
from torch import Tensor

AUTHOR = "the localllm project"
LICENSE = "MIT"
SAMPLING = {"temp": 0.3, "top_k": 20}
"""Recommended sampling parameters, stored as `general.sampling.*`."""


def write_model(path: Path, network: Network, words: tokenizers.Tokenizer, template: str, name: str) -> None:
    """Write an F16 file (norms in F32) with tokenizer, chat template and recommended sampling."""
    shape = network.shape
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian.LITTLE)
    writer.add_name(name)
    writer.add_author(AUTHOR)
    writer.add_license(LICENSE)
    writer.add_size_label(f"{sum(p.numel() for p in network.parameters()) / 1e6:.1f}M")
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    writer.add_context_length(shape.context)
    writer.add_block_count(shape.layers)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_vocab_size(shape.vocab)
    writer.add_float32("general.sampling.temp", SAMPLING["temp"])
    writer.add_int32("general.sampling.top_k", int(SAMPLING["top_k"]))
    bpe.write(words, writer)
    writer.add_chat_template(template)
    for key, parameter in network.state_dict().items():
        writer.add_tensor(tensor_name(key), _array(parameter))
    _finish(writer)


def tensor_name(key: str) -> str:
    """`blk.0.attention.attn_q.weight` becomes `blk.0.attn_q.weight`."""
    return key.replace(".attention.", ".").replace(".feed_forward.", ".")


def write_adapter(path: Path, pairs: dict[str, tuple[Tensor, Tensor]], alpha: float, name: str) -> None:
    """Write a LoRA adapter in F16: per matrix A [rank, in] and B [out, rank] (llama.cpp, llama-adapter.cpp)."""
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian.LITTLE)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    writer.add_name(name)
    writer.add_author(AUTHOR)
    writer.add_license(LICENSE)
    for key, (a, b) in pairs.items():
        writer.add_tensor(f"{tensor_name(key)}.lora_a", _array(a))
        writer.add_tensor(f"{tensor_name(key)}.lora_b", _array(b))
    _finish(writer)


def _array(parameter: Tensor) -> NDArray[np.float16] | NDArray[np.float32]:
    values = parameter.detach().to("cpu", torch.float32).contiguous().numpy()
    return values.astype(np.float16) if values.ndim == 2 else values


def _finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
