"""A small picture, a large one, and a sound, as bytes of files."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image


def png(pixels: npt.NDArray[Any]) -> bytes:
    """The file of these pixels."""
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, format="PNG")
    return sink.getvalue()


def wav(samples: npt.NDArray[Any], rate_hz: int = 16_000) -> bytes:
    """The file of these samples, int16, one channel."""
    sink = io.BytesIO()
    with wave.open(sink, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(samples.astype("<i2").tobytes())
    return sink.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    """As clients send it."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


_RNG = np.random.default_rng(0)
SMALL = png(np.full((8, 8, 3), (255, 0, 0), np.uint8))
LARGE = png(_RNG.integers(0, 256, (80, 80, 3), np.uint8))
"""Over the size from which base64 is taken out of bodies."""
WAV = wav(_RNG.integers(-1000, 1000, 1600))
