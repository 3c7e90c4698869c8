"""Length-prefixed msgpack frames on a pipe: 4 bytes little-endian length, then the message.

Knows nothing of processes. A half frame at end-of-file is an error, never half a message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from localllm.errors import LocalLLMError
from localllm.types.ranges import shown

T = TypeVar("T")

MAX_FRAME_BYTES = 256 * 1024 * 1024
READ_BYTES = 64 * 1024
_LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()


class FramingError(Exception):
    """The other side does not send frames, or died in the middle of one."""


class UndecodableFrame(FramingError):
    """A complete frame that contains no known message; the next one can be read."""

    def __init__(self, reason: str, id: int | None, field: str | None) -> None:
        super().__init__(f"not a message: {reason}")
        self.reason = reason
        self.id = id
        """The request's id, if it has one."""
        self.field = field


class NotEncodable(FramingError):
    """A message that fits into no frame."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        super().__init__(reason if field is None else f"{field}: {reason}")
        self.reason = reason
        self.field = field
        """The name of the faulty part, where known, e.g. `messages[0].content`."""


def encode(message: object) -> bytearray:
    """One whole frame. Raises `NotEncodable`, which names the faulty part."""
    frame = bytearray(_LENGTH.size)
    try:
        _encoder.encode_into(message, frame, _LENGTH.size)
    except _REFUSALS as error:
        field, culprit = _culprit("", message)
        raise NotEncodable(_reason(error, culprit), field or None) from error
    num_bytes = len(frame) - _LENGTH.size
    if num_bytes > MAX_FRAME_BYTES:
        raise NotEncodable(f"the message takes {num_bytes} bytes; at most {MAX_FRAME_BYTES} are allowed")
    _LENGTH.pack_into(frame, 0, num_bytes)
    return frame


_REFUSALS = (OverflowError, ValueError, TypeError, RecursionError, msgspec.MsgspecError)
"""What msgspec raises for an integer over 64 bits, an unpaired surrogate, an unknown type ..."""


def _reason(error: Exception, culprit: object) -> str:
    if isinstance(error, OverflowError):
        return f"{shown(culprit)} does not fit into 64 bits"
    if isinstance(error, UnicodeEncodeError):
        half = ord(error.object[error.start])
        return (
            f"the text has an unpaired surrogate (U+{half:04X}) at character {error.start}, which UTF-8 cannot encode"
        )
    return f"a value of type {type(culprit).__name__} cannot be sent"


def _culprit(path: str, value: object) -> tuple[str, object]:
    """The smallest part of a message that cannot be encoded, and its path below the request itself."""
    for name, part in _parts(path, value):
        if not _is_encodable(part):
            return _culprit(name, part)
    return path, value


def _parts(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        # Frames and groups within a request (`params`) have no names that clients know.
        prefix = f"{path}." if path.endswith("]") else ""
        for name in value.__struct_fields__:
            yield prefix + name, getattr(value, name)
    elif isinstance(value, dict):
        yield from ((path, part) for pair in value.items() for part in pair)
    elif isinstance(value, list | tuple):
        index = _first(value, lambda part: not _is_encodable(part))
        if index is not None:
            yield f"{path}[{index}]", value[index]


def _first(items: list[Any] | tuple[Any, ...], is_wrong: Callable[[Any], bool]) -> int | None:
    """Index of the first wrong item, by bisection, since there may be a million tokens."""
    begin, end = 0, len(items)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (begin, middle) if is_wrong(list(islice(items, begin, middle))) else (middle, end)
    return begin if begin < end and is_wrong(items[begin]) else None


def _is_encodable(part: object) -> bool:
    try:
        _encoder.encode(part)
    except _REFUSALS:
        return False
    return True


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
            what, _, path = str(error).partition(" - at `$")
            # The frame's own index in it (`[2]`) means nothing to the client.
            field = path.rstrip("`").partition(".")[2].removeprefix("params.") or None
            raise UndecodableFrame(what, _id_of(body), field) from error
        except LocalLLMError as error:  # raised by a request's own checks
            raise UndecodableFrame(error.message, _id_of(body), error.param) from error

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


def _id_of(body: bytes) -> int | None:
    """The id in a frame that holds a request: `[tag, id, ...]`."""
    try:
        match msgspec.msgpack.decode(body):
            case [str(), int(id), *_]:
                return id
    except msgspec.MsgspecError:
        pass
    return None


class FrameWriter:
    """Blocking writes; not thread-safe: one thread writes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, message: object) -> None:
        """Raises `OSError` when the other side is gone, `NotEncodable` when the message fits into no frame."""
        self.write_frame(encode(message))

    def write_frame(self, frame: bytes | bytearray) -> None:
        """What `encode` returned. Raises `OSError` when the other side is gone."""
        rest = memoryview(frame)
        while rest:
            rest = rest[self._stream.write(rest) :]
