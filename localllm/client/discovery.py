"""Finds a server that already runs on this machine. Knows nothing about starting one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from localllm.errors import LocalLLMError
from localllm.settings.config import Settings

if TYPE_CHECKING:
    from localllm.client.api import Client

CONNECT_TIMEOUT_S = 0.3
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def address_of(settings: Settings) -> tuple[str, int]:
    """The address of a server with these settings, for a client on this machine."""
    return ANY_ADDRESS.get(settings.host, settings.host), settings.port


def is_anybody_there(settings: Settings) -> bool:
    """Whether something listens at that address. Takes a millisecond and imports nothing."""
    if settings.port == 0:
        return False
    try:
        socket.create_connection(address_of(settings), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def server_of(settings: Settings) -> Client:
    """A client of the running server, with this user's key.

    Raises `ServerGone` if there is none.
    """
    from localllm.client.api import Client, ServerGone  # importing it takes 0.1 s

    host, port = address_of(settings)
    if not is_anybody_there(settings):
        raise ServerGone(f"no server answers at {host} port {port}; start one with localllm serve")
    scheme = "http" if settings.tls_cert_file is None else "https"
    return Client(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}", settings.client_key())


def find_server(settings: Settings, refused: Callable[[str], None] = lambda _: None) -> Client | None:
    """A client of a running server that accepts our key; None if there is no such server. `refused` gets the message
    of one that wants another key.
    """
    if not is_anybody_there(settings):
        return None
    from localllm.client.api import KeyRequired

    client = server_of(settings)
    try:
        client.processes()
    except LocalLLMError as error:
        client.close()
        if isinstance(error, KeyRequired):
            refused(error.message)
        return None
    return client
