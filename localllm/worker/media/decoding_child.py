"""The worker's decoding process: files of media in, pixels and samples out, within limits of the system.

A decoder that crashes, hangs or eats memory costs the request that sent the file. Does not load llama_cpp.

    python -P -m localllm.worker.media.decoding_child CPU_S MEMORY_MB        frames on stdin and stdout
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import msgspec

from localllm.types import ImageDetail, MediaKind
from localllm.worker.framing import NotEncodable, encode
from localllm.worker.limited_child import LimitedChild, OverLimit, serve
from localllm.worker.media.process_limits import DEFAULT_LIMITS, DecodingLimits

WALL_FACTOR = 3
"""Wall-clock limit by the CPU limit: more, because decoding keeps every core busy."""


class DecodeRequest(msgspec.Struct, frozen=True, array_like=True):
    """One file."""

    kind: MediaKind
    data: bytes
    detail: ImageDetail
    max_pixels: int
    max_s: float
    rate_hz: float
    """For sounds: the projector's; for videos: frames to read of a second."""
    max_frames: int = 1
    """For videos."""
    parts_ms: tuple[tuple[int, int], ...] = ()
    """For sounds: only these parts."""
    cut_s: float = 0.0
    """For sounds: cut at silences into parts of at most this length; 0: do not."""
    page: int = 0
    """For pictures: the page of a PDF."""
    max_together_pixels: int = 32 * 10**6
    """For videos: of all frames."""
    budget_s: float = 10.0
    """For videos: CPU time after which frames are taken where decoding has got to."""


class DecodedFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame of a video, 3 bytes a pixel; or a part of a sound, which has no size."""

    time_ms: int
    """Where it begins."""
    width: int
    height: int
    data: bytes


class Decoded(msgspec.Struct, frozen=True, array_like=True):
    """A picture: 3 bytes a pixel. A sound: float32 samples in native byte order, and no size. A video, or parts of a
    sound: frames only."""

    width: int = 0
    height: int = 0
    data: bytes = b""
    problem: str = ""
    """Why it cannot be read, behind "the picture" or "the sound"."""
    frames: tuple[DecodedFrame, ...] = ()
    duration_ms: int = 0
    """Of a sound that was cut."""
    parts_ms: tuple[tuple[int, int], ...] = ()
    """Of a sound: where the frames begin and end."""


class DecodingChild:
    """The parent's side: starts the child for the first file. Used by one thread."""

    def __init__(self, limits: DecodingLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._child: LimitedChild[Decoded] | None = None

    def decode(self, request: DecodeRequest) -> Decoded:
        """Raises `InternalError`."""
        if self._child is None:
            self._child = LimitedChild(["localllm.worker.media.decoding_child", *map(str, self._limits)], Decoded)
        try:
            return self._child.ask(encode(request), WALL_FACTOR * self._limits.cpu_s)
        except OverLimit as reason:
            cpu_s, memory_mb = self._limits
            return Decoded(
                problem=f"needed more than {cpu_s:g} s or {memory_mb} MB to be decoded ({reason}; settings "
                "media_decode_s, media_decode_mb)"
            )
        except NotEncodable as error:
            return Decoded(problem=f"is too large: {error.reason}")

    def close(self) -> None:
        if self._child is not None:
            self._child.close()


def _prepare() -> Callable[[DecodeRequest], bytearray]:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread of NumPy's library would map memory
    from localllm.worker.media.picture import TOO_MUCH_MEMORY, Unreadable
    from localllm.worker.media.sound import read_sound

    def answer_to(request: DecodeRequest) -> bytearray:
        try:
            if request.kind == "image":
                return encode(Decoded(*_picture(request)))
            if request.kind == "video":
                return encode(Decoded(frames=_frames(request)))
            samples = read_sound(request.data, rate_hz=int(request.rate_hz), max_s=request.max_s)
            if request.cut_s or request.parts_ms:
                return encode(_parts(request, samples))
            return encode(Decoded(data=samples))
        except (Unreadable, NotEncodable) as error:
            return encode(Decoded(problem=str(error)))
        except MemoryError:
            return encode(Decoded(problem=TOO_MUCH_MEMORY))

    return answer_to


def _picture(request: DecodeRequest) -> tuple[int, int, bytes]:
    is_low = request.detail == "low"
    if request.page:
        from localllm.worker.media.page import read_page

        return read_page(request.data, request.page, max_pixels=request.max_pixels, is_low=is_low)
    from localllm.worker.media.picture import read_picture

    return read_picture(request.data, max_pixels=request.max_pixels, is_low=is_low)


def _frames(request: DecodeRequest) -> tuple[DecodedFrame, ...]:
    from localllm.worker.media.video import read_video

    found = read_video(
        request.data,
        max_pixels=request.max_pixels,
        max_s=request.max_s,
        rate_hz=request.rate_hz,
        max_frames=request.max_frames,
        max_together_pixels=request.max_together_pixels,
        budget_s=request.budget_s,
    )
    return tuple(DecodedFrame(*frame) for frame in found)


def _parts(request: DecodeRequest, data: bytes) -> Decoded:
    import numpy as np

    from localllm.worker.media.cutting import cut, samples_of

    samples, rate_hz = np.frombuffer(data, np.float32), int(request.rate_hz)
    parts = request.parts_ms or tuple(cut(samples, rate_hz, max_s=request.cut_s))
    frames = tuple(DecodedFrame(part[0], 0, 0, samples_of(samples, rate_hz, part).tobytes()) for part in parts)
    return Decoded(frames=frames, duration_ms=round(1000 * len(samples) / rate_hz), parts_ms=parts)


if __name__ == "__main__":
    questions: msgspec.msgpack.Decoder[DecodeRequest] = msgspec.msgpack.Decoder(DecodeRequest)
    serve(questions, Decoded(), _prepare, cpu_s=float(sys.argv[1]), memory_bytes=int(sys.argv[2]) * 10**6)
