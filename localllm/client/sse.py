"""Server-sent events from bytes in any pieces: `feed()`, then `flush()`. Only the `data` field; knows no JSON."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """The concatenation of what `feed` returns does not depend on where the bytes were split."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that is now complete."""
        buffer = self._rest + chunk
        # A trailing \r may be half of a \r\n, so it is kept for the next chunk.
        held = len(buffer) - 1 if buffer.endswith(b"\r") else len(buffer)
        *lines, rest = _LINE_END.split(buffer[:held])
        self._rest = rest + buffer[held:]
        return [event for line in lines if (event := self._take(line)) is not None]

    def flush(self) -> list[str]:
        """The last event, if the stream ended without a blank line."""
        lines = [*_LINE_END.split(self._rest), b""]
        self._rest = b""
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: bytes) -> str | None:
        if line.startswith(b"data:"):
            self._data.append(line.removeprefix(b"data:").removeprefix(b" "))
        if line or not self._data:
            return None
        event = b"\n".join(self._data).decode("utf-8", "replace")
        self._data.clear()
        return event
