"""One decode, and what goes on beside it: threads, masks, the report of the previous step, an interruption.

Knows nothing of what becomes of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.backend import BackendError, BatchDecoder
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.constraint.masking import Masking
from localllm.engine.sampling.selection import Row
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.scheduling.whole import Interruptions
from localllm.engine.threads.team import Team
from localllm.types.states import AdapterStatus


class DecodeResult(NamedTuple):
    """What is known of a decode."""

    is_whole: bool
    """Whether all of it was computed; otherwise it was interrupted."""
    began_s: float
    moved_cells: bool
    """Whether a copy's cells were moved with it, so that its time says nothing about tokens."""
    switched: bool = False
    """Whether the set of adapters changed before it, which takes time of its own."""

    @property
    def is_comparable(self) -> bool:
        """Whether its time is that of its tokens."""
        return not self.moved_cells and not self.switched


class StepDecoder:
    """Used by the engine's thread."""

    def __init__(
        self,
        decoder: BatchDecoder,
        kv: KvCache,
        *,
        masking: Masking,
        interruptions: Interruptions,
        team: Team | None,
        clock: Callable[[], float],
        report_last: Callable[[], None],
    ) -> None:
        """`report_last` reports the previous step's results to requests, if that was not done: nothing waits for it, so
        it is called while a device computes."""
        self._decoder = decoder
        self._kv = kv
        self._masking = masking
        self._interruptions = interruptions
        self._team = team
        self._clock = clock
        self._report_last = report_last

    @property
    def is_asynchronous(self) -> bool:
        """Whether a device computes by itself after `BatchDecoder.decode` returns."""
        return self._decoder.is_asynchronous

    @property
    def num_threads(self) -> int:
        """Threads of the last decode; 0: nobody chooses them."""
        return 0 if self._team is None else self._team.num_threads

    @property
    def adapter_status(self) -> AdapterStatus | None:
        """As `BatchDecoder.adapter_status`."""
        return self._decoder.adapter_status

    def logits(self, index: int) -> Many[Row]:
        """As `BatchDecoder.logits`."""
        return self._decoder.logits(index)

    def decode(self, plan: StepPlan, *, within_s: float | None) -> DecodeResult:
        """Compute the plan's batch. With `within_s` it may be interrupted, and is after that many seconds.

        Raises `BackendError`.
        """
        self._masking.begin(plan)
        if self._team is not None:
            self._decoder.set_threads(self._team.begin(sum(len(segment.tokens) for segment in plan.segments)))
        began_s, moves_cells = self._clock(), self._kv.pending.any
        try:
            switched = self._decoder.use_adapters(plan.adapters)
            self._kv.begin_step()
            is_whole = self._decoder.decode(plan.segments, within_s=within_s)
            if is_whole:
                self._masking.compute()
                self._report_last()
                self._decoder.synchronize()
        except BackendError:
            self._report_last()
            raise
        seconds = self._clock() - began_s
        if not is_whole:
            self._interruptions.lost(self._decoder.lost_s)
            seconds = max(0.0, seconds - self._decoder.lost_s)
        elif self._team is not None:
            self._team.end(seconds, is_comparable=not moves_cells and not switched)
        self._interruptions.computed(seconds)
        return DecodeResult(is_whole, began_s, moves_cells, switched)
