"""Without the extra `mcp` everything else works, and what needs it says how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util, sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "mcp" else find(name, *rest)
import localllm.cli.commands.mcp, localllm.cli.chat.mcp_tools, localllm.server.app
from localllm.cli import main
sys.argv = ["localllm", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "command",
    [
        ("mcp", "demo"),
        ("run", "demo", "Hi", "--mcp", "mcp.json"),
        ("serve", "--port", "0", "--mcp-servers", "mcp.json"),
    ],
    ids=lambda command: command[0],
)
def test_what_needs_the_extra_names_it(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith('localllm: MCP needs its SDK, which is not installed: pip install "localllm[mcp]"\n')
    assert done.stdout == ""
