"""Rows of tables as lines. Knows no formats."""

from __future__ import annotations

from collections.abc import Iterable


def row_of(cells: Iterable[str]) -> str:
    """As in Markdown; a cell is one line."""
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"
