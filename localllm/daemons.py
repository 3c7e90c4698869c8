"""Threads that end with their process, and have room for native code's recursion. Knows nothing of the work."""

from __future__ import annotations

import threading
from collections.abc import Callable

STACK_BYTES = 64 * 2**20
"""Of which only what is used takes memory. Regular expressions of the C++ library recurse for each character of a run
(see `llama.text_cuts`), compilers of grammars for each level of a schema; some systems give a thread 512 KB."""


def start_thread(run: Callable[[], None], name: str) -> None:
    """Call `run` on one."""
    before = threading.stack_size(STACK_BYTES)
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    finally:
        threading.stack_size(before)
