"""What a short probe of this machine measured, for each tensor type, and what is predicted of a model with it.

Plain frozen data between the child that measures, who asks it, who predicts and who shows it. Knows none of them.
"""

from __future__ import annotations

import msgspec


class KernelSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Of matrices of one tensor type."""

    cached_byte_s: float
    """Seconds per byte of weights for one token, where all of them fit into the CPU's caches."""
    byte_s: float
    """Likewise where they come from main memory."""
    matrix_s: float
    """Seconds that a matrix takes besides, however small."""
    product_s: float
    """Seconds per product (weight and token) where many tokens are computed at once."""
    output_s: float
    """Seconds per number that comes out, besides."""
    spread: float
    """How much longer than the fastest a usual pass took, relative."""
    attempts: int = 1
    """Measurements made so far: a noisy one is repeated a few times."""


class AttentionWay(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    cached_token_s: float
    """One token at a time, where the KV cache fits into the CPU's caches."""
    memory_s: float
    """Of a cell's keys and values of one head, besides, where they come from main memory."""
    prompt_s: float
    """Many tokens are computed at once."""


class AttentionSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each cell that one head of one token attends to, with flash attention or without (plain)."""

    flash: AttentionWay
    plain: AttentionWay


class MachineSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Of one CPU, library and number of threads; its parts are measured when a model first has need of them."""

    threads: int
    node_s: float
    """What starting one operation takes, however small."""
    element_s: float
    """Seconds per number that the operations between the matrices write, where many tokens are computed at once."""
    kernels: dict[str, KernelSpeed] = {}
    """By ggml's type name; of experts `NAME experts`."""
    attention: dict[str, AttentionSpeed] = {}
    """By the size of a head."""


class ProbeQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model needs to know of the machine."""

    data_dir: str
    runtime: str
    threads: int
    kernels: tuple[str, ...]
    heads: tuple[int, ...]


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Or why nothing is known."""

    speed: MachineSpeed | None = None
    error: str | None = None
    took_s: float = 0.0
    """Measuring; 0: all of it was remembered."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per second of one stream, each give or take `error`, a share."""

    prompt_tokens_per_s: float
    answer_tokens_per_s: float
    error: float


class NotPredicted(msgspec.Struct, frozen=True):
    """And why."""

    reason: str


def expert_kernel(type: str) -> str:
    """The kernel's name for matrices of experts: other code computes them."""
    return f"{type} experts"


def tensor_type(kernel: str) -> str:
    """The type that a kernel computes with."""
    return kernel.removesuffix(" experts")
