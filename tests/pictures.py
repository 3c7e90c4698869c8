"""A small picture, a large one, a sound and videos, as bytes of files."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterable
from typing import Any

import av
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


def video(colors: Iterable[tuple[int, int, int]], *, rate: int = 1, format: str = "mp4", turned: int = 0) -> bytes:
    """A frame of 64 x 32 pixels of each color, `rate` of them a second. `turned`: degrees by which it is shown."""
    sink = io.BytesIO()
    with av.open(sink, "w", format=format) as file:
        stream = file.add_stream("mpeg4" if format == "mp4" else "libvpx", rate=rate, width=64, height=32)
        stream.pix_fmt = "yuv420p"
        if turned:
            stream.set_display_rotation(turned)
        for color in colors:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((32, 64, 3), color, np.uint8), format="rgb24")))
        file.mux(stream.encode(None))
    return sink.getvalue()
