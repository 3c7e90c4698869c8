"""The library as a worker would load it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localllm.llama import library
from localllm.llama.probes import selftest


@pytest.fixture(scope="module")
def loaded_library(home: Path) -> library.Library:
    """With the CPU backend that the self-test has chosen."""
    return library.load(selftest.choose(home).choice, plugin_dir=None, verbose=False)
