"""The sound of an MP4 or WebM file (voice memos of phones, recordings of browsers), through the extra package PyAV.

Runs in `decoding_child` only. ffmpeg's other formats are never tried: a playlist could name other files and hosts.
"""

from __future__ import annotations

import importlib.util
import io
from typing import Any

import numpy as np

from localllm.worker.media.picture import Unreadable

FORMATS = {b"ftyp": "mov", b"\x1aE\xdf\xa3": "matroska"}
"""What these begin with, the first after a length of four bytes -> ffmpeg's name."""
NEEDS = (
    "is an MP4 (M4A) or WebM file, which are read if PyAV is installed (`pip install av`); or convert it to WAV or MP3"
)


def format_of(data: bytes) -> str | None:
    """None: it is another kind of file."""
    return FORMATS.get(data[4:8]) or FORMATS.get(data[:4])


def read_container(data: bytes, format: str, *, rate_hz: int, max_s: float) -> bytes:
    """float32 in native byte order, one channel. Raises `Unreadable`."""
    if importlib.util.find_spec("av") is None:
        raise Unreadable(NEEDS)
    import av

    only = {"format_whitelist": format, "protocol_whitelist": ""}
    try:
        with av.open(io.BytesIO(data), "r", format=format, options=only) as file:
            if not file.streams.audio:
                raise Unreadable("has no sound")
            return _made(file, av.AudioResampler("flt", "mono", rate_hz), max_samples=int(max_s * rate_hz), max_s=max_s)
    except av.FFmpegError as error:
        raise Unreadable(f"is broken: {error.strerror}") from None


def _made(file: Any, resampler: Any, *, max_samples: int, max_s: float) -> bytes:
    stream = file.streams.audio[0]
    stream.thread_count = 1
    made, num = [], 0
    for frame in file.decode(stream):
        for part in resampler.resample(frame):
            made.append(part.to_ndarray()[0])
            num += len(made[-1])
        if num > max_samples:
            raise Unreadable(f"is longer than {max_s:g} s, the most that is read (setting max_media_s); cut it")
    made += [part.to_ndarray()[0] for part in resampler.resample(None)]
    if not num:
        raise Unreadable("has no samples")
    samples = np.clip(np.nan_to_num(np.concatenate(made)), -1, 1)
    return bytes(samples.astype(np.float32, copy=False).tobytes())
