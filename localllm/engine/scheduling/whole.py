"""How much of prompts a step takes while nobody streams and a decode can be interrupted: whole batches.

llama.cpp computes a prompt fastest in ubatches that are full. A step is then as long as its batch, and who arrives ends
it. Ending it loses the ubatch that was being computed: how much is lost in all is bounded. Pure: no clock, no backend.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from localllm.engine.scheduling.pace import TELLING, Budget
from localllm.engine.sequence import Sequence

LONGEST_UBATCH_S = 2.0
"""A ubatch that would take longer is made smaller: so much is lost at most by ending a step."""
LEAST_PROMPT = 64
"""Tokens of each prompt that a step of several has, if there is time, however short the shortest is."""
NEARLY_ALL = 1.25
"""Prompts of nearly equal lengths end together, if that makes the shortest wait so many times as long at most."""
ALLOWED_LOSS_S = 0.3
"""So much may be lost before anything is held back."""
LOSS_SHARE = 0.2
"""And so much of what computes something after that."""
LEAST_LOSS_S = 0.005
"""What ending a step costs that has computed nothing: planning it, and building its graph."""


class Interruptions:
    """Whether steps may be interrupted: as long as little is lost by it.

    All that is ever lost is less than `ALLOWED_LOSS_S`, what one more interruption loses, and `LOSS_SHARE` of the time
    in which something was computed; so every prompt goes on, whatever arrives and goes.
    """

    def __init__(self) -> None:
        self._debt_s = 0.0

    @property
    def are_allowed(self) -> bool:
        return self._debt_s < ALLOWED_LOSS_S

    def computed(self, seconds: float) -> None:
        """What was computed in so many seconds stays."""
        self._debt_s = max(0.0, self._debt_s - LOSS_SHARE * seconds)

    def lost(self, seconds: float) -> None:
        """What was computed in so many seconds does not."""
        self._debt_s += max(seconds, LEAST_LOSS_S)


class WholeBatches:
    """Learns how fast prompts are computed while nobody streams."""

    def __init__(self, *, batch_capacity: int, ubatch_capacity: int) -> None:
        self._batch_capacity = batch_capacity
        self._ubatch_capacity = ubatch_capacity
        self._tokens_per_s: float | None = None

    def observe(self, num_tokens: int, seconds: float) -> None:
        """A step of prompts only took so long."""
        if num_tokens >= TELLING:
            self._tokens_per_s = num_tokens / max(seconds, 1e-9)

    def budget(self, bounded: Budget, running: Many[Sequence], waiting: Many[Sequence]) -> Budget:
        """In the place of one that bounds a step's time: for `running` prompts, some of whose prefixes are waited for.

        A prompt alone gets a whole batch, and several, which llama.cpp computes in ubatches of equal parts, one ubatch:
        or less, as much as lets the first of them end. The first step, of which nothing is known, stays bounded.
        """
        if self._tokens_per_s is None or not running or any(sequence.wants_scores for sequence in running):
            return bounded
        in_time = int(self._tokens_per_s * LONGEST_UBATCH_S)
        if in_time < self._ubatch_capacity:
            most = max(in_time, bounded.tiled)
        else:
            most = self._batch_capacity if len(running) == 1 else max(self._ubatch_capacity, bounded.tiled)
        needs = sorted(_next_event(sequence, waiting) for sequence in running)
        first = len(needs) * needs[0]
        if len(needs) > 1:
            first = max(first, min(len(needs) * LEAST_PROMPT, bounded.tiled))
        tokens = sum(needs) if sum(needs) <= NEARLY_ALL * first else first
        tokens = min(tokens, most)
        return bounded._replace(tiled=tokens, small=tokens)


def _next_event(sequence: Sequence, waiting: Many[Sequence]) -> int:
    """Tokens until its prompt ends, or the prefix of it that somebody waits for."""
    events = [sequence.num_pending]
    for other in waiting:
        leader = None if other.wait is None else other.wait.leader
        if leader is not None and leader.sequence is sequence and leader.until > sequence.num_computed:
            events.append(leader.until - sequence.num_computed)
    return min(events)
