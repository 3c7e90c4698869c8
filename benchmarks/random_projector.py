"""A projector with random weights, for measuring speed: InternVL's type, and by default as large as SigLIP-B (93 M)."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

HEAD_WIDTH, PATCH, SHUFFLE = 64, 16, 2


def write_random_projector(
    path: Path,
    *,
    output_width: int,
    tile: int = 256,
    tiles: int = 4,
    layers: int = 12,
    width: int = 768,
    seed: int = 0,
) -> None:
    """Pictures are cut into up to `tiles` tiles of `tile` pixels a side, beside an overview. `output_width`: of the
    text model; `width`: of the encoder, a multiple of 64."""
    hidden = 4 * width
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_name(path.stem)
    writer.add_clip_projector_type("internvl")
    writer.add_clip_has_vision_encoder(True)
    writer.add_vision_projection_dim(output_width)
    writer.add_vision_image_size(tile)
    writer.add_vision_patch_size(PATCH)
    writer.add_vision_embedding_length(width)
    writer.add_vision_feed_forward_length(hidden)
    writer.add_vision_block_count(layers)
    writer.add_vision_head_count(width // HEAD_WIDTH)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_use_gelu(True)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_projector_scale_factor(SHUFFLE)
    writer.add_uint32("clip.vision.preproc_max_tiles", tiles)
    random = np.random.default_rng(seed)

    def vector(name: str, length: int, value: float) -> None:
        writer.add_tensor(name, np.full(length, value, np.float32))

    def matrix(name: str, *shape: int) -> None:
        scale = np.prod(shape[1:]) ** -0.5
        weights: npt.NDArray[np.float32] = random.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        writer.add_tensor(name, weights.astype(np.float16))

    matrix("v.patch_embd.weight", width, 3, PATCH, PATCH)
    vector("v.patch_embd.bias", width, 0)
    vector("v.class_embd", width, 0.1)
    places = random.standard_normal(((tile // PATCH) ** 2 + 1, width), dtype=np.float32) * np.float32(0.02)
    writer.add_tensor("v.position_embd.weight", places)
    for layer in range(layers):
        block = f"v.blk.{layer}."
        for norm in ("ln1", "ln2"):
            vector(f"{block}{norm}.weight", width, 1)
            vector(f"{block}{norm}.bias", width, 0)
        for name, rows, columns in (
            *((f"attn_{each}", width, width) for each in ("q", "k", "v", "out")),
            ("ffn_up", hidden, width),
            ("ffn_down", width, hidden),
        ):
            matrix(f"{block}{name}.weight", rows, columns)
            vector(f"{block}{name}.bias", rows, 0)
    shuffled = width * SHUFFLE**2
    vector("mm.model.mlp.0.weight", shuffled, 1)
    vector("mm.model.mlp.0.bias", shuffled, 0)
    for number, columns in ((1, shuffled), (3, output_width)):
        matrix(f"mm.model.mlp.{number}.weight", output_width, columns)
        vector(f"mm.model.mlp.{number}.bias", output_width, 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
