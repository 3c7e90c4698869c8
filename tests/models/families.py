"""One tiny model for each class of memory, and what goes with them: encoders, a reranker, an adapter, a draft.

The keys and tensors are those that llama.cpp asks for in src/models/*.cpp at `COMMIT`. Each is under 1 MB.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from gguf import GGMLQuantizationType

from tests.models.builder import Builder
from tests.models.maker import add_attention, add_ffn, write_llama
from tests.models.tokenizers import Tokenizer, bpe, spm, wordpiece

COMMIT = "0c1e57098"
"""Of llama.cpp. After a move to another: look what its models ask for now."""
N_EMBD, N_FF, N_HEAD, N_KV, N_CTX = 64, 128, 4, 2, 512
SLIDING_WINDOW = 16
WIDE_HEAD = 32
STATE_SIZE, CONV_KERNEL, TIME_STEP_RANK = 8, 4, 4
LORA_RANK = 4


class GatedShape(NamedTuple):
    """Of `write_gated_delta`."""

    n_layer: int = 2
    n_embd: int = N_EMBD
    n_ff: int = N_FF
    n_head: int = N_HEAD
    n_kv: int = N_KV
    head_size: int = 16
    state_size: int = 16
    n_state_heads: int = 4
    """For queries and keys there are half as many."""
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32


def write_sliding_window(
    path: Path, *, seed: int = 0, chat_template: str | None = None, head_size: int | None = None, scale: float = 1.0
) -> Path:
    """gemma3: the first of two layers sees the last 16 tokens only; SentencePiece vocabulary.

    `scale`: of the layers' numbers. Where it is small, the next token depends on the last one only.
    """
    head_size = head_size or N_EMBD // N_HEAD
    words = spm()
    with Builder(path, "gemma3", seed=seed, scale=scale) as model:
        add_common(model, words, "tiny-gemma3", chat_template=chat_template)
        model.keys(
            {
                "attention.sliding_window": SLIDING_WINDOW,
                "attention.sliding_window_pattern": 2,
                "attention.key_length": head_size,
                "attention.value_length": head_size,
            }
        )
        add_embeddings(model, len(words.tokens))
        for block in range(2):
            add_attention(model, block, N_EMBD, N_HEAD, N_KV, head_size=head_size)
            add_ffn(model, block, N_EMBD, N_FF)
            for norm, size in (("attn_q_norm", head_size), ("attn_k_norm", head_size)):
                model.vector(f"blk.{block}.{norm}.weight", size, mean=1.0)
            for norm in ("post_attention_norm", "post_ffw_norm"):
                model.vector(f"blk.{block}.{norm}.weight", N_EMBD, mean=min(1.0, scale))
    return path


def write_wide_heads(path: Path, *, seed: int = 0) -> Path:
    """qwen3: heads of 32, where the embedding's length by the number of heads is 16."""
    words = bpe()
    with Builder(path, "qwen3", seed=seed) as model:
        add_common(model, words, "tiny-qwen3")
        model.keys({"attention.key_length": WIDE_HEAD, "attention.value_length": WIDE_HEAD})
        add_embeddings(model, len(words.tokens))
        for block in range(2):
            add_attention(model, block, N_EMBD, N_HEAD, N_KV, head_size=WIDE_HEAD)
            add_ffn(model, block, N_EMBD, N_FF)
            for norm in ("attn_q_norm", "attn_k_norm"):
                model.vector(f"blk.{block}.{norm}.weight", WIDE_HEAD, mean=1.0)
    return path


def write_latent(path: Path, *, seed: int = 0) -> Path:
    """deepseek2 with dense layers only: keys and values are one latent vector for all heads (MLA)."""
    words = bpe()
    rope, head, nope, latent, queries = 8, 16, 8, 24, 12
    with Builder(path, "deepseek2", seed=seed) as model:
        add_common(model, words, "tiny-deepseek2", n_kv=1)
        model.keys(
            {
                "attention.key_length": latent + rope,
                "attention.value_length": latent,
                "attention.key_length_mla": head,
                "attention.value_length_mla": head,
                "attention.kv_lora_rank": latent,
                "attention.q_lora_rank": queries,
                "rope.dimension_count": rope,
                "leading_dense_block_count": 2,
                "expert_feed_forward_length": N_FF,
                "expert_shared_count": 0,
            }
        )
        add_embeddings(model, len(words.tokens))
        for block in range(2):
            prefix = f"blk.{block}"
            model.vector(f"{prefix}.attn_norm.weight", N_EMBD, mean=1.0)
            model.vector(f"{prefix}.attn_q_a_norm.weight", queries, mean=1.0)
            model.vector(f"{prefix}.attn_kv_a_norm.weight", latent, mean=1.0)
            model.matrix(f"{prefix}.attn_q_a.weight", N_EMBD, queries)
            model.matrix(f"{prefix}.attn_q_b.weight", queries, N_HEAD * head)
            model.matrix(f"{prefix}.attn_kv_a_mqa.weight", N_EMBD, latent + rope)
            model.matrix(f"{prefix}.attn_k_b.weight", nope, latent, N_HEAD)
            model.matrix(f"{prefix}.attn_v_b.weight", latent, head, N_HEAD)
            model.matrix(f"{prefix}.attn_output.weight", N_HEAD * head, N_EMBD)
            add_ffn(model, block, N_EMBD, N_FF)
    return path


def write_recurrent(path: Path, *, seed: int = 0, chat_template: str | None = None) -> Path:
    """mamba: no attention at all; its state cannot drop a tail."""
    words = bpe()
    with Builder(path, "mamba", seed=seed) as model:
        add_common(model, words, "tiny-mamba", n_head=0, n_kv=0, n_ff=0, chat_template=chat_template)
        _state_space_keys(model)
        add_embeddings(model, len(words.tokens))
        for block in range(2):
            model.vector(f"blk.{block}.attn_norm.weight", N_EMBD, mean=1.0)
            _state_space(model, block)
    return path


def write_hybrid(path: Path, *, seed: int = 0, chat_template: str | None = None) -> Path:
    """jamba: a recurrent layer, then one with attention; heads are given per layer."""
    words = bpe()
    with Builder(path, "jamba", seed=seed) as model:
        add_common(model, words, "tiny-jamba", n_kv=[0, N_KV], chat_template=chat_template)
        _state_space_keys(model)
        add_embeddings(model, len(words.tokens))
        for block, recurrent in enumerate((True, False)):
            if recurrent:
                model.vector(f"blk.{block}.attn_norm.weight", N_EMBD, mean=1.0)
                _state_space(model, block)
                for norm, size in (("dt", TIME_STEP_RANK), ("b", STATE_SIZE), ("c", STATE_SIZE)):
                    model.vector(f"blk.{block}.ssm_{norm}_norm.weight", size, mean=1.0)
            else:
                add_attention(model, block, N_EMBD, N_HEAD, N_KV)
            add_ffn(model, block, N_EMBD, N_FF)
    return path


def write_gated_delta(
    path: Path,
    *,
    seed: int = 0,
    n_nextn: int = 0,
    shape: GatedShape | None = None,
    scale: float = 1.0,
    sees_tokens: bool = False,
    chat_template: str | None = None,
) -> Path:
    """qwen35: layers with a gated delta rule, whose last states llama.cpp keeps, then one with attention.

    `n_nextn`: heads that guess the tokens after the next, each a layer with attention behind the others. `scale`: as in
    `write_sliding_window`; then heads are mostly right that see tokens alone (`sees_tokens`) and no vectors.
    """
    words, of = bpe(), shape or GatedShape()
    n_embd, n_ff, size, n_state = of.n_embd, of.n_ff, of.head_size, of.n_state_heads * of.state_size
    with Builder(path, "qwen35", seed=seed, dtype=of.dtype, scale=scale) as model:
        add_common(
            model,
            words,
            "tiny-qwen35",
            n_layer=of.n_layer + n_nextn,
            n_embd=n_embd,
            n_head=of.n_head,
            n_kv=of.n_kv,
            n_ff=n_ff,
            chat_template=chat_template,
        )
        model.keys(
            {
                "attention.key_length": size,
                "attention.value_length": size,
                "rope.dimension_count": size // 2,
                "rope.dimension_sections": [size // 4, 0, 0, 0],
                "full_attention_interval": of.n_layer if of.n_layer < 4 else 4,
                "ssm.conv_kernel": CONV_KERNEL,
                "ssm.inner_size": n_state,
                "ssm.state_size": of.state_size,
                "ssm.time_step_rank": of.n_state_heads,
                "ssm.group_count": of.n_state_heads // 2,
                **({"nextn_predict_layers": n_nextn} if n_nextn else {}),
            }
        )
        add_embeddings(model, len(words.tokens), n_embd)
        for block in range(of.n_layer + n_nextn):
            prefix, interval = f"blk.{block}", min(of.n_layer, 4)
            if block < of.n_layer and (block + 1) % interval:
                conv = 2 * n_state  # queries and keys of half as many heads, and values
                model.vector(f"{prefix}.attn_norm.weight", n_embd, mean=1.0)
                model.matrix(f"{prefix}.attn_qkv.weight", n_embd, conv)
                model.matrix(f"{prefix}.attn_gate.weight", n_embd, n_state)
                model.vector(f"{prefix}.ssm_conv1d.weight", CONV_KERNEL, conv, std=0.5)
                model.vector(f"{prefix}.ssm_dt.bias", of.n_state_heads)
                model.vector(f"{prefix}.ssm_a", of.n_state_heads, mean=-0.1, std=0.02)
                model.matrix(f"{prefix}.ssm_beta.weight", n_embd, of.n_state_heads)
                model.matrix(f"{prefix}.ssm_alpha.weight", n_embd, of.n_state_heads)
                model.vector(f"{prefix}.ssm_norm.weight", of.state_size, mean=1.0)
                model.matrix(f"{prefix}.ssm_out.weight", n_state, n_embd)
            else:
                model.vector(f"{prefix}.attn_norm.weight", n_embd, mean=1.0)
                model.matrix(f"{prefix}.attn_q.weight", n_embd, 2 * of.n_head * size)  # and a gate
                model.matrix(f"{prefix}.attn_k.weight", n_embd, of.n_kv * size)
                model.matrix(f"{prefix}.attn_v.weight", n_embd, of.n_kv * size)
                model.matrix(f"{prefix}.attn_output.weight", of.n_head * size, n_embd)
                for norm in ("attn_q_norm", "attn_k_norm"):
                    model.vector(f"{prefix}.{norm}.weight", size, mean=1.0)
            model.vector(f"{prefix}.post_attention_norm.weight", n_embd, mean=1.0)
            model.matrix(f"{prefix}.ffn_gate.weight", n_embd, n_ff)
            model.matrix(f"{prefix}.ffn_up.weight", n_embd, n_ff)
            model.matrix(f"{prefix}.ffn_down.weight", n_ff, n_embd)
            if block >= of.n_layer:
                if sees_tokens:
                    model.array(f"{prefix}.nextn.eh_proj.weight", np.eye(n_embd, 2 * n_embd))
                else:
                    model.matrix(f"{prefix}.nextn.eh_proj.weight", 2 * n_embd, n_embd)
                for norm in ("enorm", "hnorm", "shared_head_norm"):
                    model.vector(f"{prefix}.nextn.{norm}.weight", n_embd, mean=1.0)
    return path


def write_short_conv(path: Path, *, seed: int = 0, chat_template: str | None = None, scale: float = 1.0) -> Path:
    """lfm2: a layer that looks three tokens back by a convolution, then one with attention. `scale`: as above."""
    words = bpe()
    with Builder(path, "lfm2", seed=seed, scale=scale) as model:
        add_common(model, words, "tiny-lfm2", n_kv=[0, N_KV], chat_template=chat_template)
        model.keys({"shortconv.l_cache": CONV_KERNEL - 1})
        model.matrix("token_embd.weight", N_EMBD, len(words.tokens), std=1.0)
        model.vector("token_embd_norm.weight", N_EMBD, mean=1.0)
        model.matrix("output.weight", N_EMBD, len(words.tokens), std=4.0 / N_EMBD**0.5)
        model.vector("blk.0.attn_norm.weight", N_EMBD, mean=1.0)
        model.vector("blk.0.shortconv.conv.weight", CONV_KERNEL - 1, N_EMBD, std=0.5)
        model.matrix("blk.0.shortconv.in_proj.weight", N_EMBD, 3 * N_EMBD)
        model.matrix("blk.0.shortconv.out_proj.weight", N_EMBD, N_EMBD)
        add_attention(model, 1, N_EMBD, N_HEAD, N_KV)
        for norm in ("attn_q_norm", "attn_k_norm"):
            model.vector(f"blk.1.{norm}.weight", N_EMBD // N_HEAD, mean=1.0)
        for block in range(2):
            add_ffn(model, block, N_EMBD, N_FF)
    return path


def write_mixture(path: Path, *, seed: int = 0) -> Path:
    """llama with 4 experts, 2 of them used for a token."""
    return write_llama(path, seed=seed, n_ff=64, n_expert=4, n_expert_used=2, name="tiny-mixture")


def write_embedding(path: Path, *, seed: int = 0) -> Path:
    """bert with mean pooling and a WordPiece vocabulary: attends both ways, gives vectors and no logits."""
    with Builder(path, "bert", seed=seed) as model:
        _bert(model, pooling_type=1)
    return path


def write_reranker(path: Path, *, seed: int = 0) -> Path:
    """bert with a classification head of one label: rank pooling gives one score for a sequence."""
    with Builder(path, "bert", seed=seed) as model:
        _bert(model, pooling_type=4)
        model.key("bert.classifier.output_labels", ["score"])
        model.matrix("cls.weight", N_EMBD, N_EMBD)
        model.vector("cls.bias", N_EMBD)
        model.matrix("cls.output.weight", N_EMBD, 1)
        model.vector("cls.output.bias", 1)
    return path


def write_draft(path: Path, *, seed: int = 0) -> Path:
    """A smaller sibling of `write_llama`'s default: the same vocabulary, one layer, a quarter of the width."""
    return write_llama(path, seed=seed, n_layer=1, n_embd=16, n_ff=32, n_head=2, n_kv=1, name="tiny-draft")


def write_lora(path: Path, *, seed: int = 1, n_layer: int = 2) -> Path:
    """An adapter for `write_llama`'s default shape: rank 4 on query and output matrices, large enough to matter."""
    with Builder(path, "llama", seed=seed) as adapter:
        adapter.writer.add_type("adapter")
        adapter.key("adapter.type", "lora")
        adapter.key("adapter.lora.alpha", float(LORA_RANK))
        for block in range(n_layer):
            for matrix in ("attn_q", "attn_output"):
                adapter.matrix(f"blk.{block}.{matrix}.weight.lora_a", N_EMBD, LORA_RANK)
                adapter.matrix(f"blk.{block}.{matrix}.weight.lora_b", LORA_RANK, N_EMBD)
    return path


def add_common(
    model: Builder,
    words: Tokenizer,
    name: str,
    *,
    n_layer: int = 2,
    n_embd: int | None = None,
    n_head: int | None = None,
    n_kv: int | list[int] | None = None,
    n_ff: int | list[int] | None = None,
    chat_template: str | None = None,
) -> None:
    model.writer.add_name(name)
    if chat_template is not None:
        model.writer.add_chat_template(chat_template)
    model.writer.add_file_type(0)
    model.keys(
        {
            "block_count": n_layer,
            "context_length": N_CTX,
            "embedding_length": n_embd or N_EMBD,
            "feed_forward_length": N_FF if n_ff is None else n_ff,
            "attention.head_count": N_HEAD if n_head is None else n_head,
            "attention.head_count_kv": N_KV if n_kv is None else n_kv,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "vocab_size": len(words.tokens),
        }
    )
    words.write(model.writer)


def add_embeddings(model: Builder, n_vocab: int, n_embd: int | None = None) -> None:
    n_embd = n_embd or N_EMBD
    model.matrix("token_embd.weight", n_embd, n_vocab, std=1.0)
    model.vector("output_norm.weight", n_embd, mean=1.0)
    model.matrix("output.weight", n_embd, n_vocab, std=4.0 / n_embd**0.5)


def _state_space_keys(model: Builder) -> None:
    model.keys(
        {
            "ssm.conv_kernel": CONV_KERNEL,
            "ssm.inner_size": 2 * N_EMBD,
            "ssm.state_size": STATE_SIZE,
            "ssm.time_step_rank": TIME_STEP_RANK,
        }
    )


def _state_space(model: Builder, block: int) -> None:
    """A Mamba-1 mixer: A is -1 .. -state_size in every channel, as trained models begin (state-spaces/mamba)."""
    inner = 2 * N_EMBD
    prefix = f"blk.{block}"
    model.matrix(f"{prefix}.ssm_in.weight", N_EMBD, 2 * inner)
    model.vector(f"{prefix}.ssm_conv1d.weight", CONV_KERNEL, inner, std=0.5)
    model.vector(f"{prefix}.ssm_conv1d.bias", inner)
    model.matrix(f"{prefix}.ssm_x.weight", inner, TIME_STEP_RANK + 2 * STATE_SIZE)
    model.matrix(f"{prefix}.ssm_dt.weight", TIME_STEP_RANK, inner)
    model.vector(f"{prefix}.ssm_dt.bias", inner, mean=-3.0)
    model.array(f"{prefix}.ssm_a", -np.tile(np.arange(1, STATE_SIZE + 1), (inner, 1)))
    model.vector(f"{prefix}.ssm_d", inner, mean=1.0)
    model.matrix(f"{prefix}.ssm_out.weight", inner, N_EMBD)


def _bert(model: Builder, *, pooling_type: int) -> None:
    words = wordpiece()
    model.writer.add_name("tiny-bert")
    model.writer.add_file_type(0)
    model.keys(
        {
            "block_count": 2,
            "context_length": N_CTX,
            "embedding_length": N_EMBD,
            "feed_forward_length": N_FF,
            "attention.head_count": N_HEAD,
            "attention.layer_norm_epsilon": 1e-12,
            "attention.causal": False,
            "pooling_type": pooling_type,
        }
    )
    words.write(model.writer)
    model.key("tokenizer.ggml.token_type_count", 2)
    model.matrix("token_embd.weight", N_EMBD, len(words.tokens), std=1.0)
    model.vector("token_types.weight", N_EMBD, 2)
    model.vector("position_embd.weight", N_EMBD, N_CTX)
    _layer_norm(model, "token_embd_norm")
    for block in range(2):
        prefix = f"blk.{block}"
        shapes = {"attn_q": (N_EMBD, N_EMBD), "attn_k": (N_EMBD, N_EMBD), "attn_v": (N_EMBD, N_EMBD)}
        shapes |= {"attn_output": (N_EMBD, N_EMBD), "ffn_up": (N_EMBD, N_FF), "ffn_down": (N_FF, N_EMBD)}
        for name, (n_in, n_out) in shapes.items():
            model.matrix(f"{prefix}.{name}.weight", n_in, n_out)
            model.vector(f"{prefix}.{name}.bias", n_out)
        _layer_norm(model, f"{prefix}.attn_output_norm")
        _layer_norm(model, f"{prefix}.layer_output_norm")


def _layer_norm(model: Builder, name: str) -> None:
    model.vector(f"{name}.weight", N_EMBD, mean=1.0)
    model.vector(f"{name}.bias", N_EMBD)


def write_planes(path: Path, *, seed: int = 0) -> Path:
    """qwen2vl: positions of media rows are planes of time, height and width (M-RoPE)."""
    words, head = bpe(), N_EMBD // N_HEAD
    with Builder(path, "qwen2vl", seed=seed) as model:
        add_common(model, words, "tiny-qwen2vl")
        model.keys({"rope.dimension_count": head, "rope.dimension_sections": [head // 8, head // 8, head // 4, 0]})
        add_embeddings(model, len(words.tokens))
        for block in range(2):
            add_attention(model, block, N_EMBD, N_HEAD, N_KV)
            add_ffn(model, block, N_EMBD, N_FF)
            for name, heads in (("q", N_HEAD), ("k", N_KV), ("v", N_KV)):
                model.vector(f"blk.{block}.attn_{name}.bias", heads * head)
    return path
