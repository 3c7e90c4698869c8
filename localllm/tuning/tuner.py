"""Tunes one model: loads it with defaults, finds candidates, measures them, checks the winner, stores it.

Knows nothing of how progress is shown.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from localllm.errors import InvalidParameter
from localllm.planning.plan import context_of
from localllm.planning.tuned import Tuning, Tunings, base_of
from localllm.runtime.finding import Finder
from localllm.settings.config import Settings
from localllm.supervisor.candidate import Candidate as Model
from localllm.system import cpu
from localllm.tuning.candidates import DEFAULT, Candidate, Machine, candidates
from localllm.tuning.comparing import TOO_NOISY, Comparison, Rates, holds, noise, pairs_needed, typical
from localllm.tuning.rounds import CandidateFailed, Rounds
from localllm.tuning.search import PAIRS, Contender, Search
from localllm.tuning.workers import ReadyWorker, Workers
from localllm.tuning.workload import Work, work_for
from localllm.types.load_options import LoadOptions

OTHERS_S = 0.5
"""Time for measuring what other programs use."""
PILOTS = (Work((64,), 16), Work((128,), 32))
"""Runs that determine how long runs should be; only the second counts."""
NOTHING: Mapping[str, Any] = {}

Outcome = Literal["kept", "default", "noisy", "short"]
"""`kept`: the winner is used from now on; `default`: nothing is clearly faster; `noisy`: equal rounds differ too much;
`short`: there was not enough time to decide."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate."""

    candidate: str
    verdict: str
    num_pairs: int = 0
    prompt_tokens_per_s: float | None = None
    answer_tokens_per_s: float | None = None
    gain: float | None = None
    """Speed relative to the default, measured alternately; `noise`: its possible error, with 95 % confidence."""
    noise: float | None = None
    prompt_gain: float | None = None
    answer_gain: float | None = None
    failure: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tuning."""

    model: str
    outcome: Outcome
    winner: str = ""
    work: Work
    default: Row
    rows: tuple[Row, ...]
    check: Row | None = None
    suggestion: str = ""
    """A faster type of KV cache."""
    noise: float = 0.0
    """Relative spread between equal rounds."""
    other_cores: float | None = None
    """Cores that other programs used before it began; None: unknown."""
    threads: int = 0
    backend: str = ""
    took_s: float = 0.0


class Watcher(Protocol):
    """Receives progress."""

    def say(self, text: str) -> None:
        """Show that a stage begins."""

    def state(self, text: str, elapsed_s: float) -> None:
        """Show what is being done at the moment."""


class Tuner:
    """For one model; used once, on one event loop."""

    def __init__(self, settings: Settings, model: str, *, total_s: float, kv: bool, watcher: Watcher) -> None:
        self._settings = settings
        self._name = settings.sections().model_named(model)
        self._total_s = total_s
        self._kv = kv
        self._watcher = watcher
        self._began_s = time.monotonic()

    async def run(self) -> Result:
        """Measures and stores. Raises `ModelNotFound`, subclasses of `LoadFailed`, `InvalidParameter`, `WorkerCrashed`,
        `OSError`."""
        model, options = await Finder(self._settings).find_to_load(self._name, None, NOTHING, allow_paths=True)
        settings = self._settings.for_model(model.id)
        workers: Workers | None = None
        try:
            if not model.info.causal:
                raise InvalidParameter(
                    f"{model.id} makes embeddings; only models that generate text are tuned", param="model"
                )
            await asyncio.to_thread(Tunings(self._settings.data_dir).check_writable)
            workers = Workers(settings, model, options, lambda words: self._state(f"loading {words}"))
            return await self._tune(model, options, workers)
        finally:
            if workers is not None:
                await workers.aclose()
            model.release()

    async def _tune(self, model: Model, options: LoadOptions, workers: Workers) -> Result:
        default = await workers.load(DEFAULT)
        for pilot in PILOTS:
            speed = await workers.rates(DEFAULT, pilot, 0, guesses=False)
        others = await _other_cores()
        work = work_for(speed, default.model.ctx, self._total_s)
        machine = Machine(cpu.num_usable_cpus(), default.uses_gpus, "use_extra_bufts=off" not in default.place.backend)
        tried = candidates(options, default.model, machine, deepest=max(work.depths), kv=self._kv)
        self._watcher.say(
            f"{model.id}: prompts of {_both(work.depths)} tokens, answers of {work.answer} after each, one at a time; "
            f"{len(tried)} candidate{'' if len(tried) == 1 else 's'} alternating with the default"
        )
        search, rounds = Search(tried), Rounds(_Bench(workers, work), time.monotonic, self._report_pair)
        is_whole = await rounds.search(search, self._began_s, self._total_s)
        winner, check = search.winner(), None
        if winner is not None and noise(rounds.defaults) <= TOO_NOISY:
            check = await self._check(rounds, winner)
        outcome = outcome_of(winner, check, noise(rounds.defaults), is_whole=is_whole)
        rates = typical(rounds.defaults) or speed
        found = winner if outcome == "kept" else None
        if outcome in ("kept", "default"):
            tuning = _tuning(model, options, default, found, check, rates)
            await asyncio.to_thread(Tunings(self._settings.data_dir).keep, model.path, tuning)
        return Result(
            model=model.id,
            outcome=outcome,
            winner="" if found is None else found.candidate.words,
            work=work,
            default=_default_row(rates, rounds.defaults),
            rows=tuple(map(_contender_row, search.contenders)),
            check=None if winner is None or check is None else _row(winner.candidate, check, _checked(check)),
            suggestion=_suggestion(search.contenders),
            noise=noise(rounds.defaults),
            other_cores=others,
            threads=default.model.threads,
            backend=default.model.backend,
            took_s=round(time.monotonic() - self._began_s, 1),
        )

    async def _check(self, rounds: Rounds, winner: Contender) -> Comparison | None:
        """The winner compared with the default again; None if it fails this time."""
        self._watcher.say(f"check: {winner.candidate.words} against the default again")
        num_pairs = pairs_needed(winner.comparison)
        try:
            return await rounds.check(winner.candidate, num_pairs, self._began_s + self._total_s)
        except CandidateFailed as error:
            winner.failure = str(error)
            return None

    def _report_pair(self, candidate: Candidate, comparison: Comparison) -> None:
        gain = comparison.gain("likely")
        self._state(f"{candidate.words}: {math.expm1(gain.mean):+.1%}, round {len(comparison.pairs)}")

    def _state(self, text: str) -> None:
        self._watcher.state(text, time.monotonic() - self._began_s)


class _Bench:
    """`Workers` with the chosen work."""

    def __init__(self, workers: Workers, work: Work) -> None:
        self._workers = workers
        self._work = work

    async def rates(self, candidate: Candidate, number: int, *, guesses: bool) -> Rates:
        return await self._workers.rates(candidate, self._work, number, guesses=guesses)


def outcome_of(winner: Contender | None, check: Comparison | None, spread: float, *, is_whole: bool) -> Outcome:
    """How a tuning ended. `spread`: between equal rounds; `is_whole`: every candidate was decided."""
    if spread > TOO_NOISY:
        return "noisy"
    if winner is None:
        return "default" if is_whole else "short"
    if check is None or len(check.pairs) < PAIRS:
        return "short"
    return "kept" if holds(check) else "default"


def _tuning(
    model: Model,
    options: LoadOptions,
    default: ReadyWorker,
    winner: Contender | None,
    check: Comparison | None,
    rates: Rates,
) -> Tuning:
    base, ctx = base_of(options), context_of(model.info, options)
    place, now = default.place, int(time.time())
    values = DEFAULT.values
    if winner is None or check is None:
        return Tuning(
            model=model.id, place=place, base=base, ctx=ctx, values=values, created_unix_s=now,
            prompt_tokens_per_s=rates.prompt, answer_tokens_per_s=rates.answer,
        )  # fmt: skip
    gain, reached = check.gain("likely"), check.rates() or rates
    return Tuning(
        model=model.id, place=place, base=base, ctx=ctx, values=winner.candidate.values, created_unix_s=now,
        gain=round(math.exp(gain.mean), 4), noise=round(math.expm1(gain.half_width), 4),
        prompt_tokens_per_s=round(reached.prompt, 1), answer_tokens_per_s=round(reached.answer, 1),
    )  # fmt: skip


def _contender_row(contender: Contender) -> Row:
    return _row(contender.candidate, contender.comparison, contender.verdict, contender.failure)


def _default_row(rates: Rates, measured: list[Rates]) -> Row:
    return Row(
        candidate="default",
        verdict="",
        num_pairs=len(measured),
        prompt_tokens_per_s=rates.prompt,
        answer_tokens_per_s=rates.answer,
        gain=1.0,
        noise=noise(measured),
    )


def _row(candidate: Candidate, comparison: Comparison, verdict: str, failure: str = "") -> Row:
    rates, gain = comparison.rates(), comparison.gain("likely")
    if rates is None:
        return Row(candidate=candidate.words, verdict=verdict, failure=failure)
    return Row(
        candidate=candidate.words,
        verdict=verdict,
        num_pairs=len(comparison.pairs),
        prompt_tokens_per_s=rates.prompt,
        answer_tokens_per_s=rates.answer,
        gain=math.exp(gain.mean),
        noise=None if math.isinf(gain.half_width) else math.expm1(gain.half_width),
        prompt_gain=math.exp(comparison.prompt_gain),
        answer_gain=math.exp(comparison.answer_gain),
        failure=failure,
    )


def _checked(check: Comparison) -> str:
    return "kept" if holds(check) else "not faster again"


def _suggestion(contenders: list[Contender]) -> str:
    faster = (contender.candidate.kv_type for contender in contenders if contender.is_faster)
    return next((kv_type for kv_type in faster if kv_type is not None), "")


def _both(depths: tuple[int, ...]) -> str:
    return " and ".join(f"{depth:,}" for depth in depths)


async def _other_cores() -> float | None:
    """Cores that other programs use now, while the model is idle."""
    before = cpu.busy_cpu_s()
    began_s = time.monotonic()
    await asyncio.sleep(OTHERS_S)
    after = cpu.busy_cpu_s()
    return None if before is None or after is None else max(0.0, (after - before) / (time.monotonic() - began_s))
