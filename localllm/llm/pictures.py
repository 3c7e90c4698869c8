"""Pictures and sounds as Python programs have them, as the bytes of a file. Errors name the argument at fault."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from localllm.errors import InvalidParameter

PIXELS, CHANNELS = (2, 3), (1, 3, 4)
"""Dimensions of an array of pixels, and its channels if it has three: gray, RGB, RGBA."""


def bytes_of(given: Any, path: str) -> bytes:
    """The bytes of a file: read from a path, as given, or a PNG of a PIL image or of an array of pixels, shape (height,
    width) or (height, width, 1, 3 or 4), uint8. Raises `InvalidParameter`."""
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, os.PathLike):
        return _read(Path(os.fspath(given)), path)
    if isinstance(given, np.ndarray):
        return _png(_image_of(given, path))
    if hasattr(given, "save") and hasattr(given, "getbands"):  # PIL's, which need not be imported to tell
        return _png(given)
    raise InvalidParameter(
        "a part of a content is a text, a path (pathlib.Path), bytes, a PIL image, an array of pixels, or a dict such "
        f'as {{"type": "text", "text": ...}}, not {type(given).__name__}',
        param=path,
    )


def _read(file: Path, path: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"{file} cannot be read: {error.strerror or error}", param=path) from error


def _image_of(pixels: np.ndarray[Any, Any], path: str) -> Any:
    from PIL import Image

    is_shaped = pixels.ndim in PIXELS and (pixels.ndim == min(PIXELS) or pixels.shape[2] in CHANNELS)
    if pixels.dtype != np.uint8 or not is_shaped or not pixels.size:
        raise InvalidParameter(
            "an array of pixels has the shape (height, width) or (height, width, 1, 3 or 4) and the type uint8, got "
            f"{pixels.shape} and {pixels.dtype}",
            param=path,
        )
    return Image.fromarray(np.ascontiguousarray(pixels.squeeze(2) if pixels.shape[2:] == (1,) else pixels))


def _png(image: Any) -> bytes:
    sink = io.BytesIO()
    image.save(sink, format="PNG", compress_level=1)
    return sink.getvalue()
