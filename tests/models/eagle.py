"""Tiny EAGLE-3 drafts for `write_llama` and its relatives: the keys and tensors that src/models/eagle3.cpp asks for.

A draft of the same seed as its target has the same embeddings and output head, which it may also leave out.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGMLQuantizationType

from tests.models.builder import Builder
from tests.models.families import N_CTX, N_EMBD, N_FF
from tests.models.tokenizers import Tokenizer, bpe

N_HEAD, HEAD = 4, 16
Has = Literal["embeddings", "output"]
SHARP = 3.0
"""Of a good draft: a row attends to its own token then."""


def write_eagle(
    path: Path,
    *,
    layers: Sequence[int] = (0, 1, 1),
    is_good: bool = False,
    has: Sequence[Has] = ("embeddings", "output"),
    tokens: Sequence[int] | None = None,
    target_width: int = N_EMBD,
    n_embd: int = N_EMBD,
    n_head: int = N_HEAD,
    n_ff: int = N_FF,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
    output_scale: float = 4.0,
    norm_before_residual: bool | None = None,
    norm_before_fc: bool = False,
    seed: int = 0,
    ctx: int = N_CTX,
    tokenizer: Tokenizer | None = None,
    leave_out: str = "",
    extra: dict[str, Any] | None = None,
) -> Path:
    """`layers`: the target's, whose inputs it is given. `is_good`: guesses what a target says whose next token depends
    on the last one only, for the most part. `has`: what it does not take from its target. `tokens`: the ids that it
    guesses; None: all. `extra`: keys under the architecture's name; `leave_out`: a tensor.
    """
    words = tokenizer or bpe()
    matrices, norms = _matrices(is_good, n_embd, n_head, n_ff), _norms(is_good, n_embd)
    with Builder(path, "eagle3", seed=seed, dtype=dtype, given=matrices) as model:
        model.writer.add_name("tiny-eagle")
        model.writer.add_file_type(0)
        keys: dict[str, Any] = {
            "block_count": 1,
            "context_length": ctx,
            "embedding_length": n_embd,
            "feed_forward_length": n_ff,
            "attention.head_count": n_head,
            "attention.head_count_kv": n_head,
            "attention.key_length": HEAD,
            "attention.value_length": HEAD,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": HEAD,
            "rope.freq_base": 10000.0,
            "vocab_size": len(words.tokens),
            "target_layers": list(layers),
            "target_hidden_size": target_width,
            "norm_before_residual": is_good if norm_before_residual is None else norm_before_residual,
            "norm_before_fc": norm_before_fc,
        }
        model.keys(keys | (extra or {}))
        words.write(model.writer)
        for name, values in norms.items():
            if name != leave_out:
                model.array(name, values)
        for name, values in matrices.items():
            model.matrix(name, *values.shape[::-1])
        if leave_out != "fc.weight":
            model.matrix("fc.weight", len(layers) * target_width, n_embd)
        if norm_before_fc:
            model.vector("enc.output_norm.weight", len(layers) * target_width, mean=1.0)
        model.vector("output_norm.weight", n_embd, mean=1.0)
        if "embeddings" in has:
            model.matrix("token_embd.weight", n_embd, len(words.tokens), std=1.0)
        if "output" in has:
            std = output_scale / n_embd**0.5
            every = model._normal("output.weight", (n_embd, len(words.tokens))) * np.float32(std)
            model.array("output.weight", every if tokens is None else every[np.asarray(tokens) % len(every)])
        if tokens is not None:
            model.writer.add_tensor("d2t", np.asarray(tokens, np.int64))
    return path


def _norms(is_good: bool, n_embd: int) -> dict[str, np.ndarray[Any, Any]]:
    """Of the one layer. A good one lets the target's vectors change little."""
    names = ("attn_norm", "attn_norm_2", "ffn_norm")
    norms: dict[str, np.ndarray[Any, Any]] = {name: np.ones(n_embd, np.float32) for name in names}
    if is_good:
        norms["attn_norm_2"] *= 0.05
    else:
        norms = {name: values + 0.1 * _normal(name, n_embd) for name, values in norms.items()}
    return {f"blk.0.{name}.weight": values for name, values in norms.items()}


def _matrices(is_good: bool, n_embd: int, n_head: int, n_ff: int) -> dict[str, np.ndarray[Any, Any]]:
    """Of the one layer. A good one takes its token to the end."""
    inner = n_head * HEAD
    names = ("attn_q", "attn_k", "attn_v")
    if is_good:
        own = np.eye(inner, 2 * n_embd, dtype=np.float32)
        found = {name: own if name == "attn_v" else SHARP * own for name in names}
        found["attn_output"] = np.eye(n_embd, inner, dtype=np.float32)
    else:
        found = {name: _normal(name, 2 * n_embd, inner) for name in names}
        found["attn_output"] = _normal("attn_output", inner, n_embd)
    found |= {name: _normal(name, n_embd, n_ff) for name in ("ffn_gate", "ffn_up")}
    found["ffn_down"] = _normal("ffn_down", n_ff, n_embd) * np.float32(0.01 if is_good else 1.0)
    return {f"blk.0.{name}.weight": values for name, values in found.items()}


def _normal(name: str, *shape: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng([7, zlib.crc32(name.encode())])
    return generator.standard_normal(shape[::-1], dtype=np.float32) / np.float32(shape[0] ** 0.5)
