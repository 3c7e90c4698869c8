"""Types that llama.cpp's recipes give the matrices of a quantized file: src/llama-quant.cpp."""

from __future__ import annotations

RECIPES: dict[str, tuple[str, str, str]] = {
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
"""Quantization -> types of most matrices, of the better ones, and of the head."""
NARROW = {
    "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "IQ4_XS": "IQ4_NL",
    "IQ3_S": "IQ4_NL", "IQ3_XXS": "IQ4_NL", "IQ2_S": "IQ4_NL", "IQ2_XS": "IQ4_NL", "IQ2_XXS": "IQ4_NL",
    "IQ1_S": "IQ4_NL", "IQ1_M": "IQ4_NL",
}  # fmt: skip
"""The types llama.cpp falls back to if a row is not a multiple of 256."""
