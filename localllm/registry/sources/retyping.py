"""Infers a quantization's tensor types from the header of another quantization of the same model and the file size.

llama.cpp's recipes use one type for most matrices, a better one for some, and one for the output head; how many get the
better one follows from the size. Knows nothing of files and speeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from localllm.gguf.tables import BLOCK_TYPES
from localllm.registry.sources.quants import plain
from localllm.types.products import Matrices, Products

_RECIPES: dict[str, tuple[str, str, str]] = {
    "F32": ("F32", "F32", "F32"), "F16": ("F16", "F16", "F16"), "BF16": ("BF16", "BF16", "BF16"),
    "Q8_0": ("Q8_0", "Q8_0", "Q8_0"), "Q6_K": ("Q6_K", "Q8_0", "Q6_K"),
    "Q5_0": ("Q5_0", "Q5_1", "Q6_K"), "Q5_1": ("Q5_1", "Q8_0", "Q6_K"), "Q5_K_S": ("Q5_K", "Q6_K", "Q6_K"),
    "Q5_K_M": ("Q5_K", "Q6_K", "Q6_K"), "Q5_K": ("Q5_K", "Q6_K", "Q6_K"),
    "Q4_0": ("Q4_0", "Q4_1", "Q6_K"), "Q4_1": ("Q4_1", "Q5_1", "Q6_K"), "Q4_K_S": ("Q4_K", "Q5_K", "Q6_K"),
    "Q4_K_M": ("Q4_K", "Q6_K", "Q6_K"), "Q4_K": ("Q4_K", "Q6_K", "Q6_K"), "Q4_K_L": ("Q4_K", "Q6_K", "Q8_0"),
    "Q4_K_XL": ("Q4_K", "Q6_K", "Q6_K"), "IQ4_NL": ("IQ4_NL", "Q5_K", "Q6_K"), "IQ4_XS": ("IQ4_XS", "Q5_K", "Q6_K"),
    "MXFP4": ("MXFP4", "Q8_0", "Q8_0"), "MXFP4_MOE": ("MXFP4", "Q8_0", "Q8_0"),
    "Q3_K_S": ("Q3_K", "Q4_K", "Q6_K"), "Q3_K_M": ("Q3_K", "Q4_K", "Q6_K"), "Q3_K_L": ("Q3_K", "Q5_K", "Q6_K"),
    "Q3_K": ("Q3_K", "Q4_K", "Q6_K"), "IQ3_M": ("IQ3_S", "Q4_K", "Q6_K"), "IQ3_S": ("IQ3_S", "Q4_K", "Q6_K"),
    "IQ3_XS": ("IQ3_S", "IQ3_XXS", "Q6_K"), "IQ3_XXS": ("IQ3_XXS", "IQ3_S", "Q5_K"),
    "Q2_K": ("Q2_K", "Q3_K", "Q6_K"), "Q2_K_S": ("Q2_K", "Q4_K", "Q6_K"), "IQ2_M": ("IQ2_S", "Q4_K", "Q5_K"),
    "IQ2_S": ("IQ2_S", "Q4_K", "Q5_K"), "IQ2_XS": ("IQ2_XS", "Q4_K", "Q5_K"), "IQ2_XXS": ("IQ2_XXS", "Q4_K", "Q5_K"),
    "IQ1_M": ("IQ1_M", "Q4_K", "Q5_K"), "IQ1_S": ("IQ1_S", "Q4_K", "Q5_K"),
}  # fmt: skip
"""Quantization -> types of most matrices, of the better ones, and of the head (llama-quant.cpp)."""
_NARROW = {
    "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "IQ4_XS": "IQ4_NL",
    "IQ3_S": "IQ4_NL", "IQ3_XXS": "IQ4_NL", "IQ2_S": "IQ4_NL", "IQ2_XS": "IQ4_NL", "IQ2_XXS": "IQ4_NL",
    "IQ1_S": "IQ4_NL", "IQ1_M": "IQ4_NL",
}  # fmt: skip
"""The types llama.cpp falls back to if a row is not a multiple of 256."""
_BLOCKS = {block.name: block for block in BLOCK_TYPES.values()}


def retyped(products: Products, quant: str | None, *, from_bytes: int, to_bytes: int) -> Products:
    """The products of a file of `to_bytes` in the quantization `quant`; empty if its recipe is unknown."""
    recipe = None if quant is None else _RECIPES.get(plain(quant))
    if recipe is None or not products.matrices:
        return Products()
    base, better, head = recipe
    plainly = tuple(_with_type(each, head if each.is_head else base) for each in products.matrices)
    at_best = tuple(_with_type(each, head if each.is_head else better) for each in products.matrices)
    beside = _beside(products, from_bytes, sum(map(_bytes, plainly)) / max(1.0, sum(map(_bytes, products.matrices))))
    low, high = sum(map(_bytes, plainly)) + beside, sum(map(_bytes, at_best)) + beside
    share = 0.0 if high == low else min(max((to_bytes - low) / (high - low), 0.0), 1.0)
    mixed = [*_mixed(plainly, 1 - share), *_mixed(at_best, share, heads=False)]
    return msgspec.structs.replace(products, matrices=tuple(mixed))


def _with_type(each: Matrices, type: str) -> Matrices:
    """Matrices that are F32 in a quantized file, such as routers, stay F32."""
    if each.type == "F32":
        return each
    name = _NARROW.get(type, type) if each.inputs % _BLOCKS[type].length else type
    block = _BLOCKS[name]
    return msgspec.structs.replace(each, type=name, bytes=each.weights // block.length * block.size)


def _bytes(each: Matrices) -> float:
    return each.count * each.bytes * (each.experts or 1)


def _beside(products: Products, size_bytes: int, factor: float) -> float:
    """Vectors keep their type; the embedding, of which single rows are read, gets roughly the type of the matrices."""
    vectors = 4 * products.vector_numbers
    return vectors + max(0.0, size_bytes - vectors - sum(map(_bytes, products.matrices))) * factor


def _mixed(matrices: tuple[Matrices, ...], share: float, *, heads: bool = True) -> Iterator[Matrices]:
    for each in matrices:
        if each.is_head or each.type == "F32":
            if heads:
                yield each
        elif share > 0:
            yield msgspec.structs.replace(each, count=each.count * share)
