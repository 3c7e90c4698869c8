"""Which LoRA adapters change a model while a sequence is computed. Plain data; knows nothing of files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ScaledAdapter(NamedTuple):
    """One adapter at one strength."""

    digest: str
    """SHA-256 of its file, in hexadecimal digits."""
    scale: float


AdapterSet = tuple[ScaledAdapter, ...]
"""Each adapter once, by digest, none with scale 0: equal sets compute equal numbers. One set per decode."""

NO_ADAPTERS: AdapterSet = ()


def adapter_set(adapters: Iterable[ScaledAdapter]) -> AdapterSet:
    """The set that these make together: scales of the same adapter add up."""
    scales: dict[str, float] = {}
    for adapter in adapters:
        scales[adapter.digest] = scales.get(adapter.digest, 0.0) + adapter.scale
    return tuple(ScaledAdapter(digest, scale) for digest, scale in sorted(scales.items()) if scale)
