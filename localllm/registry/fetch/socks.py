"""A SOCKS5 client (RFC 1928) with user name and password (RFC 1929). The proxy resolves host names."""

from __future__ import annotations

import socket

from localllm.registry.fetch.sockets import NoConnection, Stream

_REFUSALS = {
    1: "general failure",
    2: "its rules forbid the connection",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "CONNECT is not supported",
    8: "the address type is not supported",
}


class ProxyFailed(NoConnection):
    """The proxy cannot connect to the host."""


def enter_socks(stream: Stream, host: str, port: int, login: tuple[bytes, bytes] | None, timeout_s: float) -> None:
    """Asks the proxy to connect to the host. Raises `ProxyFailed`, `LinkError`, after closing the stream."""
    try:
        _Handshake(stream, timeout_s).run(host, port, login)
    except BaseException:
        stream.close()
        raise


def _address(host: str) -> bytes:
    if ":" in host:
        return b"\x04" + socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    name = host.encode("ascii")
    if len(name) > 255:
        raise ProxyFailed("SOCKS5 host names have at most 255 bytes")
    return b"\x03" + bytes([len(name)]) + name


class _Handshake:
    def __init__(self, stream: Stream, timeout_s: float) -> None:
        self._stream = stream
        self._timeout_s = timeout_s

    def run(self, host: str, port: int, login: tuple[bytes, bytes] | None) -> None:
        methods = b"\x00" if login is None else b"\x00\x02"
        method = self._ask(bytes([5, len(methods)]) + methods, 2)[1]
        if method not in methods:
            raise ProxyFailed(
                "it requires an unsupported kind of login" if login else "it requires a user name and a password"
            )
        if method == 2 and login is not None:
            user, password = login
            if not 0 < len(user) < 256 or len(password) > 255:
                raise ProxyFailed("SOCKS5 user names and passwords have at most 255 bytes each")
            answer = self._ask(bytes([1, len(user)]) + user + bytes([len(password)]) + password, 2)
            if answer[1]:
                raise ProxyFailed("it rejected the user name or password")
        answer = self._ask(b"\x05\x01\x00" + _address(host) + port.to_bytes(2, "big"), 4)
        if answer[1]:
            raise ProxyFailed(_REFUSALS.get(answer[1], f"error {answer[1]}"))
        size = {1: 4, 4: 16}.get(answer[3]) or self._read(1)[0]
        self._read(size + 2)

    def _ask(self, message: bytes, answer_bytes: int) -> bytes:
        self._stream.write(message, self._timeout_s)
        answer = self._read(answer_bytes)
        if answer[0] not in (1, 5):
            raise ProxyFailed("it does not speak SOCKS5")
        return answer

    def _read(self, num_bytes: int) -> bytes:
        buffer, filled = memoryview(bytearray(num_bytes)), 0
        while filled < num_bytes:
            received = self._stream.read_into(buffer[filled:], self._timeout_s)
            if not received:
                raise ProxyFailed("it closed the connection")
            filled += received
        return bytes(buffer)
