"""What a llama.cpp that is tested lacks, and `doctor` says so: tests that need it are skipped by that name."""

from __future__ import annotations

import pytest

from localllm.llama.drafts.next_symbols import NextFunctions, find
from localllm.llama.lacking import GUESSES, lacking
from localllm.llama.library import Library


def needs(library: Library, what: str) -> None:
    """Skips the test if the library lacks it."""
    if what in lacking(library):
        pytest.skip(f"llama.cpp {library.known.label}, {library.choice.runtime.name}, lacks {what}")


def guess_functions(library: Library) -> NextFunctions:
    """The functions that guesses from hidden states need."""
    needs(library, GUESSES)
    functions = find(library.api)
    assert functions is not None
    return functions
