"""Vectors as arrays. Imports NumPy on use: programs that embed nothing start faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localllm.types.embeddings import Embeddings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def array_of(embeddings: Embeddings) -> npt.NDArray[np.float32]:
    """One row per vector, shape (vectors, dimensions), float32."""
    import numpy as np

    return np.frombuffer(embeddings.data, "<f4").reshape(-1, embeddings.dimensions).astype(np.float32)
