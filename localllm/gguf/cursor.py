"""A bounded reader over one regular file: every read is checked against the file's size first.

Holds a window of the file, never the whole, and no memory map: truncating a mapped file would kill the process with
SIGBUS. Knows nothing of GGUF except that numbers are little-endian and strings have a 64-bit length.
"""

from __future__ import annotations

import os
import stat
import struct
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Protocol

from localllm.errors import InvalidModelFile, LoadFailed, ModelNotFound

WINDOW_BYTES = 1 << 20
MAX_HEADER_BYTES = 256 << 20
"""Limit on metadata and tensor table. The largest header seen (260 k tokens, merges) has 20 MB."""
MAX_SKIPPED_STRINGS = 2 << 20
"""Limit on skipped strings per file; 2 M take about 0.5 s. The largest vocabularies with merges have 0.8 M."""

_LENGTH = struct.Struct("<Q")


class Source(Protocol):
    """Anything that can be read like a file."""

    @property
    def size_bytes(self) -> int: ...

    def seek(self, offset: int, /) -> int: ...

    def read(self, count: int, /) -> bytes:
        """Returns 1 to `count` bytes; none at the end."""
        ...

    def close(self) -> None: ...


class Cursor:
    """A position in a file that only moves forward; a context manager. Errors name the offending byte."""

    def __init__(self, path: Path, source: Source | None = None) -> None:
        """`source` is read instead of the file at `path`, which is then only its name in errors.

        Raises `ModelNotFound`, `LoadFailed` (not readable) or `InvalidModelFile` (not a regular file).
        """
        self.path = path
        self._file: Source | FileIO
        if source is None:
            self._file = _open_regular(path)
            self.size = os.fstat(self._file.fileno()).st_size
        else:
            self._file, self.size = source, source.size_bytes
        self._window = b""
        self._base = 0
        self._at = 0
        self._skipped_strings = 0

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def offset(self) -> int:
        return self._base + self._at

    @property
    def remaining(self) -> int:
        return self.size - self.offset

    def fail(self, reason: str, offset: int | None = None) -> NoReturn:
        """Raises `InvalidModelFile` for this file, at `offset` (default: the current position)."""
        raise invalid_file(self.path, reason, self.offset if offset is None else offset)

    def number(self, layout: struct.Struct, what: str) -> int | float:
        """The next scalar."""
        self._need(layout.size, what)
        value: int | float = layout.unpack_from(self._window, self._at)[0]
        self._at += layout.size
        return value

    def integer(self, layout: struct.Struct, what: str) -> int:
        """The next scalar, of an integer `layout`."""
        return int(self.number(layout, what))

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        self._need(count, what)
        start = self._at
        self._at += count
        return self._window[start : self._at]

    def string_length(self, what: str) -> int:
        """Reads a string's length and checks that the file can hold it."""
        start = self.offset
        length = self.integer(_LENGTH, f"the length of {what}")
        if length > self.remaining:
            self.fail(f"{what} claims {length:,} bytes, but only {self.remaining:,} follow", start)
        return length

    def skip(self, count: int, what: str) -> None:
        """Moves forward without reading."""
        self._check(count, what)
        if self._at + count <= len(self._window):
            self._at += count
        else:
            self._base = self.offset + count
            self._window, self._at = b"", 0

    def skip_strings(self, count: int, what: str) -> None:
        """Skips `count` strings, reading only their lengths: 0.2 µs each."""
        self._skipped_strings += count
        if self._skipped_strings > MAX_SKIPPED_STRINGS:
            self.fail(f"more than {MAX_SKIPPED_STRINGS:,} strings in arrays")
        read_length = _LENGTH.unpack_from
        remaining = count
        while remaining:
            window, at, end = self._window, self._at, len(self._window)
            last_length = end - _LENGTH.size
            while remaining and at <= last_length:
                following = at + 8 + read_length(window, at)[0]
                if following > end:
                    break
                at = following
                remaining -= 1
            self._at = at
            if remaining:  # the next string crosses the window's end
                self.skip(self.string_length(what), what)
                remaining -= 1

    def _check(self, count: int, what: str) -> None:
        if count > self.remaining:
            self.fail(f"the file ends within {what}: {count:,} bytes needed, {self.remaining:,} left")
        if self.offset + count > MAX_HEADER_BYTES:
            self.fail(f"the header is larger than {MAX_HEADER_BYTES:,} bytes")

    def _need(self, count: int, what: str) -> None:
        if self._at + count <= len(self._window):
            return
        self._check(count, what)
        self._base, self._at = self.offset, 0
        self._file.seek(self._base)
        wanted = max(count, WINDOW_BYTES)
        self._window = self._file.read(wanted)
        while len(self._window) < count:  # a raw read may be short; an empty one means the file shrank
            more = self._file.read(wanted - len(self._window))
            if not more:
                self.fail(f"the file shrank while it was read, within {what}")
            self._window += more


def invalid_file(path: Path, reason: str, offset: int | None = None) -> InvalidModelFile:
    """The error for a malformed file, for the caller to raise."""
    where = "" if offset is None else f" at byte {offset:,}"
    return InvalidModelFile(
        f"{path.name} is not a usable GGUF file: {reason}{where}", path=str(path), offset=offset, reason=reason
    )


def _open_regular(path: Path) -> FileIO:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise invalid_file(path, f"it is {_kind(mode)}, not a regular file")
        # If a FIFO replaces the file in between, opening it must not wait for a writer.
        file = FileIO(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelNotFound(
            f"there is no file {path}", public="the model's file no longer exists", path=str(path)
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        why = getattr(error, "strerror", None) or "its path is not valid"
        raise LoadFailed(
            f"cannot read {path}: {why}", public=f"the model's file cannot be read: {why}", path=str(path)
        ) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise invalid_file(path, "it is not a regular file")
    return file


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "something else"
