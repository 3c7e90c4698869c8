"""How many tokens each running sequence gets in a step: one per stream, and a share of the rest for each prompt.

Among a few possible shapes of the step, takes the one that computes most prompt tokens in the available time, as
predicted by the cost model. In a partitioned cache, where prompts' rows take passes of their own in any case, prompts
and streams have steps of their own, by turns, which share that time: so an answer that begins streams in the same pass
as the others, instead of after it. Knows nothing of waiting sequences or what is cached.

`rows` chooses among shapes, too, but solves another problem: its rows may be in vain and its time is open, so it
maximizes a rate. That rule here would leave steps shorter than they may be and prompts later
(benchmarks/log/scheduling.md#one-solver).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.pace import StepBudget
from localllm.engine.scheduling.recompute import Again, computed_again, most_again

MIN_PART_TOKENS = 16
"""Minimum number of tokens of each of several prompts in a step: after 2,048 tokens, 4 tokens of each of 8 prompts take
442 ms, 16 tokens of each of 2 take 263 ms."""
MAX_FINISHING_STRETCH = 1.5
"""Beside streams a step may take this many times as long, if its prompts then end and less than such a part of each
would be left."""
OVERHEAD = 3
"""A step may always take this many times its duration without prompts: on slow machines a shorter one achieves little.
"""
EQUAL_SHAPE_SHARE = 0.9
"""Shapes that compute at least this share of the best shape's tokens count as equal; fairness decides among them."""
MIN_TILE_SPEEDUP = 1.2
"""Minimum gain in tokens per second for which a tile may exceed the intended time of a step beside streams."""


class StepShape(NamedTuple):
    """A possible shape of a step."""

    rows: dict[int, int]
    """Id of a prompt -> its rows."""
    num_tokens: int
    """Total number of prompt tokens in the step."""
    seconds: float


class Shares:
    """Shares a step among prompts. Remembers whose turn it is, and how much time prompts have not used."""

    def __init__(self, *, batch_capacity: int, takes_turns: bool = False, can_rewind: bool = False) -> None:
        """`takes_turns`: the cache is partitioned. Prompts to be scored never do: their rows are bounded otherwise.

        `can_rewind`: tokens may be computed again (`recompute`).
        """
        self._can_rewind = can_rewind
        self._batch_capacity = batch_capacity
        self._takes_turns = takes_turns
        self.is_streams_turn = False
        """Whether the next step belongs to the streams, because the last one computed only prompts beside them."""
        self._is_oldests_turn = False
        """Whether the oldest prompt is next; otherwise the one that needs the fewest tokens is."""
        self._saved_s = 0.0
        """Time that prompts could have used in steps beside streams, since the last step that did not wait for a tile.
        """
        self._saved_for_spans_s = 0.0
        """The same of media rows."""

    def of(self, running: list[Sequence], budget: StepBudget) -> dict[int, int]:
        """Number of tokens in the next step for each of these sequences, by id."""
        prompts = sorted(
            (each for each in running if each.progress.is_prefilling), key=lambda each: each.progress.num_pending
        )
        is_streams_turn, self.is_streams_turn = self.is_streams_turn, False
        has_streams = len(prompts) < len(running)
        if not prompts or (is_streams_turn and has_streams):
            return {each.id: 1 for each in running}  # without prompts' rows, slots between streams would cost a pass
        share = {each.id: 1 for each in running} | {prompt.id: 0 for prompt in prompts}
        if self._is_oldests_turn:
            oldest = min(prompts, key=lambda prompt: (prompt.request.due.created_s, prompt.id))
            prompts = [oldest, *(prompt for prompt in prompts if prompt is not oldest)]
        takes_turns = self._takes_turns and not any(prompt.wants_scores for prompt in prompts)
        fills = takes_turns and self._can_rewind
        shapes = Shapes(running, prompts, budget, self._batch_capacity, takes_turns=takes_turns, fills=fills)
        chosen = self._choose(shapes, prompts, budget)
        if len(chosen) < len(prompts) and prompts[0].id in chosen:
            self._is_oldests_turn = not self._is_oldests_turn
        if takes_turns and not shapes.is_alone and max(chosen.values(), default=0) > 1:
            self.is_streams_turn = True
            share = dict.fromkeys(share, 0)
        return share | chosen

    def of_span(self, sequence: Sequence, streams: list[Sequence], budget: StepBudget) -> int:
        """Number of rows of the sequence's next span in a step of their own; 0: they wait, and so save time.

        Beside streams, a span that must be computed whole, or a tile of another, waits until the steps since the last
        one have saved the time for it.
        """
        span = sequence.progress.next_span
        assert span is not None
        shapes = Shapes([*streams, sequence], [sequence], budget, self._batch_capacity, takes_turns=True, fills=False)
        most_s = max(budget.step_s, OVERHEAD * shapes.overhead_s)
        fitting = wanted = shapes.largest([sequence], most_s)
        if not span.of.is_causal:
            wanted = shapes.of([sequence], sequence.progress.num_next)
        elif fitting.num_tokens < shapes.tile <= min(sequence.progress.num_next, shapes.room):
            tile = shapes.of([sequence], shapes.tile)
            wanted = tile if shapes.rate(tile) >= MIN_TILE_SPEEDUP * shapes.rate(fitting) else fitting
        saved_s = self._saved_for_spans_s + most_s - shapes.streams_s
        self.is_streams_turn = not shapes.is_alone
        if shapes.is_alone or wanted.seconds <= max(most_s, shapes.streams_s + saved_s):
            self._saved_for_spans_s = 0.0
            return wanted.num_tokens
        self._saved_for_spans_s = saved_s
        return 0

    def _choose(self, shapes: Shapes, prompts: list[Sequence], budget: StepBudget) -> dict[int, int]:
        """Beside streams: as few prompts as fill the time, so that their answers begin one after the other. While
        nothing streams: as many as possible, so that none streams beside the others' prompts.

        The first in turn gets a whole tile where anything less is expensive. Beside streams, a slow tile waits until
        the steps since the last one have saved the time for it, and all prompts wait with it.
        """
        most_s = max(budget.step_s, OVERHEAD * shapes.overhead_s)
        saved_s, self._saved_s = self._saved_s + most_s - shapes.streams_s, 0.0
        found, count = [shapes.largest(prompts, most_s)], len(prompts)
        while found[0].num_tokens < sum(prompt.progress.num_next for prompt in prompts) and count > 1:
            count //= 2
            found.append(shapes.largest(prompts[:count], most_s))
        enough = EQUAL_SHAPE_SHARE * max(shape.num_tokens for shape in found)
        chosen = next(s for s in (found if shapes.is_alone else reversed(found)) if s.num_tokens >= enough)
        has_tile = shapes.tile <= min(prompts[0].progress.num_next, shapes.room) or shapes.fills(prompts[0])
        if max(chosen.rows.values()) >= shapes.tile or not has_tile:
            return chosen.rows
        tile = shapes.of(prompts[:1], shapes.tile)
        if shapes.rate(tile) < (1 if shapes.is_alone else MIN_TILE_SPEEDUP) * shapes.rate(chosen):
            return chosen.rows
        if shapes.is_alone or tile.seconds <= max(budget.longest_s, shapes.streams_s + saved_s):
            return tile.rows
        self._saved_s = saved_s
        return {}


class Shapes:
    """Possible shapes of a step, and their cost."""

    def __init__(
        self,
        running: Many[Sequence],
        prompts: Many[Sequence],
        budget: StepBudget,
        batch_capacity: int,
        *,
        takes_turns: bool,
        fills: bool,
    ) -> None:
        """`takes_turns`: streams get a step of their own after that of the prompts; both count as one here.

        `fills`: what is left of prompts may be computed with tokens before it, where that is faster.
        """
        self._fills = fills
        self._is_limited = budget.most_tokens < batch_capacity
        """Something is to happen after so many tokens: others wait for that prefix."""
        self._cost = budget.cost
        self._takes_turns = takes_turns
        self._running = running
        ids = {prompt.id for prompt in prompts}
        self._streams = {each.id: 1 for each in running if each.id not in ids}
        self.room = min(batch_capacity, budget.most_tokens) - (0 if takes_turns else len(self._streams))
        self.is_alone = not self._streams
        self.streams_s = self.of([], 0).seconds
        self.overhead_s = self.streams_s + self._cost.pass_s
        self.tile = self._cost.tile + (0 if self.is_alone or takes_turns else 1)
        """Rows of a prompt that are computed in a tile: in a step of both, its first goes with the streams' tokens."""

    def of(self, prompts: Many[Sequence], most_rows: int) -> StepShape:
        """The shape in which each of these gets `most_rows` rows, or all it needs."""
        rows = {prompt.id: min(prompt.progress.num_next, most_rows) for prompt in prompts}
        if self._fills and prompts and all(prompt.progress.num_next <= most_rows for prompt in prompts):
            seconds = self._seconds(self._streams) + self._again(prompts).seconds
        elif self._takes_turns:
            seconds = self._seconds(self._streams) + self._seconds(rows)
        else:
            seconds = self._seconds(self._streams | rows)
        return StepShape(rows, sum(rows.values()), seconds)

    def largest(self, prompts: Many[Sequence], most_s: float) -> StepShape:
        """The shape in which each of these gets the same number of rows, or all it needs, and as many as the time
        allows.

        In whole tiles, if these fit: a tile may take less time than a part of it. If few rows of each would be left,
        a step beside streams takes these, too.
        """
        most = max(prompt.progress.num_next for prompt in prompts)
        if len(prompts) == 1 and self._is_limited:  # not in whole tiles, which would leave a few rows to another step
            most = min(most, self.room)
        tile, grain = self.tile, self._cost.grain
        least = 1 if len(prompts) == 1 else min(MIN_PART_TOKENS, most // 2, self.room // len(prompts))
        whole = self.of(prompts, most)
        if self._fits(whole, most_s):
            return whole
        for levels in (
            range(tile, min(most, self.room) + 1, grain),
            range(max(1, least), min(most, tile)),
        ):
            count = bisect_left(levels, 1, key=lambda rows: not self._fits(self.of(prompts, rows), most_s))
            if count:
                rows = levels[count - 1]
                few_are_left = most - rows < MIN_PART_TOKENS and not self.is_alone
                takes_them = few_are_left and self._fits(whole, MAX_FINISHING_STRETCH * most_s)
                return whole if takes_them else self.of(prompts, rows)
        return self.of(prompts[:1], 1)

    def fills(self, prompt: Sequence) -> bool:
        """Whether what is left of a prompt is computed as a tile, though it is less."""
        return self._fills and prompt.progress.num_next < self.tile and any(self._again([prompt]).counts)

    def _again(self, prompts: Many[Sequence]) -> Again:
        prompts = sorted(prompts, key=lambda prompt: prompt.slot or 0)
        parts = [(prompt.slot or 0, prompt.progress.num_computed, prompt.progress.num_next) for prompt in prompts]
        room = self.room - sum(prompt.progress.num_next for prompt in prompts)
        return computed_again(parts, [most_again(prompt) for prompt in prompts], self._cost, room=room)

    def rate(self, shape: StepShape) -> float:
        """Prompt tokens per second of the time that prompts take."""
        return shape.num_tokens / max(shape.seconds - self.streams_s, 1e-12)

    def _seconds(self, rows: Mapping[int, int]) -> float:
        parts = [
            (each.slot or 0, each.progress.num_computed, rows[each.id]) for each in self._running if each.id in rows
        ]
        return self._cost.seconds(parts)

    def _fits(self, shape: StepShape, most_s: float) -> bool:
        return shape.num_tokens <= self.room and shape.seconds <= most_s
