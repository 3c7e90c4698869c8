"""What a short probe of this machine measured per tensor type, and what is predicted of a model from that.

Plain frozen data shared by the child that measures and by callers, prediction and display. Knows none of them.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from localllm.measuring.repeated import Repeated


class KernelSpeed(Repeated, frozen=True, kw_only=True):
    """For matrices of one tensor type. `spread`: how much longer a typical pass took than the fastest, relative."""

    NOISY_SPREAD: ClassVar[float] = 0.35

    cached_byte_s: float
    """Seconds per byte of weights for one token, if all of them fit into the CPU's caches."""
    byte_s: float
    """Seconds per byte of weights for one token, if they come from main memory."""
    matrix_s: float
    """Additional seconds per matrix, however small."""
    product_s: float
    """Seconds per product (weight and token) if many tokens are computed at once."""
    output_s: float
    """Additional seconds per output number."""


class AttentionWay(msgspec.Struct, frozen=True, kw_only=True):
    """One way of computing attention."""

    cached_token_s: float
    """One token at a time, if the KV cache fits into the CPU's caches."""
    memory_s: float
    """Additional time for a cell's keys and values of one head, if they come from main memory."""
    prompt_s: float
    """Many tokens computed at once."""


class AttentionSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per cell that one head of one token attends to, with flash attention or without (plain)."""

    flash: AttentionWay
    plain: AttentionWay


class MachineSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """For one CPU, library and number of threads; its parts are measured when a model first needs them."""

    threads: int
    node_s: float
    """Cost of starting one operation, however small."""
    element_s: float
    """Seconds per number written by operations between the matrices, if many tokens are computed at once."""
    kernels: dict[str, KernelSpeed] = {}
    """By ggml's type name; for experts `NAME experts`."""
    attention: dict[str, AttentionSpeed] = {}
    """By head size."""


class ProbeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure for a model."""

    data_dir: str
    runtime: str
    threads: int
    kernels: tuple[str, ...]
    heads: tuple[int, ...]
    may_measure: bool = True
    """False while other work runs, which would distort the measurements."""


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The measurements, or why there are none."""

    speed: MachineSpeed | None = None
    error: str | None = None
    took_s: float = 0.0
    """Time spent measuring; 0: everything was remembered."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of one stream, with a relative `error`."""

    prompt_tokens_per_s: float
    answer_tokens_per_s: float
    error: float


class NotPredicted(msgspec.Struct, frozen=True):
    """No prediction, and the reason."""

    reason: str


def expert_kernel(type: str) -> str:
    """Name of the kernel for matrices of experts, which use different code."""
    return f"{type} experts"


def tensor_type(kernel: str) -> str:
    """The type that a kernel computes with."""
    return kernel.removesuffix(" experts")
