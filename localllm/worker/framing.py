"""Length-prefixed msgpack frames on a pipe: 4 bytes little-endian length, then the message.

Knows nothing of processes. A half frame at end-of-file is an error, never half a message.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Generic, TypeVar

import msgspec

T = TypeVar("T")

MAX_FRAME_BYTES = 256 * 1024 * 1024
READ_BYTES = 64 * 1024
_LENGTH = struct.Struct("<I")


class FramingError(Exception):
    """The other side does not speak frames, or died in the middle of one."""


class FrameReader(Generic[T]):
    """Blocking reads of one message type union, from an unbuffered stream: one system call for a small frame."""

    def __init__(self, stream: BinaryIO, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._stream = stream
        self._decoder = decoder
        self._buffer = bytearray()

    def read(self) -> T | None:
        """The next message, or None at a clean end-of-file. Raises `FramingError`."""
        header = self._read_exactly(_LENGTH.size)
        if not header:
            return None
        (length,) = _LENGTH.unpack(header)
        if length > MAX_FRAME_BYTES:
            raise FramingError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
        body = self._read_exactly(length)
        if len(body) < length:
            raise FramingError("end of stream inside a frame")
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise FramingError(f"not a message: {error}") from error

    def _read_exactly(self, size: int) -> bytes:
        """`size` bytes, or none at all at end-of-file."""
        while len(self._buffer) < size:
            part = self._stream.read(max(READ_BYTES, size - len(self._buffer)))
            if not part:
                if self._buffer:
                    raise FramingError("end of stream inside a frame")
                return b""
            self._buffer += part
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


class FrameWriter:
    """Blocking writes; not thread-safe: one thread writes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.msgpack.Encoder()

    def write(self, message: object) -> None:
        """Raises `OSError` when the other side is gone, `FramingError` when the message is too large."""
        body = self._encoder.encode(message)
        if len(body) > MAX_FRAME_BYTES:
            raise FramingError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
        frame = memoryview(_LENGTH.pack(len(body)) + body)
        while frame:
            frame = frame[self._stream.write(frame) :]
