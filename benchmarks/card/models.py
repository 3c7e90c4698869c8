"""Models of real widths with random quantized weights, written in the time that the disk takes.

No number is quantized: blocks are random bytes under a scale that keeps layers near a deviation of 1. Knows nothing of
what is measured with them.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from tests.models.hollow import SHAPES, Shape, write_hollow

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PATTERN_BLOCKS = 1 << 16
"""Different blocks of a file; then they repeat."""

CARD = {
    "dense": (SHAPES["Llama 3.1 8B"]._replace(layers=32, ctx=16_384), GGMLQuantizationType.Q4_K),
    "wide": (SHAPES["Llama 3.1 8B"]._replace(layers=32, ctx=16_384), GGMLQuantizationType.Q8_0),
    "experts": (
        Shape("qwen3moe", 2048, 768, 32, 4, 128, 32_000, layers=24, experts=64, experts_used=8),
        GGMLQuantizationType.Q4_K,
    ),
}
SMALL = {
    "dense": (Shape("llama", 256, 256, 4, 2, 64, 2_000, layers=2, ctx=8_192), GGMLQuantizationType.Q4_K),
    "wide": (Shape("llama", 256, 256, 4, 2, 64, 2_000, layers=2, ctx=8_192), GGMLQuantizationType.Q8_0),
    "experts": (
        Shape("qwen3moe", 256, 256, 4, 2, 64, 2_000, layers=2, experts=16, experts_used=2),
        GGMLQuantizationType.Q4_K,
    ),
}
"""For a rehearsal without a GPU."""


def write(folder: Path, name: str, *, small: bool) -> Path:
    """The model of that name, unless the folder has it."""
    shape, kind = (SMALL if small else CARD)[name]
    path = folder / f"{name}-{kind.name}.gguf"
    if not path.exists():
        part = write_hollow(path.with_suffix(".part"), shape, kind, chat_template=CHATML)
        _fill(part, shape.width)
        part.rename(path)
    return path


def _fill(path: Path, width: int) -> None:
    """Random blocks for matrices, ones for norms."""
    reader = gguf.GGUFReader(path, "r+")
    for tensor in reader.tensors:
        data = tensor.data.reshape(-1)
        if tensor.tensor_type == GGMLQuantizationType.F32:
            is_router = len(tensor.shape) > 1
            data[:] = np.random.default_rng(1).normal(0, width**-0.5, len(data)) if is_router else 1.0
            continue
        pattern = _blocks(tensor.tensor_type, int(tensor.shape[0])).reshape(-1)
        for start in range(0, len(data), len(pattern)):
            piece = data[start : start + len(pattern)]
            piece[:] = pattern[: len(piece)]


def _blocks(kind: GGMLQuantizationType, columns: int) -> npt.NDArray[np.uint8]:
    """(PATTERN_BLOCKS, bytes of a block): values of deviation columns**-0.5."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(0).integers(0, 256, (PATTERN_BLOCKS, size), dtype=np.uint8)
    deviation = columns**-0.5
    if kind == GGMLQuantizationType.Q8_0:
        blocks[:, :2] = np.frombuffer(np.float16(deviation / 74).tobytes(), np.uint8)
    elif kind == GGMLQuantizationType.Q4_K:
        scale = deviation / 270  # d * scale * q - dmin * min: with dmin = 7.5 d the mean is 0, the deviation some 260 d
        blocks[:, :4] = np.frombuffer(np.array([scale, 7.5 * scale], np.float16).tobytes(), np.uint8)
    else:
        raise ValueError(f"no scale is known for {kind.name}")
    return blocks
