"""Quantization names in file names: finding, comparing and ranking them.

    Model-Q4_K_M.gguf   model.q4_k_m.gguf   UD-Q4_K_XL/Model-UD-Q4_K_XL-00001-of-00002.gguf   gpt-oss-20b-mxfp4.gguf

Knows nothing of sizes, machines or the content of files.
"""

from __future__ import annotations

import re

_SHARD = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)
_BEFORE, _AFTER = r"(?:^|(?<=[-._/ ]))", r"(?=$|[-._/ ])"
_QUANTIZED = re.compile(
    _BEFORE + r"(?:(?:UD|I1)-)?(?:I?Q[1-9](?:_[0-9A-Z]+)*|TQ[12]_0|(?:MX|NV)FP4(?:_MOE)?)" + _AFTER, re.IGNORECASE
)
_FLOAT = re.compile(_BEFORE + r"(?:BF16|FP?16|FP?32)" + _AFTER, re.IGNORECASE)
_BITS = re.compile(r"[1-9]")

FOUR_BITS = ("Q4_K_M", "MXFP4", "MXFP4_MOE", "Q4_K_XL", "Q4_K", "Q4_K_L", "Q4_K_S", "IQ4_NL", "Q4_0", "IQ4_XS", "Q4_1")
"""Defaults, in order of preference. Q4_K_M is the usual one; models in MXFP4 were trained in it."""
SMALLER = ("Q3_K_L", "Q3_K_XL", "Q3_K_M", "IQ3_M", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS",
           "Q2_K_L", "Q2_K_XL", "Q2_K", "IQ2_M", "IQ2_S", "Q2_K_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S")  # fmt: skip
"""If no four-bit quantization fits: best first."""
LARGER = ("Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "BF16", "F16", "F32")
"""If there is no four-bit quantization: smallest first."""
REMOVED = frozenset(["Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8"])
"""No longer read by llama.cpp, which repacks Q4_0 when loading."""


def split_shard(path: str) -> tuple[str, int, int]:
    """`("big", 2, 3)` for `big-00002-of-00003.gguf`, `("small", 1, 1)` for `small.gguf`: stem, number and count."""
    stem = path[:-5] if path.lower().endswith(".gguf") else path
    match = _SHARD.fullmatch(stem)
    return (stem, 1, 1) if match is None else (match["stem"], int(match["number"]), int(match["count"]))


def shard_name(stem: str, number: int, count: int) -> str:
    """The inverse of `split_shard`; llama.cpp accepts no other names."""
    return f"{stem}.gguf" if count == 1 else f"{stem}-{number:05}-of-{count:05}.gguf"


def quant_of(path: str) -> str | None:
    """The quantization in normal form: the last one in the file's name, else the last one in its folders' names."""
    folder, _, name = split_shard(path)[0].rpartition("/")
    for where in (name, folder):
        for pattern in (_QUANTIZED, _FLOAT):  # `model.f16.Q6_K.gguf` is Q6_K with some tensors kept in F16
            found = pattern.findall(where)
            if found:
                return normal(found[-1])
    return None


def normal(quant: str) -> str:
    """The normal form: `q4_k_m` is `Q4_K_M`, `fp16` is `F16`."""
    upper = quant.upper()
    return {"FP16": "F16", "FP32": "F32"}.get(upper, upper)


def plain(quant: str) -> str:
    """Without the prefix of its recipe: `UD-Q4_K_XL` is `Q4_K_XL`, `I1-Q4_K_M` is `Q4_K_M`."""
    return quant.removeprefix("UD-").removeprefix("I1-")


def without_quant(path: str) -> str:
    """The file's name without the quantization, in lower case: the same for all quantizations of one model."""
    name = split_shard(path)[0].rpartition("/")[2].lower()
    for pattern in (_QUANTIZED, _FLOAT):
        name = pattern.sub("", name)
    return name.strip("-._ ")


def bits(quant: str) -> int:
    """Approximate bits per weight; 0 if the name does not tell."""
    name = plain(quant)
    if name in ("F16", "BF16", "F32"):
        return int(name[-2:])
    match = _BITS.search(name.replace("MXFP4", "4").replace("NVFP4", "4"))
    return 0 if match is None else int(match[0])
