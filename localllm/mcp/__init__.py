"""The Model Context Protocol, with its official SDK (an extra): local models as tools, and others' tools for models.

Knows no terminal and no HTTP API. `servers` reads the configuration, `server_pool` holds the servers and calls their
tools, `serving` is our own server. Only modules that need the SDK import it. Begin with `server_pool`.
"""

from __future__ import annotations

import importlib.util

from localllm.errors import UnsupportedParameter

INSTALL = 'pip install "localllm[mcp]"'


def check_installed(param: str) -> None:
    """Raises `UnsupportedParameter`, naming `param`, if the SDK is not installed."""
    if importlib.util.find_spec("mcp") is None:
        raise UnsupportedParameter(f"MCP needs its SDK, which is not installed: {INSTALL}", param=param)
