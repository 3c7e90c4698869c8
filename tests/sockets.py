"""Reading from a socket whose other side may hang up: an empty `recv` fails the test instead of repeating for ever."""

from __future__ import annotations

import socket


def received(connection: socket.socket, num_bytes: int) -> bytes:
    """The next `num_bytes`."""
    data = bytearray()
    while len(data) < num_bytes:
        data += _some(connection, num_bytes - len(data), data)
    return bytes(data)


def received_until(connection: socket.socket, part: bytes) -> bytes:
    """All that comes until `part` is among it."""
    data = b""
    while part not in data:
        data += _some(connection, 65536, data)
    return data


def received_to_the_end(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    data = bytearray()
    while piece := connection.recv(65536):
        data += piece
    return bytes(data)


def _some(connection: socket.socket, most: int, before: bytes | bytearray) -> bytes:
    piece = connection.recv(most)
    assert piece, f"the other side hung up after {len(before)} bytes: {bytes(before[-200:])!r}"
    return piece
