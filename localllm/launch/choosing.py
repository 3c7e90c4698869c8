"""Which model an agent gets, and how much context: a pure choice among what is here. Knows no files and no server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

CONTEXTS = (65_536, 49_152, 32_768, 24_576, 16_384, 8_192, 4_096)
"""Tried in this order. An agent's own prompt has 10,000 tokens and more; beyond 65,536 a prompt takes minutes on most
machines, so more has to be asked for."""
GOOD_CTX = 32_768
SLOTS = 2
"""A conversation, and beside it titles, summaries and subagents."""


class Candidate(NamedTuple):
    """A model that chats."""

    name: str
    num_parameters: int
    trained_ctx: int | None
    """Tokens; None: its file does not say."""
    needs: Callable[[int, int], int]
    """Bytes of main memory with so much context and so many slots."""


class Size(NamedTuple):
    """How a model is to be loaded."""

    ctx: int
    slots: int


def size_for(model: Candidate, room_bytes: int | None, ctx: int | None = None) -> Size:
    """As much context as fits, up to the first of `CONTEXTS`; `ctx`: so much, whatever it needs.

    `room_bytes` None: nobody knows, so everything fits. Where nothing does it is the least.
    """

    def fits(ctx: int, slots: int) -> bool:
        return room_bytes is None or model.needs(ctx, slots) <= room_bytes

    if ctx is None:
        trained = model.trained_ctx or CONTEXTS[0]
        possible = sorted({min(each, trained) for each in CONTEXTS}, reverse=True)
        ctx = next((each for each in possible if fits(each, 1)), possible[-1])
    return Size(ctx, SLOTS if fits(ctx, SLOTS) else 1)


def best(models: Sequence[Candidate], room_bytes: int | None) -> Candidate | None:
    """The largest that has `GOOD_CTX` tokens here, else the one that has most; None where there are no models."""
    if not models:
        return None

    def rank(model: Candidate) -> tuple[int, int]:
        ctx = size_for(model, room_bytes).ctx
        fits = room_bytes is None or model.needs(ctx, 1) <= room_bytes
        # One that does not fit at all is the better the smaller it is.
        return (min(ctx, GOOD_CTX), model.num_parameters) if fits else (0, -model.num_parameters)

    return max(models, key=rank)
