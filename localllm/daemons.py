"""Daemon threads with enough stack for native code's recursion. Knows nothing of the work."""

from __future__ import annotations

import threading
from collections.abc import Callable

STACK_BYTES = 64 * 2**20
"""Only what is used takes memory. The C++ library's regular expressions recurse for each character of a run (see
`llama.text_cuts`), grammar compilers for each level of a schema; some systems give a thread only 512 KB."""


def start_thread(run: Callable[[], None], name: str) -> None:
    """Call `run` on a daemon thread."""
    before = threading.stack_size(STACK_BYTES)
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    finally:
        threading.stack_size(before)
