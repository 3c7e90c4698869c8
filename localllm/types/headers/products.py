"""The matrices that each token is multiplied with, by type and shape, as listed in a model's header. Plain data."""

from __future__ import annotations

import msgspec


class Matrices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Matrices of the same type and shape."""

    type: str
    """ggml's name."""
    inputs: int
    outputs: int
    count: float
    """Possibly a fraction: an average, if only the file's size is known."""
    bytes: int
    """Size of one matrix; in a mixture, of one expert."""
    experts: int = 0
    """Number of experts; 0: the matrix is used for every token."""
    is_head: bool = False
    """Whether it is the output head, which only the last token of a prompt needs."""

    @property
    def weights(self) -> int:
        """Number of weights in one matrix."""
        return self.inputs * self.outputs


class Products(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All matrices of a model."""

    matrices: tuple[Matrices, ...] = ()
    num_vectors: int = 0
    """Norms, biases and scales, each an operation or two."""
    vector_numbers: int = 0
    """Total size of the vectors, in numbers."""
