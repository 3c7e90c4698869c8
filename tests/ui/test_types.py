"""The page's JavaScript keeps to the types in its comments."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import subprocess
from pathlib import Path

import pytest

OPTIONS = "--checkJs --allowJs --noEmit --strict --target es2022 --module es2022 --moduleResolution bundler"
LIBRARIES = "es2022,dom,dom.iterable,dom.asynciterable"


def test_its_types_hold(tmp_path: Path) -> None:
    tsc = Path(os.environ.get("NODE_PATH", "none")) / "typescript" / "bin" / "tsc"
    node = shutil.which("node")
    if node is None or not tsc.is_file():
        pytest.skip("NODE_PATH names no folder with typescript")
    main = importlib.resources.files("localllm.server.ui") / "main.js"
    command = [node, str(tsc), *OPTIONS.split(), "--lib", LIBRARIES, str(main)]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
