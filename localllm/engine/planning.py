"""Decides the next step from everything that bears on it: proposals, time, rows to score, threads, interruptions.

The scheduler then shares it out. Knows nothing of arrivals or of what becomes of the result.
"""

from __future__ import annotations

from localllm.engine.interrupting import Interrupter
from localllm.engine.requests.sequence import Sequence
from localllm.engine.sampling.prompt_logprobs import PromptScorer
from localllm.engine.scheduling.pace import Pace
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.scheduling.whole import WholeBatches
from localllm.engine.speculation.proposers import Asker
from localllm.engine.threads.team import Team


class Planner:
    """Used by the engine's thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        asker: Asker,
        pace: Pace,
        scorer: PromptScorer,
        whole: WholeBatches,
        interrupter: Interrupter,
        team: Team | None,
    ) -> None:
        self._scheduler = scheduler
        self._asker = asker
        self._pace = pace
        self._scorer = scorer
        self._whole = whole
        self._interrupter = interrupter
        self._team = team

    def plan(self, *, now_s: float, only: Sequence | None, has_texts: bool) -> tuple[StepPlan, float | None]:
        """The next step, and how long it may take before it is interrupted; None: it must not be.

        `only`: the one sequence to compute; `has_texts`: texts to embed wait for the same cores.
        """
        scheduler = self._scheduler
        if only is None:
            scheduler.make_way(now_s)
        may_interrupt = only is None and self._interrupter.may_interrupt(scheduler)
        self._asker.ask(scheduler.running)
        plan = scheduler.next_tokens(now_s) if only is None else None
        if plan is None:
            num_streams = scheduler.num_streams
            max_scored_tokens = self._scorer.max_tokens(num_streams)
            budget = self._pace.budget(num_streams, scheduler.num_hungry, max_scored_tokens=max_scored_tokens)
            is_long = may_interrupt and not has_texts and (self._team is None or not self._team.may_soon_grow())
            plan = scheduler.plan(budget, now_s=now_s, only=only, whole=self._whole if is_long else None)
        return plan, self._interrupter.listen(plan, scheduler) if may_interrupt and plan.segments else None
