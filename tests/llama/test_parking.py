"""Running requests that give up their slots on the real llama.cpp go on as if nothing had been, on every memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Request
from localllm.engine.scheduling.parking import MARGIN
from localllm.llama import library
from localllm.types import ResolvedSampling, TokenLogprob
from tests.llama.test_kv_reuse import opened
from tests.models import families
from tests.models.maker import write_llama
from tests.samplers import sampler

MEMORIES: dict[str, Callable[[Path], Path]] = {
    "attention": write_llama,
    "sliding window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
}
PROMPTS = [[17 + each, 40, 33, 60 + each] * 4 for each in range(4)]


class Told:
    """Tokens of each request, with their log-probabilities."""

    def __init__(self) -> None:
        self.tokens: dict[int, list[TokenLogprob]] = {}
        self.order: list[int] = []

    def __call__(self, output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            self.tokens.setdefault(id, []).extend(delta.logprobs)
            if delta.finish is not None:
                self.order.append(id)


def ask(engine: Engine, id: int, prompt: list[int], count: int, due: Due) -> None:
    sampling = ResolvedSampling(temperature=0.8, top_k=40, top_p=1.0, min_p=0.0, seed=id)
    ending, reported = Ending(ignore_eos=True), ReportOptions(logprobs=2)
    engine.submit(
        Sequence(Request(id, prompt, sampling=sampling, max_tokens=count, ending=ending, reported=reported, due=due))
    )


@pytest.mark.parametrize("memory", MEMORIES)
def test_answers_of_requests_that_gave_up_their_slots_twice_are_those_of_undisturbed_ones(
    loaded_library: library.Library, tmp_path: Path, memory: str
) -> None:
    with opened(loaded_library, MEMORIES[memory](tmp_path / "model.gguf"), threads=1) as backend:

        def answers(*, disturbed: bool) -> Told:
            told = Told()
            engine = build_engine(backend, told, sampler=sampler(), tiers=Tiers(2**26))
            for id, prompt in enumerate(PROMPTS):
                ask(engine, id, prompt, 24, Due(is_batch=True))
            engine.step()
            for step in itertools.count():
                if disturbed and step in (5, 10, 14):
                    ask(engine, 10 + step, [70 + step] * (20 + step), 4, Due())
                if disturbed and step == 15:
                    ask(engine, 10 + step, [50], 4, Due(priority=-MARGIN))
                engine.step()
                engine.check_integrity()
                if not engine.scheduler.has_work:
                    break
            assert (engine.scheduler.preemptions.total > 2) == disturbed
            assert engine.scheduler.preemptions.recomputed == 0
            engine.stop()
            return told

        plain, parked = answers(disturbed=False), answers(disturbed=True)
    assert {*parked.order[:4]} == {15, 20, 24, 25}
    for id in range(len(PROMPTS)):
        one, other = plain.tokens[id], parked.tokens[id]
        assert [each.token for each in one] == [each.token for each in other]
        # Other numbers of streams in a step round differently.
        assert np.allclose([each.logprob for each in one], [each.logprob for each in other], atol=1e-5, rtol=0)
