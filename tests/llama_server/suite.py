"""The suite as it is run: a copy of its folder, where what its models say is replaced by what ours say.

`adapted.toml` lists the replacements. Each changes constants only, so that no assertion on behaviour can go.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.llama_server.plugin import FOLDER

HERE = Path(__file__).parent
LOCATION = "LOCALLLM_LLAMA_SERVER_TESTS"
"""Environment: the folder of the suite."""
TEST_TIMEOUT_S = 45


def prepare(suite: Path, copy: Path) -> None:
    """Copy the suite and adapt it. Raises `ValueError` for a replacement that does not fit."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(suite, copy)
    (copy / "tmp").mkdir(exist_ok=True)
    for entry in tomllib.loads((HERE / "adapted.toml").read_text("utf-8")).get("replace", []):
        path = copy / entry["file"]
        path.write_text(_replaced(path.read_text("utf-8"), entry), "utf-8")


def _replaced(source: str, entry: dict[str, Any]) -> str:
    """Within one test, or one file where no test is named."""
    start, end = _span(source, entry.get("test"))
    part = source[start:end]
    times = entry.get("times", 1)
    if part.count(entry["old"]) != times:
        raise ValueError(f"{entry}: found {part.count(entry['old'])} times, not {times}")
    changed = source[:start] + part.replace(entry["old"], entry["new"]) + source[end:]
    if _shape(changed) != _shape(source):
        raise ValueError(f"{entry}: changes more than constants")
    return changed


def _span(source: str, test: str | None) -> tuple[int, int]:
    """Where that test stands, its decorators included."""
    if test is None:
        return 0, len(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == test:
            assert node.end_lineno is not None
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return starts[first - 1], starts[node.end_lineno]
    raise ValueError(f"there is no test {test}")


def _shape(source: str) -> str:
    """The program without its constants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value = None
    return ast.dump(tree)


def run(suite: Path, folder: Path, arguments: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Run the suite, or the part of it that pytest's `arguments` select: outcome and words of each test."""
    copy = folder / "suite"
    prepare(suite, copy)
    results = folder / "results.json"
    results.unlink(missing_ok=True)
    subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "tests.llama_server.plugin", "-p", "no:cacheprovider",
            "-c", str(copy / "pytest.ini"), "--rootdir", str(copy), "-m", "not slow", "-q",
            f"--timeout={TEST_TIMEOUT_S}", *(arguments or ["unit"]),
        ],
        cwd=copy,
        env=os.environ
        | {
            "PYTHONPATH": str(HERE.parent.parent),
            FOLDER: str(folder),
            "LOCALLLM_SUITE_TEMPLATES": str((suite / "../../../models/templates").resolve()),
        },
        check=False,
    )  # fmt: skip
    found: dict[str, dict[str, str]] = json.loads(results.read_text("utf-8"))
    return found


def expected() -> dict[str, str]:
    """Test -> the reason why it does not pass, which is right."""
    found: dict[str, str] = tomllib.loads((HERE / "expected.toml").read_text("utf-8"))["not_passing"]
    return found
