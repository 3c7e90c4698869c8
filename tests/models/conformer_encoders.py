"""Projectors for sounds whose encoders are no Whisper's: conformers, MiMo's, and Gemma 4's without one.

Names and shapes as tools/mtmd asks for them, with layers of zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.models.rarer_encoders import LAYERS, Keys, Made, Shapes, Size, layers, norm, pair, querying

MELS = 128
CHANNELS = 256
"""Of the convolutions before the layers."""
CONFORMER_WIDTH = 512
"""LFM2's encoder has no other: libmtmd makes its positions of this length."""


def _conformer(size: Size, *, kernel: int, biases: bool, norm_biases: bool = True) -> Shapes:
    """Two half feed-forward parts around attention and a convolution."""
    found: Shapes = {}

    def matrix(name: str, *shape: int) -> None:
        nonlocal found
        found |= pair(name, *shape) if biases else {f"{name}.weight": shape}

    for number in range(LAYERS):
        at = f"a.blk.{number}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_out", "conv_pw2"):
            matrix(at + name, size.width, size.width)
        for end in ("", "_1"):
            matrix(f"{at}ffn_up{end}", size.hidden, size.width)
            matrix(f"{at}ffn_down{end}", size.width, size.hidden)
        matrix(at + "conv_pw1", 2 * size.width, size.width)
        found[at + "conv_dw.weight"] = (size.width, kernel)
        for name in ("ffn_norm", "ffn_norm_1", "ln1", "ln2", "norm_conv", "conv_norm"):
            found |= norm(at + name, size.width) if norm_biases else {f"{at}{name}.weight": (size.width,)}
    return found


def _turned(size: Size) -> Shapes:
    """Relative positions of each layer."""
    found: Shapes = {}
    for number in range(LAYERS):
        at = f"a.blk.{number}."
        found[at + "linear_pos.weight"] = (size.width, size.width)
        found |= dict.fromkeys((at + "pos_bias_u", at + "pos_bias_v"), (size.heads, size.width // size.heads))
    return found


def _eighth(size: Size) -> Shapes:
    """Convolutions that leave every eighth frame."""
    found: Shapes = {}
    for number, shape in {0: (1, 3, 3), 2: (1, 3, 3), 3: (CHANNELS, 1, 1), 5: (1, 3, 3), 6: (CHANNELS, 1, 1)}.items():
        found |= {f"a.conv1d.{number}.weight": (CHANNELS, *shape), f"a.conv1d.{number}.bias": (CHANNELS, 1, 1)}
    return found | pair("a.pre_encode.out", size.width, CHANNELS * MELS // 8)


def _lfm2a(size: Size) -> Made:
    found = _conformer(size, kernel=9, biases=True) | _turned(size) | _eighth(size)
    for number in range(LAYERS):
        found[f"a.blk.{number}.conv_dw.bias"] = (size.width,)
    found |= norm("mm.a.mlp.0", size.width) | pair("mm.a.mlp.1", 4 * size.width, size.width)
    found |= pair("mm.a.mlp.3", size.out, 4 * size.width)
    return Made({}, found | {"a.position_embd.weight": (2048, size.out)})


def _parakeet(size: Size) -> Made:
    found = _conformer(size, kernel=9, biases=False) | _turned(size) | _eighth(size)
    for number in range(LAYERS):
        at = f"a.blk.{number}."
        found |= dict.fromkeys((at + "conv_norm_mean", at + "conv_norm_var"), (size.width,))
    found |= {"mm.a.norm_pre.weight": (size.width,), "mm.a.mlp.1.weight": (4 * size.width, size.width)}
    found |= {"mm.a.mlp.2.weight": (size.out, 4 * size.width)}
    # Filters and window as one row: the library asks for so many numbers, not for a shape.
    return Made(
        {"subsampling_factor": 8, "conv_kernel_size": 9},
        found | {"a.mel_filters": (MELS * 257,), "a.window": (400,)} | dict.fromkeys(NO_MVLM, (1,)),
    )


NO_MVLM = ("mm.model.mlp.0.weight", "mm.model.mlp.1.weight", "mm.model.mlp.3.weight")
"""Parts that libmtmd loads with parakeet, and does not use."""
CONTEXT, WINDOW, QUERIES = 200, 15, 3
"""Of Granite Speech: frames that see each other, and those that become so many rows."""


def _granite_speech(size: Size) -> Made:
    width, vocabulary = size.width, 348
    found = _conformer(size, kernel=15, biases=True) | pair("a.input_projection", width, 2 * 80)
    for number in range(LAYERS):
        at = f"a.blk.{number}."
        for name in ("attn_q", "attn_k", "attn_v"):
            del found[f"{at}{name}.bias"]
        found[at + "attn_rel_pos_emb"] = (2 * 512 + 1, width // size.heads)
    found |= pair("a.enc_ctc_out", vocabulary, width) | pair("a.enc_ctc_out_mid", width, vocabulary)
    found |= {"a.proj_query": (QUERIES, width)} | norm("a.proj_norm", width) | pair("a.proj_linear", size.out, width)
    for number in range(2):
        found |= querying(f"a.proj_blk.{number}.", width, 4 * width)
    keys = {
        "num_mel_bins": 160, "chunk_size": CONTEXT, "conv_kernel_size": 15, "max_pos_emb": 512,
        "projector.window_size": WINDOW, "projector.downsample_rate": WINDOW // QUERIES,
        "projector.head_count": width // 64,
    }  # fmt: skip
    return Made(keys, found)


def _gemma4a(size: Size) -> Made:
    found = _conformer(size, kernel=5, biases=False, norm_biases=False)
    for number in range(LAYERS):
        at = f"a.blk.{number}."
        found |= {f"{at}attn_k_rel.weight": (size.width, size.width)}
        found |= dict.fromkeys(
            (f"{at}per_dim_scale.weight", f"{at}per_dim_k_scale.weight"), (size.width // size.heads,)
        )
        for name in ("attn_pre_norm", "attn_post_norm", "ffn_post_norm", "ffn_post_norm_1"):
            found[f"{at}{name}.weight"] = (size.width,)
    found |= {"a.conv1d.0.weight": (128, 1, 3, 3), "a.conv1d.0.norm.weight": (128,)}
    found |= {"a.conv1d.1.weight": (32, 128, 3, 3), "a.conv1d.1.norm.weight": (32,)}
    found |= {"a.input_projection.weight": (size.width, 32 * MELS // 4)} | pair("a.pre_encode.out", 1536, size.width)
    return Made({}, found | {"mm.a.soft_emb_norm.weight": (1536,), "mm.a.input_projection.weight": (size.out, 1536)})


def _gemma4ua(size: Size) -> Made:
    matrix = np.random.default_rng(0).standard_normal((size.out, 640)).astype(np.float32)
    given = {"mm.a.input_projection.weight": matrix}
    return Made({"block_count": 0}, {name: each.shape for name, each in given.items()}, given)


GROUP, CODEBOOKS, BINS = 4, 4, 1024


def _mimo(size: Size) -> Made:
    width, grouped = size.width, GROUP * size.width
    found = {name: shape for name, shape in layers(size, part="a").items() if not name.endswith("attn_k.bias")}
    found |= {"a.conv1d.1.weight": (width, MELS, 3), "a.conv1d.2.weight": (width, width, 3)}
    found |= {f"a.conv1d.{number}.bias": (width, 1) for number in (1, 2)} | norm("a.post_ln", width)
    found |= {"a.downsample.conv.weight": (width, width, 2)} | norm("a.downsample.norm", width)
    found |= dict.fromkeys(("a.rvq.codebook.weight", "mm.a.code_embd.weight"), (CODEBOOKS, BINS, width))
    for number in range(2):
        at = f"mm.a.local_blk.{number}."
        for name in ("attn_q", "attn_k", "attn_v"):
            found |= pair(at + name, width, width)
        found |= {f"{at}attn_out.weight": (width, width), f"{at}ffn_down.weight": (width, size.hidden)}
        found |= dict.fromkeys((f"{at}ffn_gate.weight", f"{at}ffn_up.weight"), (size.hidden, width))
        found |= dict.fromkeys((f"{at}ln1.weight", f"{at}ln2.weight"), (width,))
    found |= {"mm.a.local_norm.weight": (width,), "mm.a.mlp.1.weight": (grouped, grouped)}
    keys: Keys = {
        "rvq.num_quantizers": CODEBOOKS, "rvq.codebook_size": [BINS] * CODEBOOKS, "wa_pattern_mode": [-1, 0, 0],
        "window_size": 128, "local_block_count": 2, "local_group_size": GROUP,
    }  # fmt: skip
    return Made(keys, found | {"mm.a.mlp.2.weight": (size.out, grouped)})


CONFORMERS: dict[str, Callable[[Size], Made]] = {
    "gemma4a": _gemma4a,
    "gemma4ua": _gemma4ua,
    "granite_speech": _granite_speech,
    "lfm2a": _lfm2a,
    "mimo_audio": _mimo,
    "parakeet": _parakeet,
}
