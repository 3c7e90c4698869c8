"""Tiny models of every architecture whose NextN layers (multi-token prediction) localllm uses.

The keys and tensors are those that llama.cpp asks for in src/models/*.cpp. Each has two layers, then its NextN layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.builder import Builder
from tests.models.families import (
    CONV_KERNEL,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_KV,
    SLIDING_WINDOW,
    add_common,
    add_embeddings,
)
from tests.models.maker import add_ffn
from tests.models.tokenizers import bpe

N_TRUNK = 2
HEAD, STATE, STATE_HEADS = 16, 16, 4
MIXED, MIXERS = 128, 8
"""Of a Mamba-2 layer: channels, and heads."""
N_EXPERT, N_USED, N_FF_EXPERT = 4, 2, 32
LATENT, QUERIES, ROPE = 24, 12, 8
INDEX, INDEX_HEADS = 64, 2
EXPERTS = {"expert_count": N_EXPERT, "expert_used_count": N_USED, "expert_feed_forward_length": N_FF_EXPERT}
HEADS = {"attention.key_length": HEAD, "attention.value_length": HEAD}
GATED = {
    **HEADS,
    **EXPERTS,
    "expert_shared_feed_forward_length": N_FF_EXPERT,
    "rope.dimension_count": HEAD // 2,
    "full_attention_interval": N_TRUNK,
    "ssm.conv_kernel": CONV_KERNEL,
    "ssm.inner_size": STATE_HEADS * STATE,
    "ssm.state_size": STATE,
    "ssm.time_step_rank": STATE_HEADS,
    "ssm.group_count": STATE_HEADS // 2,
}
LATENT_KEYS = {
    **EXPERTS,
    "attention.key_length": LATENT + ROPE,
    "attention.value_length": LATENT,
    "attention.key_length_mla": HEAD,
    "attention.value_length_mla": HEAD,
    "attention.kv_lora_rank": LATENT,
    "attention.q_lora_rank": QUERIES,
    "rope.dimension_count": ROPE,
    "leading_dense_block_count": 1,
    "expert_shared_count": 1,
}
INDEXER = {
    "attention.indexer.head_count": INDEX_HEADS,
    "attention.indexer.key_length": INDEX,
    "attention.indexer.top_k": 64,
}
KEYS: dict[str, dict[str, Any]] = {
    "qwen35moe": GATED | {"rope.dimension_sections": [HEAD // 4, 0, 0, 0]},
    "glm4moe": {
        **HEADS,
        **EXPERTS,
        "expert_shared_count": 1,
        "leading_dense_block_count": 1,
        "rope.dimension_count": HEAD // 2,
    },
    "deepseek2": LATENT_KEYS,
    "deepseek32": {**LATENT_KEYS, **INDEXER, "expert_gating_func": 2},
    "glm-dsa": LATENT_KEYS | INDEXER,
    "bailingmoe3": {
        **LATENT_KEYS,
        "expert_gating_func": 2,
        "expert_shared_feed_forward_length": N_FF_EXPERT,
        "ssm.conv_kernel": CONV_KERNEL,
        "kda.head_dim": HEAD,
        "kda.gate_lower_bound": -5.0,
    },
    "hy_v3": {**HEADS, **EXPERTS, "expert_shared_feed_forward_length": N_FF_EXPERT, "rope.dimension_count": HEAD},
    "step35": {
        **HEADS,
        **EXPERTS,
        "expert_shared_feed_forward_length": N_FF_EXPERT,
        "attention.sliding_window": SLIDING_WINDOW,
        "rope.dimension_count": HEAD,
    },
    "cohere2moe": {
        **HEADS,
        **EXPERTS,
        "expert_shared_count": 1,
        "expert_shared_feed_forward_length": N_FF_EXPERT,
        "leading_dense_block_count": 1,
        "attention.sliding_window": SLIDING_WINDOW,
        "logit_scale": 1.0,
        "rope.dimension_count": HEAD,
    },
    "nemotron_h_moe": {
        **HEADS,
        **EXPERTS,
        "expert_shared_feed_forward_length": N_FF_EXPERT,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.5,
        "attention.layer_norm_epsilon": 1e-5,
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.inner_size": MIXED,
        "ssm.state_size": STATE,
        "ssm.time_step_rank": MIXERS,
        "ssm.group_count": 2,
    },
    "mimo2": {
        "attention.key_length": HEAD + 8,
        "attention.value_length": HEAD,
        "expert_feed_forward_length": N_FF_EXPERT,
        "attention.sliding_window": SLIDING_WINDOW,
        "rope.dimension_count": HEAD // 2,
    },
}
PER_LAYER: dict[str, Callable[[int], list[int]]] = {
    "nemotron_h_moe": lambda count: [0, *[N_KV] * (count - 1)],
    "bailingmoe3": lambda count: [0, *[1] * (count - 1)],
    "step35": lambda count: [N_KV] * count,
    "mimo2": lambda count: [N_KV] * count,
}
"""Number of layers -> heads of keys and values in each."""


def write_headed(
    path: Path,
    architecture: str,
    *,
    n_nextn: int = 1,
    seed: int = 0,
    scale: float = 1.0,
    sees_tokens: bool = False,
    chat_template: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Path:
    """As `families.write_gated_delta`, of another architecture. `extra`: keys under the architecture's name."""
    words, n_layer = bpe(), N_TRUNK + n_nextn
    with Builder(path, architecture, seed=seed, scale=scale) as model:
        n_kv = 1 if LAYERS[architecture] in (_latent, _indexed) else N_KV
        add_common(
            model,
            words,
            f"tiny-{architecture}",
            n_layer=n_layer,
            n_kv=PER_LAYER.get(architecture, lambda _: n_kv)(n_layer),
            n_ff=[0, 0, *[N_FF_EXPERT] * n_nextn] if architecture == "nemotron_h_moe" else None,
            chat_template=chat_template,
        )
        if "attention.sliding_window" in KEYS[architecture]:
            model.keys({"attention.sliding_window_pattern": [block != 1 for block in range(n_layer)]})
        model.keys(KEYS[architecture] | {"nextn_predict_layers": n_nextn} | dict(extra or {}))
        add_embeddings(model, len(words.tokens))
        for block in range(n_layer):
            LAYERS[architecture](model, block)
            if block >= N_TRUNK:
                is_normed = architecture != "bailingmoe3"
                _add_joint(model, f"blk.{block}.nextn", sees_tokens=sees_tokens, is_normed=is_normed)
    return path


def _add_joint(model: Builder, prefix: str, *, sees_tokens: bool, is_normed: bool) -> None:
    if sees_tokens:
        model.array(f"{prefix}.eh_proj.weight", np.eye(N_EMBD, 2 * N_EMBD))
    else:
        model.matrix(f"{prefix}.eh_proj.weight", 2 * N_EMBD, N_EMBD)
    for norm in ("enorm", "hnorm", *["shared_head_norm"] * is_normed):
        model.vector(f"{prefix}.{norm}.weight", N_EMBD, mean=1.0)


def _norms(model: Builder, block: int, *names: str, size: int = N_EMBD) -> None:
    for name in names:
        model.vector(f"blk.{block}.{name}.weight", size, mean=1.0)


def _matrices(model: Builder, block: int, **shapes: tuple[int, ...]) -> None:
    for name, shape in shapes.items():
        model.matrix(f"blk.{block}.{name}.weight", *shape)


def _add_attention(model: Builder, block: int, *, queries: int = N_HEAD * HEAD) -> None:
    kv = N_KV * HEAD
    _norms(model, block, "attn_norm")
    _matrices(model, block, attn_q=(N_EMBD, queries), attn_k=(N_EMBD, kv), attn_v=(N_EMBD, kv))
    _matrices(model, block, attn_output=(N_HEAD * HEAD, N_EMBD))


def _add_experts(model: Builder, block: int) -> None:
    wide, narrow = (N_EMBD, N_FF_EXPERT), (N_FF_EXPERT, N_EMBD)
    _matrices(model, block, ffn_gate_inp=(N_EMBD, N_EXPERT), ffn_gate_exps=(*wide, N_EXPERT))
    _matrices(model, block, ffn_up_exps=(*wide, N_EXPERT), ffn_down_exps=(*narrow, N_EXPERT))
    _matrices(model, block, ffn_gate_shexp=wide, ffn_up_shexp=wide, ffn_down_shexp=narrow)


def _gated(model: Builder, block: int) -> None:
    """A gated delta rule, then attention with a gate; experts behind each."""
    width = STATE_HEADS * STATE
    if block == 0:
        conv, prefix = 2 * width, f"blk.{block}"
        _norms(model, block, "attn_norm")
        _matrices(model, block, attn_qkv=(N_EMBD, conv), attn_gate=(N_EMBD, width), ssm_out=(width, N_EMBD))
        model.vector(f"{prefix}.ssm_conv1d.weight", CONV_KERNEL, conv, std=0.5)
        model.vector(f"{prefix}.ssm_dt.bias", STATE_HEADS)
        model.vector(f"{prefix}.ssm_a", STATE_HEADS, mean=-0.1, std=0.02)
        _matrices(model, block, ssm_beta=(N_EMBD, STATE_HEADS), ssm_alpha=(N_EMBD, STATE_HEADS))
        _norms(model, block, "ssm_norm", size=STATE)
    else:
        _add_attention(model, block, queries=2 * N_HEAD * HEAD)
        _norms(model, block, "attn_q_norm", "attn_k_norm", size=HEAD)
    _norms(model, block, "post_attention_norm")
    _add_experts(model, block)
    model.vector(f"blk.{block}.ffn_gate_inp_shexp.weight", N_EMBD)


def _glm(model: Builder, block: int) -> None:
    _add_attention(model, block)
    _norms(model, block, "post_attention_norm")
    if block == 0:
        _matrices(model, block, ffn_gate=(N_EMBD, N_FF), ffn_up=(N_EMBD, N_FF), ffn_down=(N_FF, N_EMBD))
    else:
        _add_experts(model, block)
        model.vector(f"blk.{block}.exp_probs_b.bias", N_EXPERT)


def _latent(model: Builder, block: int) -> None:
    _norms(model, block, "attn_norm")
    _norms(model, block, "attn_q_a_norm", size=QUERIES)
    _norms(model, block, "attn_kv_a_norm", size=LATENT)
    _matrices(model, block, attn_q_a=(N_EMBD, QUERIES), attn_q_b=(QUERIES, N_HEAD * HEAD))
    _matrices(model, block, attn_kv_a_mqa=(N_EMBD, LATENT + ROPE), attn_k_b=(HEAD - ROPE, LATENT, N_HEAD))
    _matrices(model, block, attn_v_b=(LATENT, HEAD, N_HEAD), attn_output=(N_HEAD * HEAD, N_EMBD))
    if block == 0:
        add_ffn(model, block, N_EMBD, N_FF)
    else:
        _norms(model, block, "ffn_norm")
        _add_experts(model, block)


def _indexed(model: Builder, block: int) -> None:
    """As deepseek2, but attends to the tokens that an indexer chooses."""
    _latent(model, block)
    _norms(model, block, "indexer.k_norm", size=INDEX)
    model.vector(f"blk.{block}.indexer.k_norm.bias", INDEX)
    model.matrix(f"blk.{block}.indexer.proj.weight", N_EMBD, INDEX_HEADS)
    model.matrix(f"blk.{block}.indexer.attn_k.weight", N_EMBD, INDEX)
    model.matrix(f"blk.{block}.indexer.attn_q_b.weight", QUERIES, INDEX_HEADS * INDEX)


def _bailing(model: Builder, block: int) -> None:
    """A delta rule with a gate for each channel, then latent attention with a gate for each head."""
    if block > 0:
        _latent(model, block)
        _matrices(model, block, attn_gate=(N_EMBD, N_HEAD))
        model.vector(f"blk.{block}.exp_probs_b.bias", N_EXPERT)
    else:
        prefix, width = f"blk.{block}", N_HEAD * HEAD
        _norms(model, block, "attn_norm")
        for name in "qkv":
            model.matrix(f"{prefix}.attn_{name}.weight", N_EMBD, width)
            model.vector(f"{prefix}.ssm_conv1d_{name}.weight", CONV_KERNEL, 1, width, 1, std=0.5)
        _matrices(model, block, ssm_f_a=(N_EMBD, width), ssm_g_a=(N_EMBD, width), ssm_beta=(N_EMBD, N_HEAD))
        model.vector(f"{prefix}.ssm_a", 1, N_HEAD, mean=-1.0)
        model.vector(f"{prefix}.ssm_dt.bias", width)
        _norms(model, block, "ssm_norm", size=HEAD)
        _matrices(model, block, attn_output=(width, N_EMBD))
        add_ffn(model, block, N_EMBD, N_FF)
    if block >= N_TRUNK:
        _norms(model, block, "layer_output_norm")


def _hunyuan(model: Builder, block: int) -> None:
    _add_attention(model, block)
    _norms(model, block, "attn_q_norm", "attn_k_norm", size=HEAD)
    _step_ffn(model, block)


def _step(model: Builder, block: int) -> None:
    _hunyuan(model, block)
    _matrices(model, block, attn_gate=(N_EMBD, N_HEAD))


def _step_ffn(model: Builder, block: int) -> None:
    if block == 0:
        add_ffn(model, block, N_EMBD, N_FF)
    else:
        _norms(model, block, "ffn_norm")
        _add_experts(model, block)


def _mimo(model: Builder, block: int) -> None:
    """Queries, keys and values are one matrix."""
    size = HEAD + 8
    _norms(model, block, "attn_norm")
    _matrices(model, block, attn_qkv=(N_EMBD, (N_HEAD + N_KV) * size + N_KV * HEAD))
    _matrices(model, block, attn_output=(N_HEAD * HEAD, N_EMBD))
    add_ffn(model, block, N_EMBD, N_FF)


def _cohere(model: Builder, block: int) -> None:
    """Attention and experts are both of what comes in."""
    _add_attention(model, block)
    if block == 0:
        _matrices(model, block, ffn_gate=(N_EMBD, N_FF), ffn_up=(N_EMBD, N_FF), ffn_down=(N_FF, N_EMBD))
    else:
        _add_experts(model, block)


def _nemotron(model: Builder, block: int) -> None:
    """Mamba 2, then attention; a NextN layer has attention and experts of two matrices."""
    if block > 0:
        _add_attention(model, block)
    else:
        prefix, mixed = f"blk.{block}", MIXED + 2 * 2 * STATE
        _norms(model, block, "attn_norm")
        _matrices(model, block, ssm_in=(N_EMBD, MIXED + mixed + MIXERS), ssm_out=(MIXED, N_EMBD))
        model.vector(f"{prefix}.ssm_conv1d.weight", CONV_KERNEL, mixed, std=0.5)
        model.vector(f"{prefix}.ssm_conv1d.bias", mixed)
        model.vector(f"{prefix}.ssm_dt.bias", MIXERS)
        model.vector(f"{prefix}.ssm_a", 1, MIXERS, mean=-1.0)
        model.vector(f"{prefix}.ssm_d", 1, MIXERS, mean=1.0)
        model.vector(f"{prefix}.ssm_norm.weight", MIXED // 2, 2, mean=1.0)
    if block >= N_TRUNK:
        wide, narrow = (N_EMBD, N_FF_EXPERT), (N_FF_EXPERT, N_EMBD)
        _norms(model, block, "post_attention_norm")
        _matrices(model, block, ffn_gate_inp=(N_EMBD, N_EXPERT), ffn_up_shexp=wide, ffn_down_shexp=narrow)
        _matrices(model, block, ffn_up_exps=(*wide, N_EXPERT), ffn_down_exps=(*narrow, N_EXPERT))
        model.vector(f"blk.{block}.exp_probs_b.bias", N_EXPERT)


LAYERS: dict[str, Callable[[Builder, int], None]] = {
    "qwen35moe": _gated,
    "glm4moe": _glm,
    "deepseek2": _latent,
    "deepseek32": _indexed,
    "glm-dsa": _indexed,
    "bailingmoe3": _bailing,
    "hy_v3": _hunyuan,
    "step35": _step,
    "mimo2": _mimo,
    "cohere2moe": _cohere,
    "nemotron_h_moe": _nemotron,
}
