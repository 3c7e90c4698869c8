"""Regular expressions of the package mean the same in every Python that it supports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.each import each

PACKAGE = Path(__file__).parents[2] / "localllm"


def patterns(path: Path) -> list[str]:
    """The constant ones."""
    source = path.read_text("utf-8")
    if "re." not in source:
        return []
    return [
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


@each("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nothing_is_possessive_or_atomic(path: Path) -> None:
    """Python 3.11.2, which Debian 12 has, matches these wrongly (CPython issue 100061, mended in 3.11.3)."""
    for pattern in patterns(path):
        parsed = repr(re._parser.parse(pattern))
        assert "POSSESSIVE_REPEAT" not in parsed, pattern
        assert "ATOMIC_GROUP" not in parsed, pattern
