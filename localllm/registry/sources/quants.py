"""The names of quantizations as they stand in the names of files: finding them, comparing them, ranking them.

    Model-Q4_K_M.gguf   model.q4_k_m.gguf   UD-Q4_K_XL/Model-UD-Q4_K_XL-00001-of-00002.gguf   gpt-oss-20b-mxfp4.gguf

Knows nothing of sizes and machines, nor what is really in a file: only what it is called.
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
"""Taken if none is asked for: the first of these that exists. Q4_K_M is the usual default; MXFP4 is what the models
that come in it were trained in."""
SMALLER = ("Q3_K_L", "Q3_K_XL", "Q3_K_M", "IQ3_M", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS",
           "Q2_K_L", "Q2_K_XL", "Q2_K", "IQ2_M", "IQ2_S", "Q2_K_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S")  # fmt: skip
"""Where no four bits fit: good ones first."""
LARGER = ("Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0", "BF16", "F16", "F32")
"""Where there are no four bits: small ones first."""
REMOVED = frozenset(["Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8"])
"""llama.cpp reads these no longer; it repacks Q4_0 by itself."""


def split_shard(path: str) -> tuple[str, int, int]:
    """`("big", 2, 3)` for `big-00002-of-00003.gguf`, `("small", 1, 1)` for `small.gguf`: stem, number and count."""
    stem = path[:-5] if path.lower().endswith(".gguf") else path
    match = _SHARD.fullmatch(stem)
    return (stem, 1, 1) if match is None else (match["stem"], int(match["number"]), int(match["count"]))


def shard_name(stem: str, number: int, count: int) -> str:
    """The inverse of `split_shard`; llama.cpp opens no other names."""
    return f"{stem}.gguf" if count == 1 else f"{stem}-{number:05}-of-{count:05}.gguf"


def quant_of(path: str) -> str | None:
    """As `normal` writes it: the last one in the file's name, else the last one in its folders' names."""
    folder, _, name = split_shard(path)[0].rpartition("/")
    for where in (name, folder):
        for pattern in (_QUANTIZED, _FLOAT):  # `model.f16.Q6_K.gguf` is Q6_K with some tensors left alone
            found = pattern.findall(where)
            if found:
                return normal(found[-1])
    return None


def normal(quant: str) -> str:
    """One way to write each: `q4_k_m` is `Q4_K_M`, `fp16` is `F16`."""
    upper = quant.upper()
    return {"FP16": "F16", "FP32": "F32"}.get(upper, upper)


def plain(quant: str) -> str:
    """Without what says by which recipe it was made: `UD-Q4_K_XL` is `Q4_K_XL`, `I1-Q4_K_M` is `Q4_K_M`."""
    return quant.removeprefix("UD-").removeprefix("I1-")


def without_quant(path: str) -> str:
    """What remains of a file's name, in lower case: the same for all quantizations of one model."""
    name = split_shard(path)[0].rpartition("/")[2].lower()
    for pattern in (_QUANTIZED, _FLOAT):
        name = pattern.sub("", name)
    return name.strip("-._ ")


def bits(quant: str) -> int:
    """About how many a weight has; 0 if the name does not say."""
    name = plain(quant)
    if name in ("F16", "BF16", "F32"):
        return int(name[-2:])
    match = _BITS.search(name.replace("MXFP4", "4").replace("NVFP4", "4"))
    return 0 if match is None else int(match[0])
