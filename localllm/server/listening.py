"""The sockets that a server listens on: opened here, or passed by the service manager. Knows no HTTP."""

from __future__ import annotations

import ipaddress
import logging
import socket
from typing import Any

from localllm.errors import InvalidParameter, LocalLLMError, sentence_of
from localllm.server.edge import log
from localllm.settings.config import Settings
from localllm.system import service_manager

LOOPBACK = "127.0.0.1"
BACKLOG = 1024


def listener_of(settings: Settings, *, has_key: bool) -> socket.socket:
    """The socket that the service manager passed, else one at the address in the settings. Raises as `bind`."""
    passed = service_manager.passed_sockets()
    if not passed:
        return bind(settings, has_key=has_key)
    try:
        _check_passed(passed)
        address = passed[0].getsockname()[0]
        _check_open(address, address, settings, has_key=has_key)
    except LocalLLMError:
        for each in passed:
            each.close()
        raise
    listener = _without_delay(passed[0])
    log.event(logging.INFO, "socket_passed", url=url_of(listener), ignored="host,port")
    return listener


def _check_passed(passed: list[socket.socket]) -> None:
    if len(passed) != 1:
        raise LocalLLMError(f"the service manager passes {len(passed)} sockets (LISTEN_FDS); this server takes one")
    (listener,) = passed
    is_tcp = listener.family in (socket.AF_INET, socket.AF_INET6) and listener.type == socket.SOCK_STREAM
    if not is_tcp or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise LocalLLMError("the service manager's socket is no listening TCP socket; use ListenStream=PORT")


def bind(settings: Settings, *, has_key: bool) -> socket.socket:
    """The listening socket. Raises `InvalidParameter` for an open address without a key, `LocalLLMError` if taken."""
    try:
        address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, OverflowError, UnicodeError) as error:
        why = sentence_of(error, is_in_home=False) if isinstance(error, OSError) else str(error)
        raise InvalidParameter(f"--host {settings.host} --port {settings.port}: {why}", param="host") from error
    # Decided on the bound address, not on the user's spelling.
    _check_open(str(address[4][0]), settings.host, settings, has_key=has_key)
    where = f"{settings.host} port {settings.port}"
    return _listening(address[0], address[4][:2], where, "choose another --port, or --port 0 for a free one")


def _check_open(address: str, shown: str, settings: Settings, *, has_key: bool) -> None:
    """Raises `InvalidParameter` if others reach the server without a key."""
    if has_key or ipaddress.ip_address(address).is_loopback:
        return
    if not settings.allow_remote_without_key:
        raise InvalidParameter(
            f"refusing to listen on {shown} without an API key: anyone on the network could use this "
            "server; set LOCALLLM_API_KEY or --api-key-file, or pass --allow-remote-without-key to permit that",
            param="host",
        )
    log.event(logging.WARNING, "anyone_on_the_network_can_use_this_server", host=shown)


def bind_ollamas(port: int) -> socket.socket:
    """A loopback socket on Ollama's port. Raises `LocalLLMError` if it is in use."""
    where = f"{LOOPBACK} port {port} (--ollama-compat)"
    remedy = "stop the Ollama server running there, or choose another --ollama-port"
    return _listening(socket.AF_INET, (LOOPBACK, port), where, remedy)


def _listening(family: socket.AddressFamily, address: Any, where: str, remedy: str) -> socket.socket:
    try:
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise LocalLLMError(f"cannot listen on {where}: {getattr(error, 'strerror', error)}; {remedy}") from error
    return _without_delay(listener)


def _without_delay(listener: socket.socket) -> socket.socket:
    """asyncio switches Nagle's algorithm off only where the protocol number says TCP, and create_server leaves it 0:
    every response then waits 40 ms for the client's delayed acknowledgement."""
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """An address that a client on this machine can use."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return f"{scheme}://{'[::1]' if address.version == 6 else '127.0.0.1'}:{port}"
    return f"{scheme}://{f'[{host}]' if address.version == 6 else host}:{port}"
