"""Infers a quantization's tensor types from the header of another quantization of the same model and the file size.

llama.cpp's recipes use one type for most matrices, a better one for some, and one for the output head; how many get the
better one follows from the size. Knows nothing of files and speeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from localllm.gguf.rules.recipes import NARROW, RECIPES
from localllm.gguf.tables import BLOCK_TYPES
from localllm.registry.sources.quants import plain
from localllm.types.headers.products import Matrices, Products

_BLOCKS = {block.name: block for block in BLOCK_TYPES.values()}


def retyped(products: Products, quant: str | None, *, from_bytes: int, to_bytes: int) -> Products:
    """The products of a file of `to_bytes` in the quantization `quant`; empty if its recipe is unknown."""
    recipe = None if quant is None else RECIPES.get(plain(quant))
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
    name = NARROW.get(type, type) if each.inputs % _BLOCKS[type].length else type
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
