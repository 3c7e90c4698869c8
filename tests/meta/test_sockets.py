"""No test reads from a socket in a loop that an empty read keeps going for ever."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def appended_reads(source: str) -> list[int]:
    """Lines of `data += connection.recv(...)`: after the other side has hung up, each adds nothing."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.AugAssign)
        and any(isinstance(part, ast.Attribute) and part.attr == "recv" for part in ast.walk(node.value))
    ]


def test_what_is_received_is_looked_at_before_it_is_appended() -> None:
    assert appended_reads("while len(data) < 9:\n    data += client.recv(9) or b'?'\n") == [2]
    found = {path.name: lines for path in TESTS.rglob("*.py") if (lines := appended_reads(path.read_text("utf-8")))}
    assert not found, "tests/sockets.py has loops that end"
