"""Data directories of a test's own."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from localllm.measuring.repeated import MAX_ATTEMPTS


def share_findings(home: Path, folder: Path) -> None:
    """Copy what is known about this machine, if anything, so that no worker finds it out again: the CPU backend that
    works, and how attention is computed. The llama.cpp under test goes with it."""
    for name in ("selftest.json", "attention.json"):
        if (home / name).exists():
            shutil.copy(home / name, folder)
    if (home / "runtimes").exists() and not (folder / "runtimes").exists():
        (folder / "runtimes").symlink_to(home / "runtimes")


def use_runtime(installed: Path, home: Path) -> None:
    """What `localllm runtime install` and `use` would do with this runtime of another data directory."""
    folder = home / "runtimes"
    folder.mkdir()
    (folder / installed.name).symlink_to(installed.resolve())
    (folder / "chosen").write_text(installed.name)


@contextlib.contextmanager
def measured_once(home: Path, folder: Path) -> Iterator[Path]:
    """A data directory that also knows how fast this machine is, if a test found it out before; what it learns is kept
    in `home` for those after it."""
    found = ("selftest.json", "attention.json", "speed.json")
    for source, target in ((home, folder), (folder, home)):
        for name in found:
            if (source / name).exists():
                shutil.copy(source / name, target)
        if source is home:
            _settle(folder / "speed.json")
            yield folder


def _settle(path: Path) -> None:
    """What was measured beside other tests is noisy, and would be measured again by each command."""
    if path.exists():
        content = json.loads(path.read_bytes())
        for speed in content["outcomes"].values():
            for kernel in speed["kernels"].values():
                kernel["attempts"] = MAX_ATTEMPTS
        path.write_text(json.dumps(content))
