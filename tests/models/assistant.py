"""A tiny Gemma 4 model and the assistants that guess for it: keys and tensors of gemma4.cpp and gemma4-assistant.cpp.

Layers take turns: one that sees the last 16 tokens only, then one that sees all. An assistant has one of each kind,
which read the keys and values of the model's last two.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType

from tests.models.builder import Builder
from tests.models.families import N_EMBD, N_FF, N_HEAD, SLIDING_WINDOW, add_common, add_embeddings
from tests.models.maker import add_ffn
from tests.models.tokenizers import Tokenizer, bpe

FULL, WINDOWED = 32, 16
"""Length of a head."""
KV_HEADS = {True: 2, False: 1}
"""In layers with a window, and in others."""
WIDTH = 96
"""Length of an assistant's own vectors."""


def write_gemma4(
    path: Path,
    *,
    seed: int = 0,
    scale: float = 1.0,
    n_layer: int = 4,
    n_embd: int = N_EMBD,
    n_ff: int = N_FF,
    n_head: int = N_HEAD,
    n_shared: int = 0,
    window: int = SLIDING_WINDOW,
    windowed: Sequence[bool] | None = None,
    sizes: tuple[int, int] = (FULL, WINDOWED),
    chat_template: str | None = None,
    tokenizer: Tokenizer | None = None,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
) -> Path:
    """`scale`: of what layers add. Where it is small, the next token depends on the last one only. `n_shared`: how
    many of the last layers use the keys and values of earlier ones. `sizes`: of heads in layers that see all tokens,
    and in those with a window."""
    words, pattern = tokenizer or bpe(), windowed or [layer % 2 == 0 for layer in range(n_layer)]
    with Builder(path, "gemma4", seed=seed, dtype=dtype) as model:
        add_common(
            model, words, "tiny-gemma4", n_layer=n_layer, n_embd=n_embd, n_ff=n_ff, n_head=n_head,
            n_kv=[KV_HEADS[each] for each in pattern], chat_template=chat_template,
        )  # fmt: skip
        model.keys(_layer_keys(pattern, window, sizes) | {"embedding_length_per_layer_input": 0})
        if n_shared:
            model.keys({"attention.shared_kv_layers": n_shared})
        add_embeddings(model, len(words.tokens), n_embd)
        model.array("rope_freqs.weight", _frequencies(sizes[0]))
        for block, is_windowed in enumerate(pattern):
            size, prefix = sizes[is_windowed], f"blk.{block}"
            model.vector(f"{prefix}.attn_norm.weight", n_embd, mean=1.0)
            model.matrix(f"{prefix}.attn_q.weight", n_embd, n_head * size)
            for name in ("attn_k", "attn_v"):
                model.matrix(f"{prefix}.{name}.weight", n_embd, KV_HEADS[is_windowed] * size)
            model.matrix(f"{prefix}.attn_output.weight", n_head * size, n_embd)
            for name in ("attn_q_norm", "attn_k_norm"):
                model.vector(f"{prefix}.{name}.weight", size, mean=1.0)
            for name in ("post_attention_norm", "post_ffw_norm"):
                model.vector(f"{prefix}.{name}.weight", n_embd, mean=4 * scale, std=0.1 * scale)
            add_ffn(model, block, n_embd, n_ff)
    return path


def write_assistant(
    path: Path,
    *,
    is_good: bool = False,
    seed: int = 0,
    target_width: int = N_EMBD,
    width: int = WIDTH,
    n_ff: int = N_FF,
    n_head: int = N_HEAD,
    window: int = SLIDING_WINDOW,
    windowed: Sequence[bool] = (True, False),
    sizes: tuple[int, int] = (FULL, WINDOWED),
    tokenizer: Tokenizer | None = None,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
    leave_out: str = "",
    without: str = "",
    extra: dict[str, Any] | None = None,
) -> Path:
    """`is_good`: guesses what a target of this seed says whose next token depends on the last one only. `extra`: keys
    under the architecture's name; `without`: a key to leave out; `leave_out`: a tensor."""
    words = tokenizer or bpe()
    n_vocab, n_layer = len(words.tokens), len(windowed)
    scale = 0.01 if is_good else 1.0
    with Builder(path, "gemma4-assistant", seed=seed + 1, dtype=dtype) as model:
        add_common(
            model, words, "tiny-assistant", n_layer=n_layer, n_embd=width, n_ff=n_ff, n_head=n_head,
            n_kv=[KV_HEADS[each] for each in windowed],
        )  # fmt: skip
        keys = _layer_keys(windowed, window, sizes)
        keys |= {"nextn_predict_layers": n_layer, "embedding_length_out": target_width}
        model.keys({key: value for key, value in (keys | (extra or {})).items() if key != without})
        tensors: dict[str, np.ndarray[Any, Any]] = {
            "token_embd.weight": _normal("rows", width, n_vocab) * np.float32(4.0),
            "nextn.pre_projection.weight": _normal("pre", 2 * target_width, width) * np.float32(2.0),
            "nextn.post_projection.weight": _normal("post", width, target_width),
        }
        if is_good:
            tensors = _good(seed, target_width, width, n_vocab)
        tensors["output_norm.weight"] = np.ones(width, np.float32)
        if False in windowed:
            tensors["rope_freqs.weight"] = _frequencies(sizes[0])
        for name, values in tensors.items():
            if name == leave_out:
                continue
            if values.ndim == 1:
                model.array(name, values)
            else:
                model._add(name, values, dtype)
        for block, is_windowed in enumerate(windowed):
            size, prefix = sizes[is_windowed], f"blk.{block}"
            model.vector(f"{prefix}.attn_norm.weight", width, mean=1.0)
            model.matrix(f"{prefix}.attn_q.weight", width, n_head * size)
            model.matrix(f"{prefix}.attn_output.weight", n_head * size, width)
            model.vector(f"{prefix}.attn_q_norm.weight", size, mean=1.0)
            for name in ("post_attention_norm", "post_ffw_norm"):
                model.vector(f"{prefix}.{name}.weight", width, mean=scale, std=0.1 * scale)
            model.vector(f"{prefix}.layer_output_scale.weight", 1, mean=1.0)
            add_ffn(model, block, width, n_ff)
    return path


def _layer_keys(windowed: Sequence[bool], window: int, sizes: tuple[int, int]) -> dict[str, Any]:
    return {
        "attention.sliding_window": window,
        "attention.sliding_window_pattern": list(windowed),
        "attention.key_length": sizes[0],
        "attention.value_length": sizes[0],
        "attention.key_length_swa": sizes[1],
        "attention.value_length_swa": sizes[1],
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": sizes[0],
        "rope.dimension_count_swa": sizes[1],
    }


def _frequencies(size: int) -> np.ndarray[Any, Any]:
    """Layers that see all turn only a quarter of a head."""
    return np.where(np.arange(size // 2) < size // 8, 1.0, 1e30).astype(np.float32)


def _good(seed: int, target_width: int, width: int, n_vocab: int) -> dict[str, np.ndarray[Any, Any]]:
    """The token goes through unchanged, to what the target makes of it."""
    generator = np.random.default_rng([seed, zlib.crc32(b"output.weight")])
    rows = np.zeros((n_vocab, width), np.float32)
    rows[:, :target_width] = generator.standard_normal((n_vocab, target_width), dtype=np.float32) * np.float32(
        4.0 / target_width**0.5
    )
    return {
        "token_embd.weight": rows,
        "nextn.pre_projection.weight": np.eye(width, 2 * target_width, dtype=np.float32)
        * (np.arange(2 * target_width) < target_width).astype(np.float32),
        "nextn.post_projection.weight": np.eye(target_width, width, dtype=np.float32),
    }


def _normal(name: str, *shape: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng([11, zlib.crc32(name.encode())])
    return generator.standard_normal(shape[::-1], dtype=np.float32) / np.float32(shape[0] ** 0.5)
