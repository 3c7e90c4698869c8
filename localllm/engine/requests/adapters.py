"""Which LoRA adapters and control vectors change a model while it computes. Plain data; knows nothing of files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from localllm.types import Layers


class ScaledAdapter(NamedTuple):
    """One adapter at one strength."""

    digest: str
    """SHA-256 of its file, in hexadecimal digits."""
    scale: float
    layers: Layers | None = None
    """Of a control vector: the only layers that it changes."""


AdapterSet = tuple[ScaledAdapter, ...]
"""Each adapter once, by digest and layers, none with scale 0: equal sets compute equal numbers. One set per decode."""

NO_ADAPTERS: AdapterSet = ()


def described(adapters: AdapterSet) -> bytes:
    """The same for equal sets only: what digests of them are made of."""
    lines = (
        f"{each.digest} {each.scale.hex()}" + ("" if each.layers is None else f" {each.layers}") for each in adapters
    )
    return "".join(f"{line}\n" for line in lines).encode()


def adapter_set(adapters: Iterable[ScaledAdapter]) -> AdapterSet:
    """The set that these make together: scales of the same adapter, in the same layers, add up."""
    scales: dict[tuple[str, tuple[int, ...]], ScaledAdapter] = {}
    for adapter in adapters:
        key = adapter.digest, adapter.layers or ()
        before = scales[key].scale if key in scales else 0.0
        scales[key] = adapter._replace(scale=before + adapter.scale)
    return tuple(scales[key] for key in sorted(scales) if scales[key].scale)
