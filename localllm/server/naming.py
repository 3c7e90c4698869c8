"""The name of this server among others behind one gateway. Knows no gateway.

It stands in the header `x-localllm-server` of every reply, so that a log or a client tells which server answered.
"""

from __future__ import annotations

import hashlib
import re
import socket

from localllm.errors import InvalidParameter, clipped
from localllm.settings.config import Settings

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", re.ASCII)
"""No underscore, which separates a server's name from the rest of a stored response's id."""
NUM_HEX = 12


def server_name(settings: Settings, port: int) -> str:
    """The configured name, else one made of this machine's name, the data folder and the port: the same after a
    restart, and another one for each server, even if several share a data folder. Raises `InvalidParameter`.
    """
    if settings.server_name is None:
        told = "\n".join((socket.gethostname(), str(settings.data_dir.absolute()), str(port)))
        return hashlib.sha256(told.encode()).hexdigest()[:NUM_HEX]
    if _NAME.fullmatch(settings.server_name) is None:
        raise InvalidParameter(
            f"server_name takes up to 64 letters, digits, '-' and '.', as in a host name, not "
            f"{clipped(settings.server_name, 80)!r}",
            param="server_name",
        )
    return settings.server_name
