"""Messages between `localllm steer make` and the child process that computes a control vector. Plain data."""

from __future__ import annotations

import msgspec

from localllm.errors import ErrorInfo


class Pair(msgspec.Struct, frozen=True):
    """Two texts that differ in what the vector is about."""

    positive: str
    negative: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to compute."""

    model: str
    """The first file of the model."""
    target: str
    """The GGUF file to write."""
    pairs: list[Pair]
    first: int
    last: int
    """Layers; 0: to the last one."""
    name: str
    data_dir: str
    """The folder of the stored self-test results."""
    threads: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The target exists."""

    num_layers: int
    strengths: list[float]
    """Per layer, the length of the difference of means as a share of that of the texts' own vectors."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Nothing was written."""

    error: ErrorInfo


Reply = Done | Failed
