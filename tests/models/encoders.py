"""Projectors of real widths with three layers of zeros: compute buffers do not depend on more."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGUFWriter

EncoderKind = Literal["gemma3", "idefics3", "mlp", "qwen2vl", "voxtral", "deepseek4v", "hunyuanvl"]
LAYERS = 3
TYPES = {"qwen2vl": "qwen2vl_merger"}


def write_encoder(
    kind: EncoderKind, path: Path, *, width: int = 768, hidden: int = 3072, heads: int = 12, patch: int = 16,
    size: int = 512, out: int = 64,
) -> Path:  # fmt: skip
    """The defaults are SigLIP-B's at 512 pixels, as in SmolVLM."""
    writer = GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_clip_projector_type(TYPES.get(kind, kind))
    part = "audio" if kind == "voxtral" else "vision"
    writer.add_bool(f"clip.has_{part}_encoder", True)
    numbers = {"embedding_length": width, "feed_forward_length": hidden, "block_count": LAYERS, "projection_dim": out}
    numbers["attention.head_count"] = heads
    more = {"num_mel_bins": 128, "projector.stack_factor": 50}
    if part == "vision":
        more = {"image_size": size, "patch_size": patch}
        if kind in ("gemma3", "idefics3"):
            more["projector.scale_factor"] = 4
        if kind == "idefics3":
            more["preproc_image_size"] = 4 * size
        if kind == "deepseek4v":
            more |= {"projector.scale_factor": 3, "image_min_pixels": 256}
        writer.add_bool("clip.use_gelu", True)
        writer.add_array("clip.vision.image_mean", [0.5] * 3)
        writer.add_array("clip.vision.image_std", [0.5] * 3)
    for name, number in {**numbers, **more}.items():
        writer.add_uint32(f"clip.{part}.{name}", number)
    writer.add_float32(f"clip.{part}.attention.layer_norm_epsilon", 1e-6)
    for name, shape in _tensors(kind, width, hidden, patch, size, out).items():
        exact: Any = np.float32 if len(shape) == 1 or "position" in name or "bias" in name else np.float16
        writer.add_tensor(name, np.zeros(shape, exact))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(kind: EncoderKind, width: int, hidden: int, patch: int, size: int, out: int) -> dict[str, tuple[int, ...]]:
    """NumPy's order: rows first."""
    letter = "a" if kind == "voxtral" else "v"
    found: dict[str, tuple[int, ...]] = {f"{letter}.post_ln.{end}": (width,) for end in ("weight", "bias")}
    for layer in range(LAYERS):
        at = f"{letter}.blk.{layer}."
        square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_out"), (width, width))
        for name, shape in {**square, "ffn_up": (hidden, width), "ffn_down": (width, hidden)}.items():
            found[f"{at}{name}.weight"] = shape
            if (kind, name) != ("voxtral", "attn_k"):
                found[f"{at}{name}.bias"] = shape[:1]
        found |= {f"{at}{norm}.{end}": (width,) for norm in ("ln1", "ln2") for end in ("weight", "bias")}
    if kind == "voxtral":
        found |= {"a.conv1d.1.weight": (width, 128, 3), "a.conv1d.2.weight": (width, width, 3)}
        found |= {f"a.conv1d.{number}.bias": (width, 1) for number in (1, 2)}
        return found | {
            "a.position_embd.weight": (1500, width),
            "mm.a.mlp.1.weight": (out, 50 * width),
            "mm.a.mlp.2.weight": (out, out),
        }
    found["v.patch_embd.weight"] = (width, 3, patch, patch)
    if kind == "qwen2vl":
        found |= {"v.patch_embd.weight.1": (width, 3, patch, patch), "mm.0.weight": (4 * width, 4 * width)}
        return found | {"mm.0.bias": (4 * width,), "mm.2.weight": (out, 4 * width), "mm.2.bias": (out,)}
    if kind == "deepseek4v":
        found = {name: shape for name, shape in found.items() if "post_ln" not in name and not name.endswith("bias")}
        found |= {f"v.blk.{layer}.ffn_gate.weight": (hidden, width) for layer in range(LAYERS)}
        found |= {f"v.token_embd.img_{name}": (out,) for name in ("start", "end", "pad")}
        found |= {"v.image_newline": (out,), "mm.1.weight": (2 * width, 9 * width), "mm.1.bias": (2 * width,)}
        return found | {"mm.2.weight": (out, 2 * width), "mm.2.bias": (out,)}
    found |= {"v.position_embd.weight": ((size // patch) ** 2, width), "v.patch_embd.bias": (width,)}
    if kind == "hunyuanvl":
        found = {name: shape for name, shape in found.items() if "post_ln" not in name}
        found |= {"mm.0.weight": (2 * width, width, 2, 2), "mm.0.bias": (2 * width,)}
        found |= {"mm.2.weight": (4 * width, 2 * width, 1, 1), "mm.2.bias": (4 * width,)}
        found |= {"mm.model.fc.weight": (out, 4 * width), "mm.model.fc.bias": (out,), "mm.pre_norm.weight": (width,)}
        found |= dict.fromkeys(("mm.post_norm.weight", "mm.image_begin", "mm.image_end"), (out,))
        return found | {"v.image_newline": (4 * width,)}
    if kind == "gemma3":
        return found | {"mm.soft_emb_norm.weight": (width,), "mm.input_projection.weight": (width, out)}
    if kind == "idefics3":
        return found | {"mm.model.fc.weight": (out, 16 * width)}
    return {name: shape for name, shape in found.items() if "post_ln" not in name and name != "v.patch_embd.bias"} | {
        "mm.0.weight": (out, width),
        "mm.0.bias": (out,),
        "mm.2.weight": (out, out),
        "mm.2.bias": (out,),
    }
