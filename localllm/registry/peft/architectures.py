"""How the matrices of a model on Hugging Face are named and ordered in its GGUF file, by architecture.

llama.cpp's conversion reorders rows of some matrices; the rows of an adapter's B follow. Facts from its `conversion/`;
architectures whose conversion changes matrices in other ways are refused. Knows nothing of files of adapters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from localllm.gguf.header import Header

PERMUTED = frozenset(
    "llama llama-embed mistral3 smollm3 arcee granite granitemoe granitehybrid minicpm olmo arctic deci deepseek "
    "llada".split()
)
"""Rows of each head of Q and K are interleaved: halves that RoPE rotates become neighbors (`LlamaModel.permute`)."""
UNCHANGED = frozenset(
    "afmoe apertus chatglm cohere2 command-r dots1 dream ernie4_5 exaone exaone-moe exaone4 gemma gemma2 gemma3 "
    "gemma3n gemma4 glm4moe gpt-oss hunyuan-dense hunyuan-moe lfm2 lfm2moe llada-moe llama4 maincoder mimo2 minimax-m2 "
    "nemotron olmo2 olmoe orion pangu-embedded phi2 phi3 phimoe plamo3 plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 "
    "qwen35moe qwen3moe qwen3next qwen3vl qwen3vlmoe seed_oss smallthinker stablelm starcoder starcoder2".split()
)
"""Matrices keep their rows and columns."""
_REORDERED: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("qwen3next", "qwen35", "qwen35moe"), (".attn_qkv.", ".attn_gate.", ".ssm_")
) | {"ernie4_5": (".attn_qkv.",), "granitehybrid": (".ssm_",), "gemma3n": ("altup",)}
"""Parts of names of matrices that are reordered all the same, by architecture."""
_PARTS = ("model.language_model.", "language_model.model.", "language_model.", "text_model.")
"""Beginnings of names in models that also see or hear."""
_EXPERT = re.compile(r"(.*\.experts)\.(\d{1,4})\.([^.]+)", re.ASCII)


def is_known(architecture: str) -> bool:
    return architecture in PERMUTED or architecture in UNCHANGED


def is_reordered(architecture: str, name: str) -> bool:
    """Whether the matrix of that name in the GGUF file is reordered in a way that is not implemented here."""
    return any(part in name for part in _REORDERED.get(architecture, ()))


def split_expert(module: str) -> tuple[str, int | None]:
    """The name of all experts' matrix, and which of them this is; None: it is no expert's."""
    found = _EXPERT.fullmatch(module)
    return (module, None) if found is None else (f"{found[1]}.{found[3]}", int(found[2]))


def finder(architecture: str, num_layers: int) -> Callable[[str], str | None]:
    """A function from a module's name in PyTorch to its matrix's in GGUF; None: unknown."""
    import gguf  # takes a tenth of a second

    known = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(known[architecture], num_layers) if architecture in known else None

    def find(module: str) -> str | None:
        for each in _spellings(module):
            if names is not None and (found := names.get_name(each)) is not None:
                return f"{found}.weight"
        return None

    return find


def _spellings(module: str) -> Iterator[str]:
    yield module
    for part in _PARTS:
        if part in module:
            yield module.replace(part, "model." if part.startswith("model.") or part.endswith("model.") else "", 1)
    if "block_sparse_moe.experts." in module:  # Mixtral's merged experts are listed under an older name
        yield module.replace("model.layers", "layers").replace("block_sparse_moe", "feed_forward")


def row_order(architecture: str, name: str, header: Header, num_rows: int) -> npt.NDArray[np.intp] | None:
    """Which row of the matrix in PyTorch each row in GGUF is; None: they are the same."""
    layer = re.fullmatch(r"blk\.(\d+)\.attn_([qk])\.weight", name)
    if architecture not in PERMUTED or layer is None:
        return None
    key = f"{architecture}.attention.head_count" + ("_kv" if layer[2] == "k" else "")
    heads = _per_layer(header, key, int(layer[1])) or _per_layer(
        header, f"{architecture}.attention.head_count", int(layer[1])
    )
    if not heads or num_rows % (2 * heads):
        raise ValueError(f"{name} has {num_rows} rows, which {heads} heads do not share")
    return np.arange(num_rows).reshape(heads, 2, num_rows // heads // 2).swapaxes(1, 2).reshape(num_rows)


def _per_layer(header: Header, key: str, layer: int) -> int:
    entry = header.metadata.get(key)
    value = None if entry is None else entry.value
    if isinstance(value, list | tuple):
        value = value[layer] if layer < len(value) else None
    return value if isinstance(value, int) else 0
