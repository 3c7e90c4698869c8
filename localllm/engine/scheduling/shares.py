"""How many tokens each running sequence gets in a step: one for everybody, and who of the prompts gets the rest.

Knows nothing of slots, waiting sequences or what is cached.
"""

from __future__ import annotations

from typing import Literal

from localllm.engine.scheduling.pace import Budget
from localllm.engine.sequence import Sequence

Kind = Literal["tile", "part"]
"""Who gets the whole tile that there is room for; who gets a part."""
LEAST_PART = 16
"""Fewer tokens of a prompt are dear: 4 of each of 8, behind 2,048 others, take 442 ms, 16 of each of 2 263."""


class Shares:
    """Remembers whose turn it is."""

    def __init__(self, *, batch_capacity: int, num_slots: int) -> None:
        self._batch_capacity = batch_capacity
        self._num_slots = num_slots
        self._turns: dict[Kind, int] = {"tile": 0, "part": 0}
        """Of each kind of choice by itself: budgets with room for a tile may come at every second step only."""
        self._chosen_by: set[Kind] = set()

    def of(self, running: list[Sequence], budget: Budget) -> dict[int, int]:
        """Id -> tokens of the next step, for each of them."""
        self._chosen_by.clear()
        share = self._split(running, budget, tiled=True)
        if max(share.values(), default=0) < budget.tile:
            share = self._split(running, budget, tiled=False)
        if 0 in share.values():
            for kind in self._chosen_by:
                self._turns[kind] += 1
        return share

    def _split(self, running: list[Sequence], budget: Budget, *, tiled: bool) -> dict[int, int]:
        """Tokens for each running sequence: one for all, then even parts of the rest, smallest need first.

        llama.cpp computes a batch in parts in which every sequence has equally many tokens. Beside streams that is one
        of each, and then the rest of the prompts: so what a prompt gets beyond its first token is whole tiles there.
        Where parts would be smaller than a tile and prompts rather wait than have that, fewer get a tile each; without
        `tiled` those that need less go on beside the streams. There no more prompts get something than it takes to use
        it up: the one token of each that goes with the streams' is dear (7 prompts of 14 tokens beside a stream take
        386 ms where one of 98 takes 305), and their answers begin one after the other, not all at the end.
        """
        share = {sequence.id: 1 for sequence in running}
        hungry = sorted((s for s in running if s.is_prefilling), key=lambda s: s.num_pending)
        alone = len(hungry) == len(running)
        with_first = 1 if alone else 0
        beside = 0 if alone else len(running)
        left = max(0, min(budget.tiled if tiled else budget.small, self._batch_capacity - beside))
        tile = budget.tile
        if not budget.prefers_tiles or self._batch_capacity < tile + self._num_slots:
            chosen = self._enough(hungry, left, LEAST_PART if alone else left)
        elif not tiled:
            chosen = hungry if alone else [sequence for sequence in hungry if sequence.num_pending <= tile]
        elif hungry and left < tile * len(hungry) and hungry[-1].num_pending >= tile:
            chosen = self._in_turn(hungry, "tile")[: left // tile] if left >= tile else []
        else:
            chosen = hungry
        share |= {sequence.id: 0 for sequence in hungry if sequence not in chosen}
        left -= with_first * len(chosen)
        for position, sequence in enumerate(chosen):
            extra = min(sequence.num_pending - 1, max(0, left) // (len(chosen) - position))
            if extra + with_first >= tile and extra < sequence.num_pending - 1:
                extra -= (extra + with_first) % budget.grain
            share[sequence.id] += extra
            left -= extra
        return share

    def _enough(self, hungry: list[Sequence], num_tokens: int, part: int) -> list[Sequence]:
        """As few as can take so many tokens beyond their first, each at most such a part."""
        chosen: list[Sequence] = []
        for sequence in self._in_turn(hungry, "part"):
            if num_tokens <= 0 and chosen:
                break
            chosen.append(sequence)
            num_tokens -= min(sequence.num_pending - 1, part)
        return sorted(chosen, key=lambda sequence: sequence.num_pending)

    def _in_turn(self, hungry: list[Sequence], kind: Kind) -> list[Sequence]:
        """Sorted by need: small ones first, but every other time the one that came first, so that nobody starves."""
        self._chosen_by.add(kind)
        if self._turns[kind] % 2 == 0 or not hungry:
            return hungry
        oldest = min(hungry, key=lambda sequence: (sequence.created_s, sequence.id))
        return [oldest, *(sequence for sequence in hungry if sequence is not oldest)]
