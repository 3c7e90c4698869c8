"""Messages between the quantize command and its child process, and the available types. Plain data.

Knows neither llama.cpp nor files.
"""

from __future__ import annotations

import difflib

import msgspec

from localllm.errors import ErrorInfo, InvalidParameter

GROUPS = {
    "not quantized": ("F32", "F16", "BF16"),
    "simple": ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"),
    "K": ("Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K"),
    "I": ("IQ4_NL", "IQ4_XS", "IQ3_M", "IQ3_S"),
    "special": ("MXFP4_MOE", "TQ2_0", "TQ1_0", "Q2_0", "Q1_0"),
    "only with an importance matrix (--imatrix)": (
        "IQ3_XS", "IQ3_XXS", "Q2_K_S", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S",
    ),
}  # fmt: skip
"""Every type that the llama.cpp in use can write, largest ones first in each group."""
NEED_IMPORTANCE = GROUPS["only with an importance matrix (--imatrix)"]
NAMES = tuple(name for names in GROUPS.values() for name in names)
_ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE", "FP16": "F16", "FP32": "F32"}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A model to quantize. The child ends, and removes `temporary`, when its stdin ends."""

    source: str
    """The first file of a split model."""
    target: str
    temporary: str
    """Beside the target; the parent also removes it, in case the child crashed."""
    type: str
    """One of `NAMES`."""
    allow_requantize: bool
    force: bool
    threads: int | None
    data_dir: str
    """The folder of the stored self-test results."""
    imatrix: str | None = None
    """A file with the importance of each column."""


class Step(msgspec.Struct, frozen=True, tag="step"):
    """Progress in bytes of the source's tensors."""

    done_bytes: int
    total_bytes: int


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The target exists."""

    source_bytes: int
    target_bytes: int
    seconds: float
    notices: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Quantizing failed and left no files behind."""

    error: ErrorInfo


Message = Step | Done | Failed


def type_of(text: str, *, has_imatrix: bool = False) -> str:
    """Normalizes the name of a type. Raises `InvalidParameter` if it is unknown or needs an importance matrix."""
    name = _ALIASES.get(text.upper(), text.upper())
    if name in NEED_IMPORTANCE and not has_imatrix:
        raise InvalidParameter(
            f"{name} needs an importance matrix (localllm quantize --imatrix), without which the results are unusable; "
            "the smallest types without one are Q2_K and IQ3_S; or use a file that was made with one",
            param="type",
        )
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=2)
        meant = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise InvalidParameter(f"unknown type {text[:40]!r}{meant}; the types are\n{listed()}", param="type")
    return name


def listed() -> str:
    """The types, one line per group."""
    return "\n".join(f"  {group}: {' '.join(names)}" for group, names in GROUPS.items())
