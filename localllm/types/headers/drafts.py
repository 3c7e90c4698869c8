"""What a draft that guesses from its target's hidden states, or from its keys and values, takes from it."""

from __future__ import annotations

from typing import Literal

import msgspec

DraftHeadKind = Literal["eagle3", "dflash", "gemma4-assistant"]


class ReadKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and values of one layer, in another model's eyes."""

    heads: int
    size: int
    """Numbers in each head's key, and in its value."""


class SharedKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and values that a Gemma 4 assistant reads: those of its target's last two layers."""

    windowed: ReadKeys | None
    """Of the last but one, if that has a sliding window; None of an assistant: it reads none."""
    full: ReadKeys | None
    """Of the last, if that sees all tokens."""


class DraftBlock(msgspec.Struct, frozen=True, kw_only=True):
    """How a DFlash draft guesses several tokens in one decode: from masks that follow the last token."""

    num_guesses: int
    """The most tokens of a decode."""
    mask: int
    """The token in place of one that is guessed."""
    is_anchor_first: bool = False
    """Whether the last token's own row is the first guess, as in DSpark; otherwise the first mask's is."""
    is_causal: bool = False
    """Whether a place sees only those before it."""
    num_candidates: int = 0
    """Tokens among which the selector of a DFlash2 draft chooses for each place; 0: it has none and gives logits."""


class DraftHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a draft that guesses from its target's hidden states takes from it."""

    kind: DraftHeadKind
    """The architecture of its file."""
    layers: tuple[int, ...]
    """Layers of the target whose inputs it guesses from; one more than the last means that layer's output."""
    width: int
    """Length of each of these vectors."""
    has_embeddings: bool
    """Otherwise it uses the target's."""
    has_output: bool
    """Whether it has an output head; otherwise it uses the target's."""
    block: DraftBlock | None = None
    """None: it guesses token by token."""
    reads: SharedKeys | None = None
    """What an assistant reads; None: it is none."""
    problem: str = ""
    """Why it cannot be computed; empty: it can."""
