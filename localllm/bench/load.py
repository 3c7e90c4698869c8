"""Generates the load: a number of connections for each level, each with one request in flight until the level is done.

A closed loop: a connection sends its next request as soon as the last one is answered, so the load is fixed and the
rate depends on the server. Knows no statistics; the results are in the `LevelRun`s, even after an interruption.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress

import httpx

from localllm.bench.answer import Answer, Failure, RequestFailed
from localllm.bench.levels import WARMUP_TOKENS, Plan
from localllm.bench.prompts import Prompt, PromptMaker, words
from localllm.bench.request import Recipe, ask
from localllm.bench.target import Target, http_settings

CONNECT_TIMEOUT_S = 10.0
TICK_S = 1.0
PROBE_WORDS = (16, 128)
"""Limits for the longer of two probes, which otherwise has as many words as a prompt has tokens."""


class LevelRun:
    """Results at one concurrency; grows while it runs. Warm-up requests are not included."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.answers: list[Answer] = []
        self.failures: list[Failure] = []
        self.failures_in_a_row = 0
        self.num_started = 0
        self.num_tokens_seen = 0
        """Pieces of text so far, including those of unfinished answers."""
        self.started_ns = 0
        """0 during warm-up."""
        self.ended_ns = 0
        self.cpu_s = 0.0
        """CPU time of this process, all threads: the cost of measuring."""
        self.is_whole = False
        """False: interrupted."""

    @property
    def wall_s(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def num_ended(self) -> int:
        return len(self.answers) + len(self.failures)

    def saw_tokens(self, count: int) -> None:
        self.num_tokens_seen += count


Tick = Callable[[LevelRun], None]


class Load:
    """One measurement. `runs` and `forgone` are up to date at any time."""

    def __init__(self, target: Target, plan: Plan, api_key: str | None = None) -> None:
        self.plan = plan
        self.runs: list[LevelRun] = []
        self.tokens_per_word: float | None = None
        """Of the prompts, in this model's vocabulary; None: unknown, and 1 is assumed."""
        self._recipe = Recipe(target.model, target.api, ignore_eos=plan.ignore_eos)
        self._prompts = PromptMaker(plan.seed, plan.prompt_tokens, plan.shared_prefix_tokens)
        self._target = target
        self._api_key = api_key

    @property
    def forgone(self) -> tuple[str, ...]:
        """Request fields that the server refused and that were then left out."""
        return tuple(self._recipe.forgone)

    async def run(self, on_tick: Tick = lambda _run: None) -> None:
        """Run all levels, up to the first one without any answer; `on_tick` is called every second."""
        highest = max(self.plan.levels)
        client = httpx.AsyncClient(
            **http_settings(self._target.base_url, self._api_key),
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=highest, max_keepalive_connections=highest, keepalive_expiry=None),
        )
        async with client:
            await self._count_words(client)
            for level in self.plan.levels:
                run = LevelRun(level)
                self.runs.append(run)
                ticking = asyncio.create_task(_tick(run, on_tick))
                try:
                    await self._warm_up(client, run)
                    await self._measure(client, run)
                finally:
                    ticking.cancel()
                    with suppress(asyncio.CancelledError):
                        await ticking
                if not run.answers:
                    return

    async def _count_words(self, client: httpx.AsyncClient) -> None:
        """Measure tokens per word by the difference of two prompts, which cancels out what the template adds."""
        longer = min(max(self.plan.prompt_tokens, PROBE_WORDS[0]), PROBE_WORDS[1])
        shorter = longer // 4
        few, many = await self._probe(client, shorter), await self._probe(client, longer)
        if few is not None and many is not None and many > few:
            each = (many - few) / (longer - shorter)
        elif few is not None:  # the longer one did not fit; counting the template's tokens too does no harm
            each = few / shorter
        else:
            return
        self.tokens_per_word = each
        num_own, num_shared = (
            max(1, round(self.plan.prompt_tokens / each)),
            round(self.plan.shared_prefix_tokens / each),
        )
        self._prompts = PromptMaker(self.plan.seed, num_own, num_shared)

    async def _probe(self, client: httpx.AsyncClient, num_words: int) -> int | None:
        """Tokens of a prompt with that many words; None if the server does not report them or does not answer."""
        try:
            answer = await ask(
                client,
                self._recipe,
                Prompt("", words(f"{self.plan.seed} probe {num_words}", num_words)),
                max_tokens=min(WARMUP_TOKENS, self.plan.max_tokens),
                timeout_s=self.plan.timeout_s,
            )
        except RequestFailed:
            return None  # the levels will show what is wrong with the server
        return answer.prompt_tokens or None

    async def _warm_up(self, client: httpx.AsyncClient, run: LevelRun) -> None:
        """Send warm-up requests. Ignores failures, which the level itself will show."""
        waiting = iter(range(self.plan.warmup(run.concurrency)))

        async def connection() -> None:
            for number in waiting:
                with suppress(RequestFailed):
                    await ask(
                        client,
                        self._recipe,
                        self._prompts.prompt(run.concurrency, -1 - number),
                        max_tokens=min(WARMUP_TOKENS, self.plan.max_tokens),
                        timeout_s=self.plan.timeout_s,
                    )

        await _together(run.concurrency, connection)

    async def _measure(self, client: httpx.AsyncClient, run: LevelRun) -> None:
        plan = self.plan
        cpu_s = time.process_time()
        run.started_ns = time.perf_counter_ns()

        async def connection() -> None:
            while plan.may_start(
                run.concurrency,
                run.num_started,
                (time.perf_counter_ns() - run.started_ns) / 1e9,
                run.failures_in_a_row,
            ):
                number = run.num_started
                run.num_started += 1
                try:
                    answer = await ask(
                        client,
                        self._recipe,
                        self._prompts.prompt(run.concurrency, number),
                        max_tokens=plan.max_tokens,
                        timeout_s=plan.timeout_s,
                        on_tokens=run.saw_tokens,
                    )
                except RequestFailed as error:
                    run.failures.append(error.failure)
                    run.failures_in_a_row += 1
                else:
                    run.answers.append(answer)
                    run.failures_in_a_row = 0

        try:
            await _together(run.concurrency, connection)
            run.is_whole = True
        finally:
            run.ended_ns = time.perf_counter_ns()
            run.cpu_s = time.process_time() - cpu_s


async def _together(count: int, job: Callable[[], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(job())


async def _tick(run: LevelRun, on_tick: Tick) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        on_tick(run)
