"""A model's file with one metadata key replaced, added or removed; its weights stay as they are.

Knows the format, and no key's meaning.
"""

from __future__ import annotations

from tests.models import raw


class Rekeyed:
    """One whole file, read once."""

    def __init__(self, data: bytes) -> None:
        self.naive = raw.Naive(data)
        self._weights = data[self.naive.end + -self.naive.end % 32 :]

    def having(self, name: str, written: bytes | None) -> bytes:
        """The file with this key, as `raw.key` or `raw.array` writes it; None: without it."""
        keys = {key: each for key, each in self.naive.written.items() if key != name}
        added = [] if written is None else [written]
        tensors = len(self.naive.tensors)
        return raw.gguf([*keys.values(), *added], [self.naive.table], self._weights, num_tensors=tensors)
