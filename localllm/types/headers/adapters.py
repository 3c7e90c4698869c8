"""What the header of a LoRA adapter says, and an adapter as requests carry it to a worker. Plain data."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from localllm.types.ranges import check_range

MAX_SCALE = 1000.0


class Layers(NamedTuple):
    """Some of a model's layers, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class AdapterInfo(msgspec.Struct, frozen=True):
    """Facts from an adapter's header."""

    architecture: str
    name: str | None
    base_name: str | None
    """The model that it was trained for, as its converter wrote it."""
    alpha: float
    rank: int
    """The largest of its matrices'; 0: a control vector."""
    num_matrices: int
    """Of the base that it changes."""
    size_bytes: int
    """Of its tensors, which is what it takes in memory."""
    num_layers: int = 0
    """Of a control vector: the layers that have a direction. A LoRA adapter has none, and changes matrices."""
    invocation: tuple[int, ...] = ()
    """Of an activated adapter (aLoRA): the tokens from which on it works. Empty: it works everywhere."""


class AppliedAdapter(msgspec.Struct, frozen=True):
    """An adapter of the model, at one strength. Its file was checked against the model's."""

    digest: str
    """SHA-256 of its file, in hexadecimal digits."""
    path: str
    scale: float = 1.0
    """A factor on what it was trained to change; 0 is no adapter."""
    size_bytes: int = 0
    """Of its tensors."""
    layers: Layers | None = None
    """Of a control vector: the only layers that it changes; None: all that have a direction."""
    invocation: tuple[int, ...] = ()
    """As in `AdapterInfo`."""

    def __post_init__(self) -> None:
        check_range("scale", self.scale, -MAX_SCALE, MAX_SCALE)


class NumberedAdapter(msgspec.Struct, frozen=True):
    """An adapter of the model by its place in the list, as llama-server's requests name it."""

    id: int
    scale: float = 0.0

    def __post_init__(self) -> None:
        check_range("scale", self.scale, -MAX_SCALE, MAX_SCALE)
