"""Projectors of types of which few models exist, with layers of zeros: names and shapes as tools/mtmd asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, TokenType

from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

Shapes = dict[str, tuple[int, ...]]
Keys = dict[str, Any]
LAYERS = 3


class Size(NamedTuple):
    """Of an encoder; by default a small one."""

    width: int = 128
    hidden: int = 512
    heads: int = 2
    patch: int = 14
    image: int = 336
    out: int = 64

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2


class Made(NamedTuple):
    """What a type's file has beside what all have."""

    keys: Keys
    """Below `clip.vision.`, unless they begin with `clip.`."""
    shapes: Shapes
    given: Mapping[str, npt.NDArray[np.float32]] = {}
    """Tensors that are not zeros."""


def pair(name: str, *shape: int) -> Shapes:
    """A matrix or kernel, and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def layers(size: Size, *, part: str = "v", fused: bool = False, gated: bool = False, rms: bool = False) -> Shapes:
    found: Shapes = {}
    for number in range(LAYERS):
        at = f"{part}.blk.{number}."
        for name in ("attn_qkv",) if fused else ("attn_q", "attn_k", "attn_v"):
            found |= pair(at + name, size.width * (3 if fused else 1), size.width)
        found |= pair(at + "attn_out", size.width, size.width)
        found |= pair(at + "ffn_up", size.hidden, size.width) | pair(at + "ffn_down", size.width, size.hidden)
        if gated:
            found |= pair(at + "ffn_gate", size.hidden, size.width)
        for name in ("ln1", "ln2"):
            found |= {f"{at}{name}.weight": (size.width,)} if rms else norm(at + name, size.width)
    return found


def patches(size: Size, *, twice: bool = False, bias: bool = True, placed: int = 0) -> Shapes:
    """`placed`: how many trained positions there are."""
    kernel = (size.width, 3, size.patch, size.patch)
    found: Shapes = {"v.patch_embd.weight": kernel}
    if bias:
        found["v.patch_embd.bias"] = (size.width,)
    if twice:
        found["v.patch_embd.weight.1"] = kernel
    if placed:
        found["v.position_embd.weight"] = (placed, size.width)
    return found


def _adapter(size: Size) -> Made:
    joined, wide, out = 2 * size.width, 4 * size.width, size.out
    return Made(
        {},
        layers(size)
        | patches(size, placed=size.patches)
        | pair("adapter.conv", joined, size.width, 2, 2)
        | norm("adapter.linear.norm1", joined)
        | {
            "adapter.linear.linear.weight": (joined, joined),
            "adapter.linear.dense_h_to_4h.weight": (wide, joined),
            "adapter.linear.gate.weight": (wide, joined),
            "adapter.linear.dense_4h_to_h.weight": (out, wide),
            "adapter.boi": (out,),
            "adapter.eoi": (out,),
        },
    )


def _cogvlm(size: Size) -> Made:
    out = size.out
    return Made(
        {},
        layers(size, fused=True)
        | patches(size, placed=size.patches + 1)
        | norm("mm.post_fc_norm", out)
        | {
            "v.class_embd": (size.width,),
            "mm.model.fc.weight": (out, size.width),
            "mm.up.weight": (4 * out, out),
            "mm.gate.weight": (4 * out, out),
            "mm.down.weight": (out, 4 * out),
            "v.boi": (out,),
            "v.eoi": (out,),
        },
    )


def _sam(size: Size) -> Shapes:
    """The encoder of detail before that of DeepSeek OCR, of which one layer of three sees all."""
    width, head = SAM_HEADS * 64, 64
    found = pair("v.sam.patch_embd", width, 3, 16, 16) | {"v.sam.pos_embd.weight": (64, 64, width)}
    for number in range(LAYERS):
        at = f"v.sam.blk.{number}."
        found |= norm(at + "pre_ln", width) | norm(at + "post_ln", width) | pair(at + "attn.qkv", 3 * width, width)
        found |= pair(at + "attn.out", width, width) | pair(at + "mlp.lin1", 4 * width, width)
        found |= pair(at + "mlp.lin2", width, 4 * width)
        side = 64 if number == 2 else 14
        found |= dict.fromkeys((f"{at}attn.pos_h.weight", f"{at}attn.pos_w.weight"), (2 * side - 1, head))
    found |= {"v.sam.neck.0.weight": (256, width, 1, 1), "v.sam.neck.2.weight": (256, 256, 3, 3)}
    found |= norm("v.sam.neck.1", 256) | norm("v.sam.neck.3", 256)
    found |= {"v.sam.net_2.weight": (512, 256, 3, 3), "v.sam.net_3.weight": (size.width, 512, 3, 3)}
    return found | {"v.view_seperator": (size.out,)}


SAM_HEADS = 12
SAM_KEYS: Keys = {
    "sam.block_count": LAYERS, "sam.head_count": SAM_HEADS, "sam.embedding_length": SAM_HEADS * 64, "window_size": 14,
}  # fmt: skip


def _deepseekocr(size: Size) -> Made:
    found = layers(size, fused=True) | _sam(size) | pair("mm.model.fc", size.out, 2 * size.width)
    found |= norm("v.pre_ln", size.width)
    return Made(
        SAM_KEYS,
        found
        | {
            "v.class_embd": (size.width,),
            "v.position_embd.weight": (257, size.width),
            "v.image_newline": (size.out,),
        },
    )


def _deepseekocr2(size: Size) -> Made:
    found = layers(size, gated=True, rms=True) | _sam(size) | pair("mm.model.fc", size.out, size.width)
    found |= {"v.resample_query_768.weight": (144, size.width), "v.resample_query_1024.weight": (256, size.width)}
    return Made(SAM_KEYS | {"attention.head_count_kv": size.heads}, found | {"v.post_ln.weight": (size.width,)})


def _dots3note(size: Size) -> Made:
    wide = 4 * size.width
    found = layers(size, gated=True, rms=True) | patches(size) | norm("mm.input_norm", size.width)
    found |= pair("mm.0", wide, wide) | pair("mm.2", size.out, wide) | {"mm.post_norm.weight": (size.width,)}
    at = f"v.blk.{LAYERS - 1}."
    found = {name: shape for name, shape in found.items() if not name.startswith(at + "ffn")}
    found |= {
        at + "ffn_gate_inp.weight": (4, size.width),
        at + "ffn_gate_exps.weight": (4, size.hidden // 2, size.width),
        at + "ffn_up_exps.weight": (4, size.hidden // 2, size.width),
        at + "ffn_down_exps.weight": (4, size.width, size.hidden // 2),
        at + "exp_probs_b.weight": (4,),
    }
    side = 2 * size.patch
    keys = {"spatial_merge_size": 2, "image_min_pixels": 4 * side**2, "image_max_pixels": 256 * side**2}
    return Made(keys | {"expert_used_count": 2}, found)


def _gemma3nv(size: Size) -> Made:
    """MobileNet V5 with the channels of Gemma 3n's and fewer blocks of each kind."""
    found: Shapes = {
        "v.conv_stem.conv.weight": (64, 3, 3, 3),
        "v.conv_stem.conv.bias": (64, 1, 1),
        "v.conv_stem.bn.weight": (64,),
    }
    for number, channels in ((0, 64), (1, 128)):
        at, wide = f"v.blk.0.{number}.", 4 * channels
        found |= {f"{at}conv_exp.weight": (wide, channels, 3, 3), f"{at}bn1.weight": (wide,)}
        found |= {f"{at}conv_pwl.weight": (128, wide, 1, 1), f"{at}bn2.weight": (128,)}
    for stage, (channels, out, start) in enumerate(((128, 256, 3), (256, 640, 5), (640, 1280, 5)), 1):
        found |= _inverted(f"v.blk.{stage}.0.", channels, 6 * channels, out, start, 5)
        if stage == 1:
            found |= _inverted(f"v.blk.{stage}.1.", out, 4 * out, out, 5, 0)
            continue
        heads, head = (12, 64) if stage == 2 else (16, 96)
        at = f"v.blk.{stage}.1."
        found |= {f"{at}norm.weight": (out,), f"{at}layer_scale.gamma": (out, 1, 1)}
        found |= {f"{at}attn.query.proj.weight": (heads * head, out, 1, 1)}
        found |= {f"{at}attn.output.proj.weight": (out, heads * head, 1, 1)}
        for name in ("key", "value"):
            found |= {f"{at}attn.{name}.proj.weight": (head, out, 1, 1), f"{at}attn.{name}.norm.weight": (out,)}
            found |= {f"{at}attn.{name}.down_conv.weight": (out, 1, 3, 3)}
    wide = 640 + 1280
    found |= {"v.msfa.ffn.pw_exp.conv.weight": (2 * wide, wide, 1, 1), "v.msfa.ffn.pw_exp.bn.weight": (2 * wide,)}
    found |= {"v.msfa.ffn.pw_proj.conv.weight": (2048, 2 * wide, 1, 1), "v.msfa.ffn.pw_proj.bn.weight": (2048,)}
    found |= {"v.msfa.norm.weight": (2048,), "mm.soft_emb_norm.weight": (2048,)}
    keys = {"embedding_length": 2048, "feed_forward_length": 8192, "image_size": 768, "patch_size": 3}
    return Made(keys | {"attention.head_count": 8}, found | {"mm.input_projection.weight": (size.out, 2048)})


def _inverted(at: str, channels: int, wide: int, out: int, start: int, middle: int) -> Shapes:
    """`start`, `middle`: sides of the kernels of two convolutions of each channel by itself; 0: there is none."""
    found: Shapes = {f"{at}dw_start.conv.weight": (channels, 1, start, start), f"{at}dw_start.bn.weight": (channels,)}
    found |= {f"{at}pw_exp.conv.weight": (wide, channels, 1, 1), f"{at}pw_exp.bn.weight": (wide,)}
    if middle:
        found |= {f"{at}dw_mid.conv.weight": (wide, 1, middle, middle), f"{at}dw_mid.bn.weight": (wide,)}
    found |= {f"{at}pw_proj.conv.weight": (out, wide, 1, 1), f"{at}pw_proj.bn.weight": (out,)}
    return found | {f"{at}layer_scale.gamma": (out, 1, 1)}


def _gemma4uv(size: Size) -> Made:
    numbers = 3 * (3 * size.patch) ** 2
    found = norm("v.patch_norm.1", numbers) | norm("v.patch_norm.2", size.width) | norm("v.patch_norm.3", size.width)
    return Made(
        {"block_count": 0, "projector.scale_factor": 3},
        found
        | {
            "v.patch_embd.weight": (size.width, numbers),
            "v.patch_embd.bias": (size.width,),
            "v.position_embd.weight": (2, 1024, size.width),
            "mm.input_projection.weight": (size.out, size.width),
        },
    )


def _glm5v(size: Size) -> Made:
    side, joined = 2 * size.patch, 2 * size.width
    found = layers(size, fused=True, gated=True, rms=True) | patches(size, twice=True)
    found |= pair("mm.patch_merger", joined, size.width, 2, 2) | norm("mm.post_norm", joined)
    keys = {"spatial_merge_size": 2, "image_min_pixels": 4 * side**2, "image_max_pixels": 256 * side**2}
    return Made(
        keys | {"swiglu_clamp": 7.0},
        found
        | {
            "v.post_ln.weight": (size.width,),
            "mm.model.fc.weight": (joined, joined),
            "mm.up.weight": (2 * joined, joined),
            "mm.gate.weight": (2 * joined, joined),
            "mm.down.weight": (size.out, 2 * joined),
        },
    )


STREAMS, QUERY, FIELD = 2, 4, 8
"""Of Granite Vision: parts of a row for several layers of the text model, and sides of what a window becomes."""
TILE = 384


def _granite4(size: Size) -> Made:
    width = size.width
    found = layers(size) | patches(size, placed=size.patches) | {"v.image_newline": (size.out,)}
    for number in range(STREAMS):
        at = f"v.proj_blk.{number}."
        found |= {f"{at}img_pos": (FIELD**2, width), f"{at}query": (QUERY**2, width)}
        found |= pair(at + "linear", size.out, width) | norm(at + "norm", width) | norm(at + "post_norm", width)
        found |= querying(at, width, 4 * width)
    keys: Keys = {
        "projector.query_side": QUERY, "projector.window_side": FIELD, "feature_layer": [0, LAYERS - 1],
        "projector.spatial_offsets": [-1, 0], "image_grid_pinpoints": [TILE, 2 * TILE, 2 * TILE, 2 * TILE],
    }  # fmt: skip
    return Made(keys, found)


def querying(at: str, width: int, hidden: int) -> Shapes:
    """A layer whose queries ask each other, then a window of what was computed."""
    found: Shapes = {}
    for kind in ("self_attn", "cross_attn"):
        for name in ("q", "k", "v", "out"):
            found |= pair(f"{at}{kind}_{name}", width, width)
        found |= norm(f"{at}{kind}_norm", width)
    return (
        found | pair(at + "ffn_up", hidden, width) | pair(at + "ffn_down", width, hidden) | norm(at + "ffn_norm", width)
    )


def _ldp(size: Size) -> Made:
    wide = size.out
    found = layers(size) | patches(size, placed=size.patches)
    found |= pair("mm.model.mlp.1", wide, size.width) | pair("mm.model.mlp.3", wide, wide)
    for number in (1, 2):
        at = f"mm.model.mb_block.{number}.block."
        found |= {f"{at}0.0.weight": (wide, 1, 3, 3), f"{at}2.0.weight": (wide, wide)}
        found |= norm(f"{at}0.1", wide) | norm(f"{at}2.1", wide)
        found |= pair(f"{at}1.fc1", wide // 4, wide) | pair(f"{at}1.fc2", wide, wide // 4)
    return Made({}, found)


def _ldpv2(size: Size) -> Made:
    wide = size.out
    found = layers(size) | patches(size, placed=size.patches) | pair("mm.model.peg.0", wide, 1, 3, 3)
    return Made({}, found | pair("mm.model.mlp.0", wide, size.width) | pair("mm.model.mlp.2", wide, wide))


def _mimovl(size: Size) -> Made:
    side, wide, shared = 2 * size.patch, 4 * size.width, max(1, size.heads // 2)
    found = layers(size, fused=True, gated=True, rms=True) | patches(size, twice=True, bias=False)
    for number in range(LAYERS):
        at = f"v.blk.{number}."
        found |= pair(at + "attn_qkv", 64 * (size.heads + 2 * shared), size.width)
        found |= pair(at + "attn_out", size.width, 64 * size.heads) | {at + "attn_sinks": (size.heads,)}
    found |= norm("v.post_ln", size.width) | {"mm.0.weight": (wide, wide), "mm.2.weight": (size.out, wide)}
    keys = {"spatial_merge_size": 2, "image_min_pixels": 4 * side**2, "image_max_pixels": 256 * side**2}
    return Made(keys | {"attention.head_count_kv": shared, "window_size": 32, "wa_pattern_mode": [-1, 0, 1]}, found)


def _minicpmv4_6(size: Size) -> Made:
    wide = 4 * size.width
    found = layers(size) | patches(size, placed=70 * 70) | norm("v.post_ln", size.width)
    found |= norm("v.vit_merger.ln1", size.width) | norm("v.vit_merger.ds_ln", wide) | norm("mm.input_norm", wide)
    for name in ("q", "k", "v", "out"):
        found |= pair(f"v.vit_merger.attn_{name}", size.width, size.width)
    found |= pair("v.vit_merger.ds_ffn_up", size.hidden, wide) | pair(
        "v.vit_merger.ds_ffn_down", size.width, size.hidden
    )
    return Made({"wa_layer_indexes": [0]}, found | pair("mm.up", wide, wide) | pair("mm.down", size.out, wide))


def _qwen25o(size: Size) -> Made:
    wide = 4 * size.width
    found = layers(size, gated=True, rms=True) | patches(size, twice=True, bias=False)
    found |= pair("mm.0", wide, wide) | pair("mm.2", size.out, wide) | {"v.post_ln.weight": (size.width,)}
    return Made({"n_wa_pattern": 2}, found)


def _resampler(size: Size) -> Made:
    out = size.out
    found = layers(size) | patches(size, placed=70 * 70) | norm("v.post_ln", size.width)
    for name in ("q", "k", "v", "out"):
        found |= pair(f"resampler.attn.{name}", out, out)
    for name in ("q", "kv", "post"):
        found |= norm(f"resampler.ln_{name}", out)
    return Made(
        {"clip.minicpmv_version": 6},
        found
        | {
            "resampler.pos_embed_k": (70 * 70, out),
            "resampler.query": (64, out),
            "resampler.kv.weight": (out, size.width),
            "resampler.proj.weight": (out, out),
        },
    )


def _step3vl(size: Size) -> Made:
    wide = 2 * size.width
    found = layers(size, fused=True) | patches(size, placed=size.patches) | norm("v.pre_ln", size.width)
    found |= pair("mm.0", wide, size.width, 3, 3) | pair("mm.1", 2 * wide, wide, 3, 3)
    return Made({"projector.scale_factor": 4}, found | {"mm.model.fc.weight": (size.out, 2 * wide)})


def _yasa2(size: Size) -> Made:
    found = patches(size) | norm("v.patch_ln", size.width)
    width = size.width
    for stage in range(4):
        at = f"v.stage.{stage}."
        if stage:
            found |= norm(at + "down.ln", width) | pair(at + "down.conv", 2 * width, width, 2, 2)
            width *= 2
        block = f"{at}blk.0."
        found |= pair(block + "dw", width, 1, 7, 7) | norm(block + "ln", width) | norm(block + "grn", 4 * width)
        found |= pair(block + "pw1", 4 * width, width) | pair(block + "pw2", width, 4 * width)
    side = size.image // size.patch // 8
    found["v.vision_pos_embed"] = (side**2, width)
    return Made({"block_count": 0}, found | pair("mm.0", size.out, width) | pair("mm.2", size.out, size.out))


RARER: dict[str, Callable[[Size], Made]] = {
    "adapter": _adapter,
    "cogvlm": _cogvlm,
    "deepseekocr": _deepseekocr,
    "deepseekocr2": _deepseekocr2,
    "dots3note_v": _dots3note,
    "gemma3nv": _gemma3nv,
    "gemma4uv": _gemma4uv,
    "glm5v": _glm5v,
    "granite4_vision": _granite4,
    "ldp": _ldp,
    "ldpv2": _ldpv2,
    "mimovl": _mimovl,
    "minicpmv4_6": _minicpmv4_6,
    "qwen2.5o": _qwen25o,
    "resampler": _resampler,
    "step3vl": _step3vl,
    "yasa2": _yasa2,
}
MARKERS = (
    *("<image>", "</image>", "<slice>", "</slice>", "<im_start>", "<im_end>", "<patch_start>", "<patch_end>"),
    *("<patch_newline>", "<start_of_image>", "<end_of_image>"),
)
"""Tokens that libmtmd puts around pictures of some types."""


def write_vocabulary(path: Path, width: int) -> Path:
    """The text model's file, of which the encoder only reads the vocabulary and the width."""
    plain = bpe()
    words = replace(
        plain, tokens=[*plain.tokens, *MARKERS], types=[*plain.types, *[int(TokenType.CONTROL)] * len(MARKERS)]
    )
    return write_llama(path, n_layer=1, n_embd=width, tokenizer=words)


OWN_SIZES = {
    "granite4_vision": {"patch": 16, "image": TILE},
    "yasa2": {"patch": 4, "image": 512},
    "minicpmv4_6": {"image": 448},
    "resampler": {"image": 448},
    "step3vl": {"image": 728},
}
"""What the type is made for."""


def write_rarer(kind: str, path: Path, **sizes: int) -> Path:
    """A file of this type."""
    size = Size(**{**OWN_SIZES.get(kind, {}), **sizes})
    made = RARER[kind](size)
    keys: Keys = {"image_size": size.image, "patch_size": size.patch, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    return write_zeros(path, kind, "vision", size, Made(keys | made.keys, made.shapes))


EXACT = ("position", "resample_query", "resampler.query", "pos_", "proj_query", "img_pos", "query", "code")
"""Parts of names of tensors that are F32 in every file."""
EXACT_KERNELS = ("gemma4a", "granite_speech", "lfm2a", "parakeet")
"""Types whose convolutions are, too."""


def write_zeros(path: Path, kind: str, part: str, size: Size, made: Made) -> Path:
    """`part`: vision or audio."""
    writer = GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_clip_projector_type(kind)
    writer.add_bool(f"clip.has_{part}_encoder", True)
    writer.add_bool("clip.use_silu", True)
    keys: Keys = {
        "embedding_length": size.width, "feed_forward_length": size.hidden, "block_count": LAYERS,
        "projection_dim": size.out, "attention.head_count": size.heads, "attention.layer_norm_epsilon": 1e-6,
    }  # fmt: skip
    for name, value in (keys | made.keys).items():
        key = name if name.startswith("clip.") else f"clip.{part}.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif key == "clip.minicpmv_version":
            writer.add_int32(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for name, shape in made.shapes.items():
        is_exact = (shape[-2:] == (1, 1) and len(shape) == 3) or len(shape) == 1 or name.endswith(".bias")
        is_exact = is_exact or any(part in name for part in EXACT) or (kind in EXACT_KERNELS and ".conv" in name)
        zeros = np.zeros(shape, np.float32 if is_exact else np.float16)
        writer.add_tensor(name, made.given.get(name, zeros))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
