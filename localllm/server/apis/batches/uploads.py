"""Multipart forms with a file that goes to disk as it arrives, whatever its size; its other fields stay in memory.

Knows neither where the file is stored nor what the fields mean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from localllm.errors import InvalidParameter, clipped
from localllm.server.errors import UnsupportedMediaType

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FILE = "file"
MAX_FIELD_BYTES = 4096
MAX_PARTS = 20
MAX_HEADER_BYTES = 4096
MAX_NAME_CHARS = 255
PIECE_BYTES = 1 << 20
"""Written to disk at once."""

WriteFile = Callable[[bytes], Awaitable[None]]


class Form(NamedTuple):
    """What came beside the content of the file."""

    fields: dict[str, str]
    file_name: str | None
    """None: there was no file."""


async def read_upload(content_type: str, body: AsyncIterator[bytes], write: WriteFile) -> Form:
    """Raises `InvalidParameter`, `UnsupportedMediaType`, what `write` raises."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise UnsupportedMediaType(f"the body must be sent as multipart/form-data, with the file as `{FILE}`")
    parts = _Parts()
    try:
        parser = MultipartParser(boundary, parts.callbacks())
        async for piece in body:
            parser.write(piece)
            if len(parts.pending) >= PIECE_BYTES:
                await write(parts.taken())
        parser.finalize()
    except FormParserError as error:
        raise InvalidParameter(f"the form is broken: {error}") from None
    if parts.pending:
        await write(parts.taken())
    if not parts.is_whole:
        raise InvalidParameter("the form is broken: its end is missing")
    return Form({name: bytes(value).decode("utf-8", "replace") for name, value in parts.fields.items()}, parts.name)


class _Parts:
    """Collects what the parser finds."""

    def __init__(self) -> None:
        self.fields: dict[str, bytearray] = {}
        self.name: str | None = None
        self.pending = bytearray()
        """Content of the file that was not written yet."""
        self.is_whole = False
        self._num_parts = 0
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._field: bytearray | None = None
        """The field that is being read; None: the file."""

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add(self._header, data[start:end], MAX_HEADER_BYTES),
            "on_header_value": lambda data, start, end: self._add(self._value, data[start:end], MAX_HEADER_BYTES),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": lambda data, start, end: self._add_content(data[start:end]),
            "on_end": self._end,
        }

    def taken(self) -> bytes:
        """The content so far, which is forgotten here."""
        content = bytes(self.pending)
        self.pending.clear()
        return content

    def _begin(self) -> None:
        self._num_parts += 1
        if self._num_parts > MAX_PARTS:
            raise InvalidParameter(f"the form has more than {MAX_PARTS} parts")
        self._disposition = b""

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if name == FILE:
            if self.name is not None:
                raise InvalidParameter(f"the form has two files; send one as `{FILE}`", param=FILE)
            self.name = clipped(options.get(b"filename", b"").decode("utf-8", "replace") or FILE, MAX_NAME_CHARS)
            self._field = None
        else:
            self._field = self.fields[name[:MAX_NAME_CHARS]] = bytearray()

    def _add_content(self, data: bytes) -> None:
        if self._field is None:
            self.pending += data
        else:
            self._add(self._field, data, MAX_FIELD_BYTES)

    def _add(self, to: bytearray, data: bytes, most: int) -> None:
        if len(to) + len(data) > most:
            raise InvalidParameter(f"a field or header of the form has more than {most:,} bytes")
        to += data

    def _end(self) -> None:
        self.is_whole = True
