"""Makes an engine: all its parts, in the order in which they need each other. Nothing is written into them afterwards.

Knows nothing of what they do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from localllm.engine.answers.answering import Answers
from localllm.engine.backend import Backend, Beside, KvCells
from localllm.engine.cache.kvcache import SLOTS_ONLY, KvCache, Tiers
from localllm.engine.cache.tiers import DiskTier
from localllm.engine.cache.writeback import Writeback
from localllm.engine.constraint.masking import Masking
from localllm.engine.cycle import Cycle
from localllm.engine.decoding import StepDecoder
from localllm.engine.engine import Engine
from localllm.engine.idling import Idler
from localllm.engine.inbox import Inbox, StepOutput
from localllm.engine.interrupting import Interrupter
from localllm.engine.planning import Planner
from localllm.engine.progress import Progress
from localllm.engine.reporting import Reporter
from localllm.engine.sampling.drawing import Drawer
from localllm.engine.sampling.prompt_logprobs import PromptScorer
from localllm.engine.sampling.sampler import NumpySampler, Sampler
from localllm.engine.scheduling.cost import StepCost
from localllm.engine.scheduling.drafting import Drafter
from localllm.engine.scheduling.pace import DEFAULT_LIMITS, Pace, StepLimits
from localllm.engine.scheduling.rows import Layout
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.scheduling.whole import Interruptions, WholeBatches
from localllm.engine.speculation.proposers import NOBODY, Asker, DraftTarget, Proposers
from localllm.engine.stepping import Stepper
from localllm.engine.threads.team import Team
from localllm.errors import InvalidParameter


def build_engine(
    backend: Backend,
    emit: Callable[[StepOutput], None],
    *,
    sampler: Sampler | None = None,
    limits: StepLimits = DEFAULT_LIMITS,
    tiers: Tiers = SLOTS_ONLY,
    proposers: Proposers = NOBODY,
    context_shift: bool = False,
    debug: bool = False,
    beside: Beside | None = None,
    team: Team | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine:
    """An engine whose `run` feeds the backend. Raises `InvalidParameter` if its memory cannot be shifted."""
    decoder, cells = backend.decoder, backend.cells
    if context_shift:
        _check_shifts(cells)
    interruptions = Interruptions()
    interrupter = Interrupter(decoder, interruptions, max_step_s=limits.max_step_s, clock=clock)
    inbox = Inbox(interrupter.announce, decoder.clear_interrupts)
    masking = Masking(inbox.wake)
    disk = None if tiers.open_disk is None else DiskTier(tiers.open_disk, inbox.wake, can_rewind=cells.can_rewind)
    kv = KvCache(cells, tiers, disk)
    cost = StepCost(tile=decoder.tile, grain=decoder.grain, ubatch_tokens=decoder.ubatch_capacity)
    pace = Pace(cost, limits, is_unified=kv.is_unified)
    asker = proposers.asker(DraftTarget(pace.row_cost, cells.max_rollback, cells.rolls_back_equals))
    drafter = _drafter(backend, pace, asker)
    scheduler = Scheduler(
        kv,
        drafter,
        batch_capacity=decoder.batch_capacity,
        limits=limits,
        rows_ready=inbox.rows_ready,
    )
    sampler = sampler or NumpySampler()
    scorer = PromptScorer(decoder, backend.vocab, sampler, num_slots=cells.num_slots, limits=limits, team=team)
    answers = Answers(backend.vocab, kv, scheduler, clock, shifts=context_shift)
    reporter = Reporter(answers, emit)
    stepper = Stepper(
        StepDecoder(
            decoder,
            kv,
            masking=masking,
            interruptions=interruptions,
            team=team,
            clock=clock,
            report_last=reporter.report_last,
        ),
        scheduler,
        pace=pace,
        scorer=scorer,
        drawer=Drawer(decoder, sampler, masking, team),
        masking=masking,
        answers=answers,
        clock=clock,
    )
    planner = Planner(
        scheduler,
        asker=asker,
        pace=pace,
        scorer=scorer,
        whole=WholeBatches(cost, batch_capacity=decoder.batch_capacity, ubatch_capacity=decoder.ubatch_capacity),
        interrupter=interrupter,
        team=team,
    )
    cycle = Cycle(
        scheduler, planner=planner, stepper=stepper, answers=answers, reporter=reporter, beside=beside, clock=clock
    )
    progress = Progress(lambda: decoder.num_nodes)
    writeback = None if disk is None else Writeback(kv, disk)
    idler = Idler(inbox, decoder, writeback=writeback, progress=progress, clock=clock)
    return Engine(inbox, cycle, idler, progress=progress, clock=clock, debug=debug)


def _check_shifts(cells: KvCells) -> None:
    if not cells.can_shift:
        raise InvalidParameter(
            "context_shift needs a partitioned cache, a memory that can drop any tokens, and keys that can move: "
            "f16 can, but not where positions count in planes (M-RoPE), --kv-type q8_0 and q4_0 only for some models; "
            "leave it out",
            param="context_shift",
        )


def _drafter(backend: Backend, pace: Pace, asker: Asker) -> Drafter:
    layout: Layout = "partitioned" if backend.cells.num_cells is None else "unified"
    if backend.cells.rolls_back_equals:
        layout = "one pass"
    return Drafter(
        slot_capacity=backend.cells.slot_capacity,
        max_rows=min(backend.decoder.batch_capacity, backend.decoder.max_outputs),
        max_rollback=backend.cells.max_rollback,
        layout=layout,
        cost=pace.row_cost,
        weighs_one_row=(lambda _: True) if asker.drafts_together else pace.row_cost.lacks_one_row,
    )
