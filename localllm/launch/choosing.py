"""Chooses an agent's model and context from the models on this machine. Pure: knows no files and no server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

CONTEXTS = (65_536, 49_152, 32_768, 24_576, 16_384, 8_192, 4_096)
"""Tried in this order. An agent's own prompt has 10,000 tokens or more; beyond 65,536 a prompt takes minutes on most
machines, so more must be requested."""
GOOD_CTX = 32_768
SLOTS = 2
"""One for the conversation, one for titles, summaries and subagents."""


class Candidate(NamedTuple):
    """A chat model."""

    name: str
    num_parameters: int
    trained_ctx: int | None
    """Trained context in tokens; None if its file does not say."""
    needs: Callable[[int, int], int]
    """Main memory in bytes for a context and a number of slots."""


class Size(NamedTuple):
    """How to load a model."""

    ctx: int
    slots: int


def size_for(model: Candidate, room_bytes: int | None, ctx: int | None = None) -> Size:
    """The largest context that fits, up to the first of `CONTEXTS`; `ctx` overrides this.

    `room_bytes` None: unknown, so everything fits. If nothing fits, the smallest is used.
    """

    def fits(ctx: int, slots: int) -> bool:
        return room_bytes is None or model.needs(ctx, slots) <= room_bytes

    if ctx is None:
        trained = model.trained_ctx or CONTEXTS[0]
        possible = sorted({min(each, trained) for each in CONTEXTS}, reverse=True)
        ctx = next((each for each in possible if fits(each, 1)), possible[-1])
    return Size(ctx, SLOTS if fits(ctx, SLOTS) else 1)


def best(models: Sequence[Candidate], room_bytes: int | None) -> Candidate | None:
    """The largest model with at least `GOOD_CTX` tokens, else the one with the most; None if there are no models."""
    if not models:
        return None

    def rank(model: Candidate) -> tuple[int, int]:
        ctx = size_for(model, room_bytes).ctx
        fits = room_bytes is None or model.needs(ctx, 1) <= room_bytes
        # Among models that do not fit, prefer the smallest.
        return (min(ctx, GOOD_CTX), model.num_parameters) if fits else (0, -model.num_parameters)

    return max(models, key=rank)
