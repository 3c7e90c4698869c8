"""Some frames of a video, evenly spread, each with its time, through the extra package PyAV.

Runs in `decoding_child` only. A header's length and rate are not believed: the packets are counted, which decodes none.
"""

from __future__ import annotations

import importlib.util
import io
import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from PIL import Image

from localllm.worker.media.container import format_of
from localllm.worker.media.picture import MAX_MADE_PIXELS, Unreadable, padded

NAMES = "MP4, MOV, WebM, MKV"
NEEDS = 'is read if PyAV is installed where the model runs: pip install "localllm[media]"'


class Frame(NamedTuple):
    """3 bytes a pixel, upright."""

    time_ms: int
    width: int
    height: int
    rgb: bytes


class _Packets(NamedTuple):
    """When frames are shown, in units of the stream, sorted."""

    times: list[int]
    keys: list[int]
    """Those that need no other frame."""


def read_video(
    data: bytes,
    *,
    max_pixels: int,
    max_s: float,
    rate_hz: float,
    max_frames: int,
    max_together_pixels: int,
    budget_s: float,
) -> list[Frame]:
    """In order, at least one. Raises `Unreadable`.

    `max_pixels`: of a frame. `max_together_pixels`: of all, which travel in one message; larger ones are reduced to
    their share. `budget_s`: CPU time after which frames are taken where decoding has got to, so that a slow video is
    read nevertheless.
    """
    format = format_of(data)
    if format is None:
        raise Unreadable(f"is of no format that is read here ({NAMES})")
    if importlib.util.find_spec("av") is None:
        raise Unreadable(NEEDS)
    import av

    only = {"format_whitelist": format, "protocol_whitelist": ""}
    try:
        with av.open(io.BytesIO(data), "r", format=format, options=only) as file:
            stream = _stream(file, max_pixels)
            packets, unit_s = _packets(file, stream), float(stream.time_base or 0)
            length_s = (packets.times[-1] - packets.times[0]) * unit_s
            if length_s > max_s:
                raise Unreadable(f"is longer than {max_s:g} s, the most that is read (setting max_media_s); cut it")
            wanted = _spread(packets.times, unit_s, rate_hz, max_frames)
            most = min(MAX_MADE_PIXELS, max_pixels, max_together_pixels // len(wanted))
            made = [
                _made(frame, most, max_pixels, round((frame.pts - packets.times[0]) * unit_s * 1000))
                for frame in _decoded(file, stream, packets.keys, wanted, budget_s)
            ]
    except av.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        raise Unreadable(f"is broken: {error.strerror}") from None
    if not made:
        raise Unreadable("is broken: none of its frames can be decoded")
    return made


def _stream(file: Any, max_pixels: int) -> Any:
    from av.stream import Disposition

    stream = next((each for each in file.streams.video if not each.disposition & Disposition.attached_pic), None)
    if stream is None:
        raise Unreadable("has no pictures")
    stream.thread_count = 1
    _check_size(stream.codec_context.width, stream.codec_context.height, max_pixels)
    return stream


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise Unreadable(
            f"is {width} x {height}, which are {width * height / 10**6:.1f} megapixels; at most {max_pixels / 10**6:g} "
            "are read (setting max_megapixels); make it smaller"
        )


def _packets(file: Any, stream: Any) -> _Packets:
    shown = [
        (packet.dts if packet.pts is None else packet.pts, packet.is_keyframe)
        for packet in file.demux(stream)
        if packet.size and not (packet.pts is None and packet.dts is None)
    ]
    if not shown:
        raise Unreadable("has no frames")
    return _Packets(sorted(at for at, _ in shown), sorted(at for at, is_key in shown if is_key))


def _spread(times: list[int], unit_s: float, rate_hz: float, max_frames: int) -> list[int]:
    """Those to read: at the rate, or fewer over the whole length."""
    length = times[-1] - times[0]
    step = max(1 / (rate_hz * unit_s) if unit_s else 1.0, length / max(1, max_frames - 1), 1e-9)
    count = min(max_frames, int(length / step + 1e-6) + 1)
    at = (times[0] + min(length, round(number * step)) for number in range(count))
    return sorted({times[bisect_right(times, each) - 1] for each in at})


def _decoded(file: Any, stream: Any, keys: list[int], wanted: list[int], budget_s: float) -> Iterator[Any]:
    """The frame of each time; a later one where some cannot be decoded."""
    began, last = time.process_time(), None
    frames: Iterator[Any] = iter(())
    for number, at in enumerate(wanted, 1):
        key = keys[max(0, bisect_right(keys, at) - 1)] if keys else wanted[0]
        if last is None or key > last:
            file.seek(key, stream=stream)
            frames = _frames(file, stream)
        if last is not None and at <= last:
            continue
        for frame in frames:
            is_late = time.process_time() - began > budget_s * number / len(wanted)
            if frame.pts >= at or (is_late and (last is None or frame.pts > last)):
                last = frame.pts
                yield frame
                break


def _frames(file: Any, stream: Any) -> Iterator[Any]:
    import av

    for packet in file.demux(stream):
        try:
            found = packet.decode()
        except av.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            continue  # the next key frame may be whole
        yield from (frame for frame in found if frame.pts is not None)


def _made(frame: Any, most_pixels: int, max_pixels: int, time_ms: int) -> Frame:
    _check_size(frame.width, frame.height, max_pixels)
    scale = min(1.0, (most_pixels / (frame.width * frame.height)) ** 0.5)
    width, height = max(1, int(frame.width * scale)), max(1, int(frame.height * scale))
    image = Image.fromarray(frame.reformat(width, height, "rgb24", interpolation="AREA").to_ndarray())
    turns = round(frame.rotation / 90) % 4
    if turns:
        turn = (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)[turns - 1]
        image = image.transpose(turn)
    image = padded(image)
    return Frame(max(0, time_ms), image.width, image.height, image.tobytes())
