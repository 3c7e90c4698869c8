"""How many tokens a step may take and still end in time: learned from the steps before, since no machine is known.

llama.cpp's flash attention is two to three times as fast for a prompt that gets a tile of 64 rows in a step as for one
that gets fewer, once much is before them: 24 to 63 rows behind 1,358 others take as long as 64 do, behind none they do
not. So there are two rates, and tiles are waited for where the difference is large. Without flash attention half as
many rows are as good, whatever is before them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

ASSUMED_TOKENS_PER_S = 214
"""Before anything is measured: what a 1.2 B model computes on two cores."""
TILE = 64
"""Rows of one prompt from which llama.cpp's attention is fast; larger chunks are whole numbers of these."""
TELLING = 8
"""Steps with fewer tokens of prompts tell little of what one costs."""
LEAST_CHUNK = 32
"""Tokens of prompts that ride along in any case if the step may be that long: they cost little more than none."""
WORTH_WAITING = 1.5
"""A token outside of a tile takes more than so many times as long: then tiles are waited for."""
LONGEST_TILE = 2.0
"""A tile that is worth waiting for rides along beside streams if it takes at most so many times `max_step_s`."""
MOST_WORSE = 4.0
"""A step that took longer than so many times what was expected was held up by something else."""


class Budget(NamedTuple):
    """Tokens of prompts that a step may have."""

    tiled: int
    """If a prompt gets a whole tile of them, or more."""
    small: int
    """If none does."""
    prefers_tiles: bool = False
    """A prompt rather waits for a whole tile than takes less."""
    tile: int = TILE
    """Rows of one."""
    grain: int = TILE
    """Larger parts of a prompt, but for its last, are multiples of this."""


class Pace:
    """Keeps steps under `max_step_s` seconds, so that a cancel or a new request never waits longer; and those that
    compute prompts while answers stream under `prefill_step_s`, so that the streams flow. Where more wait for their
    first token than stream, those take as many times more of a step: less would make the many wait for the few.

    Where the machine is too slow for that a step is longer, so that prompts do not starve: one tile while nobody
    streams, since less of it would take as long; beside streams as much time as their own tokens take, or a tile where
    anything less costs much more. One that takes longer than two steps may comes once the steps since the last one have
    left the time for it.
    """

    def __init__(
        self,
        *,
        max_step_s: float,
        batch_capacity: int,
        prefill_step_s: float = math.inf,
        tile: int = TILE,
        grain: int = TILE,
    ) -> None:
        self.tile = tile
        self._grain = grain
        self._max_step_s = max_step_s
        self._prefill_step_s = min(prefill_step_s, max_step_s)
        self._batch_capacity = batch_capacity
        self._stream_s = 0.0
        """What a step takes in which every running answer gets a token."""
        self._tiled_s: float | None = None
        self._small_s: float | None = None
        """What a token of a prompt takes beyond that, in a tile or not."""
        self._waiting_share = 1.0
        """How many wait for their first token for each that streams, if more do."""
        self._saved_s = 0.0
        """What the steps beside streams since the last tile left for prompts, whether short ones took it or not."""

    def budget(self, num_streams: int = 0, num_hungry: int = 0) -> Budget:
        """For the next step, while so many answers stream, and so many have not begun."""
        self._waiting_share = max(1.0, num_hungry / num_streams) if num_streams else 1.0
        return self._budget(num_streams)

    def _budget(self, num_streams: int) -> Budget:
        most_s, streams_s = self._max_step_s, self._stream_s
        if num_streams == 0:
            tiled, small = _tokens_in(most_s, self._rates[0]), _tokens_in(most_s, self._rates[1])
            return self._told(max(tiled, self.tile), small)
        tiled, small = (_tokens_in(self._beside_streams_s, rate) for rate in self._rates)
        prefers, tile_s = self._prefers_tiles, self.tile * self._rates[0]
        if prefers and tile_s <= max(LONGEST_TILE * most_s, self._saved_s + self._beside_streams_s):
            tiled = max(tiled, self.tile)
        least = min(LEAST_CHUNK, _tokens_in(most_s - streams_s, self._rates[1]))
        return self._told(tiled, max(small, least))

    def observe(self, num_streams: int, num_prompt_tokens: int, seconds: float, *, tiled: bool) -> None:
        """A step took so long in which so many sequences got one token, and prompts so many.

        Slower than thought counts at once, faster soon.
        """
        self._saved_s = 0.0 if tiled or num_streams == 0 else self._saved_s + self._beside_streams_s
        if num_prompt_tokens == 0:
            self._stream_s = seconds if self._stream_s == 0 else 0.5 * (self._stream_s + seconds)
            return
        streams_s = min(self._stream_s, 0.9 * seconds) if num_streams else 0.0
        token_s = max(seconds - streams_s, 1e-9) / num_prompt_tokens
        if tiled:
            self._tiled_s = _learned(self._tiled_s, token_s)
        elif num_prompt_tokens >= min(TELLING, self._budget(num_streams).small):
            self._small_s = _learned(self._small_s, token_s)
            if self._tiled_s is not None and self._budget(num_streams).tiled < self.tile:
                self._tiled_s *= 0.98  # what is not tried is never learned

    @property
    def _beside_streams_s(self) -> float:
        """What prompts may take of a step with streams."""
        most_s = min(self._prefill_step_s * self._waiting_share, self._max_step_s)
        return max(most_s - self._stream_s, self._stream_s)

    @property
    def _prefers_tiles(self) -> bool:
        tiled, small = self._rates
        return small > WORTH_WAITING * tiled

    @property
    def _rates(self) -> tuple[float, float]:
        """Of a token in a tile and of one in none. What is not known is hoped for, so that it is tried.

        None is cheaper than in a tile: what was learned of few tokens behind nothing is not believed far behind.
        """
        if self._small_s is None:
            token_s = self._tiled_s or 1 / ASSUMED_TOKENS_PER_S
            return token_s, token_s
        tiled = self._tiled_s or self._small_s / 2
        return tiled, max(self._small_s, tiled)

    def _told(self, tiled: int, small: int) -> Budget:
        tiled, small = (max(1, min(tokens, self._batch_capacity)) for tokens in (tiled, small))
        return Budget(tiled, small, self._prefers_tiles, self.tile, self._grain)


def _tokens_in(seconds: float, token_s: float) -> int:
    return max(0, int(seconds / token_s + 1e-6))


def _learned(known: float | None, token_s: float) -> float:
    if known is None:
        return token_s
    return min(token_s, MOST_WORSE * known) if token_s > known else 0.3 * known + 0.7 * token_s
