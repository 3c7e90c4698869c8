"""What a model multiplies each token with: its matrices by type and shape, as its header lists them. Plain data."""

from __future__ import annotations

import msgspec


class Matrices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Equal ones."""

    type: str
    """ggml's name."""
    inputs: int
    outputs: int
    count: float
    """A fraction where a file is only known by its size: so many of them on average."""
    bytes: int
    """Of one, of an expert's matrix of one expert."""
    experts: int = 0
    """That share each of these; 0: it is used for every token."""
    is_head: bool = False
    """The output head: of a prompt only the last token has need of it."""

    @property
    def weights(self) -> int:
        """Of one."""
        return self.inputs * self.outputs


class Products(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of a model's."""

    matrices: tuple[Matrices, ...] = ()
    num_vectors: int = 0
    """Norms, biases and scales, each an operation or two."""
    vector_numbers: int = 0
    """In all of them."""
