"""The demo model's picture encoder in PyTorch, exactly as libmtmd computes a projector of type `janus_pro`.

    picture [3, 48, 48]  ->  16 patches of 12x12  ->  SigLIP's layers  ->  two matrices  ->  16 rows, 256 wide

That type is the plainest of libmtmd's: every picture has one size, and no tokens stand around its rows
(tools/mtmd/models/siglip.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFEndian, GGUFWriter, quants
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

AUTHOR = "the localllm project"


@dataclass(frozen=True, slots=True)
class Eye:
    """The dimensions. Matrix rows are multiples of 32, as Q8_0 needs."""

    size: int = 48
    patch: int = 12
    width: int = 128
    heads: int = 4
    hidden: int = 384
    layers: int = 4
    out: int = 256
    """The width of the model that reads the rows."""
    norm_epsilon: float = 1e-6

    @property
    def rows(self) -> int:
        return (self.size // self.patch) ** 2


class Layer(nn.Module):
    """Attention among all patches, and a feed-forward; parameters have their GGUF names."""

    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.heads = eye.heads
        self.ln1 = nn.LayerNorm(eye.width, eps=eye.norm_epsilon)
        self.attn_q = nn.Linear(eye.width, eye.width)
        self.attn_k = nn.Linear(eye.width, eye.width)
        self.attn_v = nn.Linear(eye.width, eye.width)
        self.attn_out = nn.Linear(eye.width, eye.width)
        self.ln2 = nn.LayerNorm(eye.width, eps=eye.norm_epsilon)
        self.ffn_up = nn.Linear(eye.width, eye.hidden)
        self.ffn_down = nn.Linear(eye.hidden, eye.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, rows, width = x.shape
        normed = self.ln1(x)
        q, k, v = (
            matrix(normed).view(batch, rows, self.heads, -1).transpose(1, 2)
            for matrix in (self.attn_q, self.attn_k, self.attn_v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, rows, width)
        x = x + self.attn_out(mixed)
        return x + self.ffn_down(gelu(self.ffn_up(self.ln2(x))))


class Encoder(nn.Module):
    """Pictures, float32 [batch, 3, size, size] from -1 to 1, to rows, float32 [batch, rows, out]."""

    def __init__(self, eye: Eye) -> None:
        super().__init__()
        self.eye = eye
        self.patch_embd = nn.Conv2d(3, eye.width, eye.patch, eye.patch)
        self.position_embd = nn.Parameter(torch.randn(eye.rows, eye.width) * 0.02)
        self.blk = nn.ModuleList(Layer(eye) for _ in range(eye.layers))
        self.post_ln = nn.LayerNorm(eye.width, eps=eye.norm_epsilon)
        self.mm_0 = nn.Linear(eye.width, eye.out)
        self.mm_1 = nn.Linear(eye.out, eye.out)

    def patches(self, pictures: Tensor) -> Tensor:
        """What the layers make of the patches, float32 [batch, rows, width]."""
        x = self.patch_embd(pictures).flatten(2).transpose(1, 2) + self.position_embd
        for layer in self.blk:
            x = layer(x)
        return self.post_ln(x)

    def rows(self, patches: Tensor) -> Tensor:
        """What the model reads."""
        return self.mm_1(gelu(self.mm_0(patches)))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.rows(self.patches(pictures))


def gelu(x: Tensor) -> Tensor:
    """ggml's `gelu`: by tanh."""
    return functional.gelu(x, approximate="tanh")


def pixels(picture: Image.Image, eye: Eye) -> NDArray[np.uint8]:
    """A square picture in the encoder's size, uint8 [3, size, size]."""
    small = picture.convert("RGB").resize((eye.size, eye.size), Image.Resampling.BICUBIC)
    return np.asarray(small, np.uint8).transpose(2, 0, 1)


def write(path: Path, encoder: Encoder, name: str) -> None:
    """Write the projector's GGUF: matrices in Q8_0, patches in F16, the rest in F32."""
    eye = encoder.eye
    writer = GGUFWriter(path, "clip", endianess=GGUFEndian.LITTLE)
    writer.add_type("mmproj")
    writer.add_name(name)
    writer.add_author(AUTHOR)
    writer.add_license("MIT")
    writer.add_clip_projector_type("janus_pro")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.use_gelu", True)
    for key, number in {
        "image_size": eye.size, "patch_size": eye.patch, "embedding_length": eye.width, "block_count": eye.layers,
        "feed_forward_length": eye.hidden, "projection_dim": eye.out, "attention.head_count": eye.heads,
    }.items():  # fmt: skip
        writer.add_uint32(f"clip.vision.{key}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", eye.norm_epsilon)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)
    for key, parameter in encoder.state_dict().items():
        _add(writer, tensor_name(key), parameter.detach().to("cpu", torch.float32).contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensor_name(key: str) -> str:
    """`blk.0.ln1.weight` becomes `v.blk.0.ln1.weight`, `mm_0.bias` becomes `mm.0.bias`."""
    if key == "position_embd":
        return "v.position_embd.weight"
    return key.replace("mm_", "mm.") if key.startswith("mm_") else f"v.{key}"


def _add(writer: GGUFWriter, name: str, values: NDArray[np.float32]) -> None:
    if name == "v.patch_embd.weight":
        writer.add_tensor(name, values.astype(np.float16))
    elif values.ndim == 2 and name != "v.position_embd.weight":
        kind = GGMLQuantizationType.Q8_0
        writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)
    else:
        writer.add_tensor(name, values)
