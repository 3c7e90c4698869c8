"""The prompt for filling in the middle: other files first, cut to fit.

    [repo]project\n  [file]name\n extra ...  [file]name\n  BOS [prefix] before [suffix] after [middle]

Written like llama-server's /infill (the repository pattern of arXiv:2409.12186, else snippets between marks). Where not
all fits, other files are dropped first, from the first one on; then the text farthest from the gap, keeping three parts
before it to one after it. Knows nothing of vocabularies except their marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PROJECT, HERE, SNIPPET = "myproject\n", "filename\n", "\n\n--- snippet ---\n\n"
"""What llama-server writes for missing names, and between snippets for models without a file mark."""
LEAST_ANSWER = 16
"""Tokens reserved for the answer, whatever is cut."""


class Marks(NamedTuple):
    """Tokens of a vocabulary; None if it has no such token."""

    prefix: int
    suffix: int
    middle: int
    repository: int | None
    file: int | None
    bos: int | None


class Pieces(NamedTuple):
    """The texts as tokens, without special ones."""

    prefix: Sequence[int]
    prompt: Sequence[int]
    suffix: Sequence[int]
    project: Sequence[int] = ()
    here: Sequence[int] = ()
    extras: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    """For each file what precedes it (its name or a snippet mark), and its text."""


def infill_tokens(marks: Marks, pieces: Pieces, *, most: int) -> tuple[list[int], bool]:
    """The prompt, of at most `most` tokens, and whether something was cut."""
    bos = [] if marks.bos is None else [marks.bos]
    room = most - len(bos) - 3 - len(pieces.prompt)
    before, after = list(pieces.prefix), list(pieces.suffix)
    num_after = min(len(after), max(room // 4, room - len(before), 0))
    num_before = min(len(before), max(room - num_after, 0))
    middle = [*bos, marks.prefix, *before[len(before) - num_before :], *pieces.prompt]
    middle += [marks.suffix, *after[:num_after], marks.middle]
    others = _others(marks, pieces) if pieces.extras or marks.repository is not None else []
    num_others = min(len(others), max(0, most - len(middle)))
    is_cut = num_after < len(after) or num_before < len(before) or num_others < len(others)
    return others[len(others) - num_others :] + middle, is_cut


def _others(marks: Marks, pieces: Pieces) -> list[int]:
    tokens = [] if marks.repository is None else [marks.repository, *pieces.project]
    file = [] if marks.file is None else [marks.file]
    for name, text in pieces.extras:
        tokens += [*file, *name, *text]
    return tokens if marks.file is None else [*tokens, marks.file, *pieces.here]
