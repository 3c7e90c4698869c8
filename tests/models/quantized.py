"""A tiny llama in every tensor type that can hold weights: what the CPU backend multiplies with.

Types that `gguf.quants` can write come from it, most others from `llama_model_quantize`. The 1 and 2 bit types with a
codebook would take it up to 5 s each to set up, so those are random blocks: every bit pattern is a weight. Left out
are the integers and F64 (no weights), and Q8_1 and Q8_K, which only ever hold activations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, LlamaFileType, quants
from gguf import GGMLQuantizationType as Type

from tests.models.maker import run_child, write_llama

WRITTEN = (
    Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.TQ1_0, Type.TQ2_0,
    Type.MXFP4,
)  # fmt: skip

QUANTIZED = {
    "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ3_XXS": 18, "IQ4_NL": 20, "IQ3_S": 21, "IQ4_XS": 23,
    "NVFP4": 40, "Q1_0": 41, "Q2_0": 42,
}  # fmt: skip
"""Name -> ggml type number (gguf 0.19 does not know Q2_0)."""

RANDOM_BLOCKS = (Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ1_S, Type.IQ1_M)

TYPE_NAMES = (*(kind.name for kind in WRITTEN), *QUANTIZED, *(kind.name for kind in RANDOM_BLOCKS))

N_EMBD = 256
MATRIX = "blk.0.ffn_down.weight"


def write_every_type(folder: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """Two models per type name: one whose `ffn_down` has it, and one with those weights in F32 to compare with.

    All else in them is F16, or Q8_0 where llama.cpp quantized. For a type that was not made of random blocks the
    second is the model before quantization.
    """
    paths = {name: folder / f"llama-{name}.gguf" for name in TYPE_NAMES}
    for kind in WRITTEN:
        _write(paths[kind.name], kind)
    references = dict.fromkeys(paths, paths["F32"])
    for kind in RANDOM_BLOCKS:
        blocks = random_blocks(kind)
        _write(paths[kind.name], kind, blocks)
        twin = folder / f"llama-{kind.name}-in-f32.gguf"
        references[kind.name] = _write(twin, Type.F32, quants.dequantize(blocks, kind))
    jobs = [_job(paths["F16"], paths[name], number) for name, number in QUANTIZED.items()]
    run_child("tests.models.quantize_child", jobs)
    return paths, references


def random_blocks(kind: Type) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Random bits but for the fp16 scale of each block, so that the weights have a deviation near 1/16.

    The scale is a block's first two bytes; IQ1_M spreads it over the top four bits of its last four 16-bit words
    (block layouts: ggml-common.h).
    """
    length, size = GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(int(kind))
    blocks = generator.integers(0, 256, (N_EMBD * N_EMBD // length, size), dtype=np.uint8)
    for scale in (1.0, 0.0625 / _deviation(_with_scale(blocks, kind, 1.0), kind)):
        blocks = _with_scale(blocks, kind, scale)
    return blocks.reshape(N_EMBD, -1)


def _deviation(blocks: np.ndarray[Any, Any], kind: Type) -> float:
    return float(np.std(quants.dequantize(blocks, kind)))


def _with_scale(blocks: np.ndarray[Any, Any], kind: Type, scale: float) -> np.ndarray[Any, np.dtype[np.uint8]]:
    scaled = blocks.copy()
    bits = int(np.float16(scale).view(np.uint16))
    if kind == Type.IQ1_M:
        for word in range(4):
            high_byte = scaled[:, 2 * word - 7]
            high_byte[:] = (high_byte & 0x0F) | ((bits >> 4 * word & 0x0F) << 4)
    else:
        scaled[:, 0], scaled[:, 1] = bits & 0xFF, bits >> 8
    return scaled


def _write(path: Path, kind: Type, matrix: np.ndarray[Any, Any] | None = None) -> Path:
    """Rows of 256, the K-quants' block; 32 rows and more, as AMX wants."""
    return write_llama(
        path,
        n_layer=1,
        n_embd=N_EMBD,
        n_ff=N_EMBD,
        n_head=4,
        n_kv=1,
        dtype=Type.F16,
        tensor_types={"ffn_down": kind},
        name=f"tiny-llama-{kind.name}",
        given={} if matrix is None else {MATRIX: matrix},
    )


def _job(source: Path, target: Path, number: int) -> dict[str, Any]:
    return {
        "source": str(source),
        "target": str(target),
        "file_type": int(LlamaFileType.MOSTLY_Q8_0),
        "tensor_types": {"ffn_down": number},
        "importance": True,
        "pure": False,
    }
