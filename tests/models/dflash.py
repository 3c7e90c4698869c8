"""Tiny DFlash drafts for `write_llama` and its relatives: the keys and tensors that src/models/dflash.cpp asks for.

A draft of the same seed as its target has the same embeddings and output head, which it may also leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGMLQuantizationType

from tests.models.builder import Builder
from tests.models.families import N_CTX, N_EMBD, N_FF
from tests.models.tokenizers import Tokenizer, bpe

N_HEAD, HEAD = 4, 16
KERNEL, GROUP, RANK, TOP_K = 3, 16, 8, 7
"""Of a DFlash2 draft."""
MASK = 2
Form = Literal["plain", "dspark", "dflash2"]
Has = Literal["embeddings", "output"]


def write_dflash(
    path: Path,
    *,
    form: Form = "plain",
    layers: Sequence[int] = (1, 2, 3),
    is_good: bool = False,
    has: Sequence[Has] = ("embeddings", "output"),
    tokens: Sequence[int] | None = None,
    n_layer: int = 2,
    n_embd: int = N_EMBD,
    n_head: int = N_HEAD,
    n_ff: int = N_FF,
    block: int = 8,
    window: int = 0,
    sections: Sequence[int] | None = None,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
    output_scale: float = 4.0,
    seed: int = 0,
    ctx: int = N_CTX,
    tokenizer: Tokenizer | None = None,
    leave_out: Sequence[str] = (),
    extra: dict[str, Any] | None = None,
) -> Path:
    """`layers`: the target's, whose inputs it is given. `is_good`: guesses what a target says whose next token depends
    on the last one only; one token of a block, or all with `dspark`. `has`: what it does not take from its target.
    `tokens`: the ids that it guesses; None: all. `sections`: as drafts of M-RoPE targets have. `extra`: keys under the
    architecture's name; `leave_out`: keys and tensors.
    """
    words = tokenizer or bpe()
    size = len(words.tokens)
    num_guessed = size if tokens is None else len(tokens)
    given = _good(n_layer, n_embd, n_head * HEAD, n_ff, len(layers)) if is_good else {}
    with Builder(path, "dflash", seed=seed, dtype=dtype, given=given) as model:
        model.writer.add_name("tiny-dflash")
        model.writer.add_file_type(0)
        keys: dict[str, Any] = {
            "block_count": n_layer,
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
            "vocab_size": size,
            "target_layers": list(layers),
            "block_size": block,
        }
        if window:
            pattern = [number % 2 == 0 for number in range(n_layer)]
            keys |= {"attention.sliding_window": window, "attention.sliding_window_pattern": pattern}
        if sections is not None:
            keys["rope.dimension_sections"] = list(sections)
        if form == "dflash2":
            keys |= {"conv_kernel_size": KERNEL, "conv_group_size": GROUP, "selector_rank": RANK}
            keys["selector_top_k"] = TOP_K
        model.keys({name: value for name, value in (keys | (extra or {})).items() if name not in leave_out})
        words.write(model.writer)
        if "mask" not in leave_out:
            model.key("tokenizer.ggml.mask_token_id", MASK)
        for number in range(n_layer):
            _layer(model, f"blk.{number}", n_embd, n_head * HEAD, n_ff, form=form, is_good=is_good)
        if "fc.weight" not in leave_out:
            model.matrix("fc.weight", len(layers) * n_embd, n_embd)
        model.vector("enc.output_norm.weight", n_embd, mean=1.0)
        model.vector("output_norm.weight", n_embd, mean=1.0)
        embeddings = model._normal("token_embd.weight", (n_embd, size))
        output = model._normal("output.weight", (n_embd, size)) * np.float32(output_scale / n_embd**0.5)
        if "embeddings" in has:
            own = embeddings.copy()
            if is_good:
                own[MASK] = 0
            model.array("token_embd.weight", own)
        if "output" in has:
            model.array("output.weight", output if tokens is None else output[np.asarray(tokens) % size])
        if form == "dspark":
            model.array("markov_w1.weight", embeddings if is_good else _small(model, "markov_w1", RANK, size))
            rank = n_embd if is_good else RANK
            scores = 5 * output if is_good else _small(model, "markov_w2", RANK, size)
            model.array("markov_w2.weight", scores[:num_guessed] if tokens is None else scores[np.asarray(tokens)])
            model.matrix("conf_proj.weight", n_embd + rank, 1)
            model.vector("conf_proj.bias", 1)
        if form == "dflash2":
            model.matrix("selector_predecessor.weight", RANK, size, std=1.0)
            model.matrix("selector_successor.weight", RANK, size, std=1.0)
            model.matrix("selector_hidden.weight", n_embd, RANK, std=0.0 if is_good else None)
        if tokens is not None:
            model.writer.add_tensor("d2t", np.asarray(tokens, np.int64))
    return path


def _small(model: Builder, name: str, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return model._normal(name, shape)


def _layer(model: Builder, block: str, n_embd: int, inner: int, n_ff: int, *, form: Form, is_good: bool) -> None:
    std = 0.0 if is_good else 0.1
    for name in ("attn_norm", "ffn_norm"):
        model.vector(f"{block}.{name}.weight", n_embd, mean=1.0, std=std)
    for name in ("attn_q_norm", "attn_k_norm"):
        model.vector(f"{block}.{name}.weight", HEAD, mean=1.0, std=std)
    for name in ("attn_q", "attn_k", "attn_v"):
        model.matrix(f"{block}.{name}.weight", n_embd, inner)
    model.matrix(f"{block}.attn_output.weight", inner, n_embd)
    model.matrix(f"{block}.ffn_gate.weight", n_embd, n_ff)
    model.matrix(f"{block}.ffn_up.weight", n_embd, n_ff)
    model.matrix(f"{block}.ffn_down.weight", n_ff, n_embd)
    if form != "dflash2":
        return
    for part in ("attn", "ffn"):
        model.matrix(f"{block}.{part}_conv_proj.weight", n_embd, 2 * KERNEL * (n_embd // GROUP), std=0.02 * std)
        base = np.zeros((2, KERNEL, n_embd), np.float32)
        base[:, 0] = 1
        if not is_good:
            base += np.float32(0.2) * model._normal(f"{block}.{part}_conv_base", (n_embd, KERNEL, 2))
        model.array(f"{block}.{part}_conv_base", base)


def _good(n_layer: int, n_embd: int, inner: int, n_ff: int, num_layers: int) -> dict[str, np.ndarray[Any, Any]]:
    """The first layer takes the last token to the masks: these are nothing, and so is what comes from the target, so
    that all attend to all alike. The others add nothing."""
    given: dict[str, np.ndarray[Any, Any]] = {"fc.weight": np.zeros((n_embd, num_layers * n_embd), np.float32)}
    for number in range(n_layer):
        value = np.eye(inner, n_embd, dtype=np.float32) * np.float32(number == 0)
        given |= {f"blk.{number}.attn_v.weight": value}
        given |= {f"blk.{number}.attn_output.weight": np.eye(n_embd, inner, dtype=np.float32)}
        given |= {f"blk.{number}.ffn_down.weight": np.zeros((n_embd, n_ff), np.float32)}
    return given
