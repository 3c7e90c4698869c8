"""The order in which lines are sent: within a window of the file, those that begin alike follow each other.

So an instruction that many share is computed once and then found in the cache, whatever the order of the file. Knows
nothing of files or answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from localllm.batches.lines import BatchLine

WINDOW_LINES = 1024
WINDOW_BYTES = 32 * 1024 * 1024
"""Of bodies in memory, and at least one line."""


def by_common_prefix(lines: Iterable[BatchLine]) -> Iterator[BatchLine]:
    """The lines of each window, sorted: equal beginnings of bodies are the longest common prefixes of prompts."""
    window: list[BatchLine] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line.body)
        if len(window) == WINDOW_LINES or size >= WINDOW_BYTES:
            yield from sorted(window, key=_order)
            window, size = [], 0
    yield from sorted(window, key=_order)


def _order(line: BatchLine) -> tuple[str, bytes, int]:
    return line.url, line.body, line.number
