"""How many tokens each running sequence gets in a step: one per stream, and a share of the rest for each prompt.

Among a few possible shapes of the step, takes the one that computes most prompt tokens in the available time, as
predicted by the cost model. Knows nothing of waiting sequences or what is cached.

`rows` chooses among shapes, too, but solves another problem: its rows may be in vain and its time is open, so it
maximizes a rate. That rule here would leave steps shorter than they may be and prompts later (LOG.md, "One solver").
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.sequence import Sequence

LEAST_PART = 16
"""Fewer tokens each of several prompts are expensive: 4 of each of 8, after 2,048 others, take 442 ms, 16 of 2 263."""
OVERHEAD = 3
"""A step may always take this many times its duration without prompts: on slow machines a shorter one achieves little.
"""
NEARLY = 0.9
"""Shapes that compute this share of the most tokens count as equally good: then fairness decides."""
WORTH_IT = 1.2
"""A tile beside streams that computes this many times the tokens per second may take longer than a step should."""


class Shape(NamedTuple):
    """A possible shape of a step."""

    rows: dict[int, int]
    """Id of a prompt -> its rows."""
    num_tokens: int
    """Over all prompts."""
    seconds: float


class Shares:
    """Remembers whose turn it is, and how much time prompts have not used."""

    def __init__(self, *, batch_capacity: int) -> None:
        self._batch_capacity = batch_capacity
        self._is_oldests_turn = False
        """Until the oldest prompt gets something; then the one that needs least is next."""
        self._saved_s = 0.0
        """Time that prompts could have used in steps beside streams, since the last step that did not wait for a tile.
        """

    def of(self, running: list[Sequence], budget: StepBudget) -> dict[int, int]:
        """Id -> tokens in the next step, for each of them."""
        prompts = sorted((each for each in running if each.is_prefilling), key=lambda each: each.num_pending)
        share = {each.id: 1 for each in running} | {prompt.id: 0 for prompt in prompts}
        if not prompts:
            return share
        if self._is_oldests_turn:
            oldest = min(prompts, key=lambda prompt: (prompt.created_s, prompt.id))
            prompts = [oldest, *(prompt for prompt in prompts if prompt is not oldest)]
        chosen = self._choose(Shapes(running, prompts, budget, self._batch_capacity), prompts, budget)
        if len(chosen) < len(prompts) and prompts[0].id in chosen:
            self._is_oldests_turn = not self._is_oldests_turn
        return share | chosen

    def _choose(self, shapes: Shapes, prompts: list[Sequence], budget: StepBudget) -> dict[int, int]:
        """Beside streams: as few prompts as fill the time, so that their answers begin one after the other. While
        nothing streams: as many as possible, so that none streams beside the others' prompts.

        The first in turn gets a whole tile where anything less is expensive. Beside streams, a slow tile waits until
        the steps since the last one have saved the time for it, and all prompts wait with it.
        """
        most_s = max(budget.step_s, OVERHEAD * shapes.overhead_s)
        saved_s, self._saved_s = self._saved_s + most_s - shapes.streams_s, 0.0
        found, count = [shapes.largest(prompts, most_s)], len(prompts)
        while found[0].num_tokens < sum(prompt.num_pending for prompt in prompts) and count > 1:
            count //= 2
            found.append(shapes.largest(prompts[:count], most_s))
        enough = NEARLY * max(shape.num_tokens for shape in found)
        chosen = next(s for s in (found if shapes.is_alone else reversed(found)) if s.num_tokens >= enough)
        if max(chosen.rows.values()) >= shapes.tile or not shapes.tile <= min(prompts[0].num_pending, shapes.room):
            return chosen.rows
        tile = shapes.of(prompts[:1], shapes.tile)
        if shapes.rate(tile) < (1 if shapes.is_alone else WORTH_IT) * shapes.rate(chosen):
            return chosen.rows
        if shapes.is_alone or tile.seconds <= max(budget.longest_s, shapes.streams_s + saved_s):
            return tile.rows
        self._saved_s = saved_s
        return {}


class Shapes:
    """Possible shapes of a step, and their cost."""

    def __init__(
        self, running: Many[Sequence], prompts: Many[Sequence], budget: StepBudget, batch_capacity: int
    ) -> None:
        self._cost = budget.cost
        self._running = running
        ids = {prompt.id for prompt in prompts}
        self._streams = {each.id: 1 for each in running if each.id not in ids}
        self.room = min(batch_capacity, budget.most_tokens) - len(self._streams)
        self.is_alone = not self._streams
        self.streams_s = self.of([], 0).seconds
        self.overhead_s = self.streams_s + self._cost.pass_s
        self.tile = self._cost.tile + (0 if self.is_alone else 1)
        """Rows of a prompt that are computed in a tile: its first goes with the streams' tokens."""

    def of(self, prompts: Many[Sequence], most_rows: int) -> Shape:
        """The shape in which each of these gets `most_rows` rows, or all it needs."""
        rows = {prompt.id: min(prompt.num_pending, most_rows) for prompt in prompts}
        of_all = self._streams | rows
        parts = [(each.slot or 0, each.num_computed, of_all[each.id]) for each in self._running if each.id in of_all]
        return Shape(rows, sum(rows.values()), self._cost.seconds(parts))

    def largest(self, prompts: Many[Sequence], most_s: float) -> Shape:
        """The shape in which each of these gets the same number of rows, or all it needs, and as many as the time
        allows.

        In whole tiles, if these fit: a tile may take less time than a part of it.
        """
        most = max(prompt.num_pending for prompt in prompts)
        tile, grain = self.tile, self._cost.grain
        least = 1 if len(prompts) == 1 else min(LEAST_PART, most // 2, self.room // len(prompts))
        for levels in (
            range(most, most + 1),
            range(tile, min(most, self.room) + 1, grain),
            range(max(1, least), min(most, tile)),
        ):
            count = bisect_left(levels, 1, key=lambda rows: not self._fits(self.of(prompts, rows), most_s))
            if count:
                return self.of(prompts, levels[count - 1])
        return self.of(prompts[:1], 1)

    def rate(self, shape: Shape) -> float:
        """Prompt tokens per second of the time that prompts take."""
        return shape.num_tokens / max(shape.seconds - self.streams_s, 1e-12)

    def _fits(self, shape: Shape, most_s: float) -> bool:
        return shape.num_tokens <= self.room and shape.seconds <= most_s
