"""The matrices that each token is multiplied with, by type and shape, as listed in a model's header. Plain data."""

from __future__ import annotations

import msgspec


class Matrices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Equal matrices."""

    type: str
    """ggml's name."""
    inputs: int
    outputs: int
    count: float
    """A fraction where only a file's size is known: the average number."""
    bytes: int
    """Size of one; in a mixture, of one expert's matrix."""
    experts: int = 0
    """Experts that share each of these; 0: it is used for every token."""
    is_head: bool = False
    """The output head: of a prompt only the last token needs it."""

    @property
    def weights(self) -> int:
        """Numbers in one."""
        return self.inputs * self.outputs


class Products(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All matrices of a model."""

    matrices: tuple[Matrices, ...] = ()
    num_vectors: int = 0
    """Norms, biases and scales, each an operation or two."""
    vector_numbers: int = 0
    """Numbers in all of them."""
