"""Models of real shapes and types for comparing predictions: sparse files whose weights are all 0.

The speed of kernels does not depend on the weights. `demo.gguf`, a real model, is measured as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from gguf import GGMLQuantizationType as Type

from tests.models.hollow import SHAPES, Shape, write_hollow

DEMO = Path(__file__).parents[1] / "localllm" / "data" / "demo.gguf"
_BLOCK = re.compile(r"blk\.(\d+)\.")
_SMALL = Shape("llama", 576, 1536, 9, 3, 64, 49_152, layers=30, ctx=8192, tied=True)
_MEDIUM = Shape("llama", 960, 2560, 15, 5, 64, 49_152, layers=32, ctx=8192, tied=True)
_HALF = Shape("llama", 896, 4864, 14, 2, 64, 151_936, layers=24, ctx=32_768, tied=True)
_MIXTURE = Shape("qwen3moe", 1024, 512, 16, 4, 64, 50_304, layers=16, experts=32, experts_used=4)


def mixed(base: Type, better: Type, shape: Shape) -> Callable[[str], Type]:
    """llama.cpp's `_M` mixtures: a better type for the head, and for attn_v and ffn_down in half of the layers."""
    head = "token_embd.weight" if shape.tied else "output.weight"

    def kind_of(name: str) -> Type:
        if name == head:
            return better
        match = _BLOCK.match(name)
        more = match is not None and _has_more_bits(int(match[1]), shape.layers)
        return better if more and ("attn_v" in name or "ffn_down" in name) else base

    return kind_of


def _has_more_bits(layer: int, layers: int) -> bool:
    """llama.cpp's `use_more_bits`: an eighth at each end, and every third between."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def shapes() -> dict[str, tuple[Shape, Type | Callable[[str], Type]]]:
    """Name -> shape and types; from 0.1 to 1.5 billion parameters."""
    llama, qwen = SHAPES["Llama 3.2 1B"]._replace(layers=16), SHAPES["Qwen3 0.6B"]._replace(layers=28)
    gemma, tiny = SHAPES["Gemma 3 1B"]._replace(layers=26), SHAPES["TinyLlama"]._replace(layers=22, ctx=2048)
    return {
        "SmolLM2 135M Q8_0": (_SMALL, Type.Q8_0),
        "SmolLM2 360M Q4_0": (_MEDIUM, Type.Q4_0),
        "Qwen2.5 0.5B F16": (_HALF, Type.F16),
        "Qwen2.5 0.5B BF16": (_HALF, Type.BF16),
        "Qwen3 0.6B Q4_K_M": (qwen, mixed(Type.Q4_K, Type.Q6_K, qwen)),
        "Gemma 3 1B Q4_0": (gemma, Type.Q4_0),
        "TinyLlama 1.1B Q4_K_M": (tiny, mixed(Type.Q4_K, Type.Q6_K, tiny)),
        "Llama 3.2 1B Q5_K_M": (llama, mixed(Type.Q5_K, Type.Q6_K, llama)),
        "Llama 3.2 1B IQ4_XS": (llama, mixed(Type.IQ4_XS, Type.Q6_K, llama)),
        "Llama 3.2 1B Q8_0": (llama, Type.Q8_0),
        "mixture 0.9B-A0.3B Q4_K_M": (_MIXTURE, mixed(Type.Q4_K, Type.Q6_K, _MIXTURE)),
    }


def write_all(folder: Path) -> dict[str, Path]:
    """Write the missing models as sparse files; returns all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"demo 4.5M": DEMO}
    for name, (shape, kind) in shapes().items():
        path = folder / f"{name.replace(' ', '-')}.gguf"
        if not path.exists():
            write_hollow(path, shape, kind)
        found[name] = path
    return found
