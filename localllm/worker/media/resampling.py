"""Resampling of one channel in blocks: the spectrum of each block is cut or padded. Knows nothing of files."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

LEAST_HOP = 8192
"""Samples by which blocks advance, at least; half as many on each side of a block are context."""
TAPER_FROM = 0.92
"""Part of the lower Nyquist frequency from which the spectrum fades out, so that a block's ends do not ring far."""


class Resampler:
    """`feed` and `flush` yield the sound at the other rate; the pieces together are what one piece would give."""

    def __init__(self, from_hz: int, to_hz: int) -> None:
        divisor = math.gcd(from_hz, to_hz)
        times = 2 * math.ceil(LEAST_HOP * divisor / from_hz / 2)
        self._is_same = from_hz == to_hz
        self._ratio = to_hz / from_hz
        self._hop, self._out_hop = from_hz // divisor * times, to_hz // divisor * times
        self._gain = _taper(min(self._hop, self._out_hop)) * np.float32(self._ratio)
        self._pending = np.zeros(self._hop // 2, np.float32)  # context before the first sample
        self._num_fed = self._num_given = 0

    def feed(self, samples: Samples) -> Iterator[Samples]:
        self._num_fed += len(samples)
        if self._is_same:
            yield samples
            return
        self._pending = np.concatenate([self._pending, samples])
        while len(self._pending) >= 2 * self._hop:
            yield self._block()

    def flush(self) -> Iterator[Samples]:
        """The rest; nothing can be fed afterwards."""
        total = round(self._num_fed * self._ratio)
        while not self._is_same and self._num_given < total:
            self._pending = np.concatenate([self._pending, np.zeros(2 * self._hop, np.float32)])
            yield self._block()[: max(0, total - (self._num_given - self._out_hop))]

    def _block(self) -> Samples:
        spectrum = np.fft.rfft(self._pending[: 2 * self._hop])[: len(self._gain)] * self._gain
        made = np.fft.irfft(spectrum, 2 * self._out_hop)
        self._pending = self._pending[self._hop :]
        self._num_given += self._out_hop
        quarter = self._out_hop // 2
        return made[quarter : quarter + self._out_hop].astype(np.float32)


def _taper(num: int) -> Samples:
    places = np.arange(num + 1) / num
    return (0.5 + 0.5 * np.cos(np.pi * np.clip((places - TAPER_FROM) / (1 - TAPER_FROM), 0, 1))).astype(np.float32)
