"""Request bodies with a content encoding (gzip, deflate, zstd), decoded as they are read. Knows no limit of a body.

Readers get pieces of bounded size, one at a time. Those who count them (`read_body`, `HeldBodies`) therefore stop a
decompression bomb where a plain body of that size would be stopped.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localllm.errors import InvalidParameter, clipped
from localllm.server.errors import UnsupportedMediaType

PIECE_BYTES = 64 * 1024
"""Largest decoded piece, whatever the encoded one promises."""
MAX_WINDOW_LOG = 23
"""A zstd body may look back 8 MB, as RFC 9659 allows; a decoder reserves that memory."""
GZIP = 16 + zlib.MAX_WBITS


class Decoder(Protocol):
    """What `compression.zstd` and `_Zlib` have in common."""

    @property
    def eof(self) -> bool:
        """Whether the encoded data has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether there is nothing more to be had without further data."""

    @property
    def unused_data(self) -> bytes:
        """What followed after the end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next piece."""


class _Zlib:
    """zlib's object, with the interface of `compression.zstd`'s."""

    def __init__(self, wbits: int) -> None:
        self._zlib = zlib.decompressobj(wbits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = len(piece) < max_length
        return piece


def _deflate(first: bytes) -> Decoder:
    """With zlib's header, as HTTP says, or without, as many clients send it."""
    has_header = first[0] & 0x0F == zlib.DEFLATED  # else, in a first byte, a stored block with padding that is not 0
    return _Zlib(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _zstd() -> tuple[Callable[[bytes], Decoder] | None, type[Exception]]:
    """The standard library has it since Python 3.14."""
    try:
        module: Any = importlib.import_module("compression.zstd")
    except ImportError:
        return None, zlib.error
    options = {module.DecompressionParameter.window_log_max: MAX_WINDOW_LOG}
    return lambda _: module.ZstdDecompressor(options=options), module.ZstdError


_ZSTD, _ZSTD_ERROR = _zstd()

DECODERS: dict[str, Callable[[bytes], Decoder]] = {
    "gzip": lambda _: _Zlib(GZIP),
    "deflate": _deflate,
    **({} if _ZSTD is None else {"zstd": _ZSTD}),
}
"""Encoding -> a new decoder of data that begins with these bytes."""
_SAME = {"x-gzip": "gzip", "identity": ""}


class DecodedBody:
    """ASGI middleware that decodes bodies. Raises `UnsupportedMediaType` for other encodings, `InvalidParameter` for
    data that is not encoded so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("content-encoding", "").strip().lower()
        name = _SAME.get(given, given)
        if not name:
            await self.app(scope, receive, send)
            return
        if name not in DECODERS:
            *others, last = DECODERS
            raise UnsupportedMediaType(
                f"no {clipped(given)!r} is decoded here; send {', '.join(others)} or {last}, or the plain body",
                accept_encoding=", ".join(DECODERS),
            )
        # The length is that of the encoded body.
        scope["headers"] = [
            each for each in scope["headers"] if each[0] not in (b"content-encoding", b"content-length")
        ]
        scope["headers"].append((b"transfer-encoding", b"chunked"))
        await self.app(scope, _Decoding(name, receive).receive, send)


class _Decoding:
    """One body. `receive` returns a piece of it for every call."""

    def __init__(self, name: str, receive: Receive) -> None:
        self._name = name
        self._receive = receive
        self._pieces: Iterator[bytes] = iter(())
        self._decoder: Decoder | None = None
        self._has_more = True
        self._is_whole = False

    async def receive(self) -> Message:
        """Raises `InvalidParameter`."""
        while not self._is_whole:
            try:
                piece = next(self._pieces, None)
            except (zlib.error, _ZSTD_ERROR) as error:
                raise self._invalid(str(error)) from error
            if piece is not None:
                return {"type": "http.request", "body": piece, "more_body": True}
            if not self._has_more:
                if self._decoder is not None:
                    raise self._invalid("it ends too early")
                self._is_whole = True
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._has_more = message.get("more_body", False)
            self._pieces = self._decoded(message.get("body", b""))
        return await self._receive()  # the disconnect

    def _decoded(self, data: bytes) -> Iterator[bytes]:
        """The pieces that some more data yields."""
        while data or (self._decoder is not None and not self._decoder.needs_input):
            decoder = self._decoder = self._decoder or DECODERS[self._name](data)
            yield decoder.decompress(data, PIECE_BYTES)
            data = b""
            if decoder.eof:  # gzip and zstd may consist of several parts
                data, self._decoder = decoder.unused_data, None

    def _invalid(self, why: str) -> InvalidParameter:
        return InvalidParameter(
            f"the body is not valid {self._name}: {why}; send it again, or without content-encoding"
        )
