"""The numbers that a GGUF file uses for tensor types and value types. Plain data.

These are the tables of the `gguf` package, written out because importing it takes 0.2 s (it loads NumPy and YAML),
which would slow down `show` and the server; a test keeps them equal. Two differences, both from llama.cpp's
ggml-common.h: Q8_1 takes 36 bytes (gguf 0.19 says 40), and Q2_0 exists.
"""

from __future__ import annotations

from typing import NamedTuple


class BlockType(NamedTuple):
    """A tensor type: `size` bytes hold `length` consecutive numbers of a row."""

    name: str
    length: int
    size: int


BLOCK_TYPES: dict[int, BlockType] = {
    number: BlockType(name, length, size)
    for number, name, length, size in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 36),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}

STRING, ARRAY, BOOL = 8, 9, 7

SCALAR_FORMATS: dict[int, str] = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    BOOL: "<B",
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""Metadata value type -> `struct` format; strings and arrays are the other two types."""

UINT32, INT32, FLOAT32 = 4, 5, 6
