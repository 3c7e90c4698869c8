"""A transport that joins what is written within one turn of the event loop: a system call costs more than the bytes.

A lone write, the next token of a stream, goes out at once; a response's head waits for what follows it in the same
turn, and so do the later writes of a turn, which are a stream's end. Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

MAX_HELD_BYTES = 16 * 1024
"""More goes out at once, so that a reader who takes nothing is noticed within the turn that fills the socket."""
_HEAD = b"HTTP/1.1 "


class JoinedWrites(asyncio.Transport):
    """In front of `under`, for the protocol that writes to it."""

    def __init__(self, under: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._under = under
        self._loop = loop
        self._held: list[bytes] = []
        self._flushes = False
        """Whether `_flush` is called at the end of this turn."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data:
            return
        if self._flushes or data[: len(_HEAD)] == _HEAD:
            self._held.append(bytes(data))
            if self._num_held() > MAX_HELD_BYTES:
                self._write_held()
        else:
            self._under.write(data)
        if not self._flushes:
            self._flushes = True
            self._loop.call_soon(self._flush)

    def write_eof(self) -> None:
        self._write_held()
        self._under.write_eof()

    def close(self) -> None:
        self._write_held()
        self._under.close()

    def abort(self) -> None:
        self._held.clear()
        self._under.abort()

    def is_closing(self) -> bool:
        return self._under.is_closing()

    def can_write_eof(self) -> bool:
        return self._under.can_write_eof()

    def get_write_buffer_size(self) -> int:
        return self._under.get_write_buffer_size() + self._num_held()

    def pause_reading(self) -> None:
        self._under.pause_reading()

    def resume_reading(self) -> None:
        self._under.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._under.get_extra_info(name, default)

    def _num_held(self) -> int:
        return sum(map(len, self._held))

    def _flush(self) -> None:
        self._flushes = False
        self._write_held()

    def _write_held(self) -> None:
        if self._held and not self._under.is_closing():
            self._under.write(b"".join(self._held))
        self._held.clear()
