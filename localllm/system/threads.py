"""Starts daemon threads with a stack large enough for recursion in native code."""

from __future__ import annotations

import threading
from collections.abc import Callable

STACK_BYTES = 64 * 2**20
"""Unused stack takes no memory. C++ regular expressions recurse for each character of a run (`llama.tokens.text_cuts`),
grammar compilers for each level of a schema, and some systems give a thread only 512 KB."""


def start_thread(run: Callable[[], None], name: str) -> None:
    """Call `run` on a daemon thread."""
    before = threading.stack_size(STACK_BYTES)
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    finally:
        threading.stack_size(before)
