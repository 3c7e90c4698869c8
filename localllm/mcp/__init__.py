"""The Model Context Protocol, by its official SDK (an extra): localllm's models as tools, and others' tools for models.

Knows no terminal and no API of ours. `servers` says which servers there are, `hub` keeps them and calls their tools,
`serving` is a server of our own. Only what needs the SDK imports it, so that everything else works without.
"""

from __future__ import annotations

import importlib.util

from localllm.errors import UnsupportedParameter

INSTALL = 'pip install "localllm[mcp]"'


def check_installed(param: str) -> None:
    """Raises `UnsupportedParameter`, about `param`, where the SDK is not there."""
    if importlib.util.find_spec("mcp") is None:
        raise UnsupportedParameter(f"MCP needs its SDK, which is not installed: {INSTALL}", param=param)
