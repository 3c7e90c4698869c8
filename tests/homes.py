"""Data directories of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path


def share_findings(home: Path, folder: Path) -> None:
    """Copy what is known about this machine, if anything, so that no worker finds it out again: the CPU backend that
    works, and how attention is computed."""
    for name in ("selftest.json", "attention.json"):
        if (home / name).exists():
            shutil.copy(home / name, folder)
