"""A real model that computes NaN for one token: whoever says it fails, and nobody after it is told nonsense."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling import native
from localllm.engine.scheduling.pace import StepLimits
from localllm.errors import LocalLLMError
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.types import ResolvedSampling
from tests.models.maker import write_llama

GREEDY = ResolvedSampling(temperature=0)
BAD_TOKEN = 300
PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture(
    params=[("on", "partitioned"), ("off", "partitioned"), ("on", "unified"), ("off", "unified")],
    ids=lambda mode: f"flash-{mode[0]}-{mode[1]}",
)
def backend(request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path: Path) -> Iterator[LlamaBackend]:
    embeddings = np.random.default_rng(0).standard_normal((320, 64), dtype=np.float32)
    embeddings[BAD_TOKEN] = np.nan
    path = write_llama(tmp_path / "a.gguf", given={"token_embd.weight": embeddings})
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    flash_attn, layout = request.param
    num_cells = 512 if layout == "unified" else None
    backend = open_backend(
        loaded_library,
        model,
        KvMemory(256, 2, num_cells=num_cells),
        Batching(64),
        threads=2,
        attention=Attention(flash_attn),
    )
    yield backend
    backend.free()
    model.close()


class Answers:
    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.failures: dict[int, LocalLLMError] = {}

    def __call__(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            self.text[id] = self.text.get(id, "") + delta.text
        self.failures.update(output.failures)


def test_who_says_that_token_fails_alone_and_its_slot_serves_the_next(backend: LlamaBackend) -> None:
    """What it left in the KV cache must not be read by others, were it multiplied by 0: neither by those who run beside
    it, who look at its cells in a unified cache, nor by those who come after.
    """
    answers = Answers()
    engine = build_engine(backend, answers, sampler=native.load(threads=2), limits=StepLimits(60))
    ids = itertools.count()

    def run(*prompts: list[int]) -> list[int]:
        mine = list(itertools.islice(ids, len(prompts)))
        for id, prompt in zip(mine, prompts, strict=True):
            engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=8, ending=Ending(ignore_eos=True))))
        engine.step()
        while engine.scheduler.has_work:
            engine.step()
        engine.check_integrity()
        return mine

    (first,) = run(PROMPT)
    expected = answers.text[first]
    bad, beside = run([1, *[BAD_TOKEN] * 100], PROMPT)
    assert "not finite" in str(answers.failures[bad])
    assert answers.text[beside] == expected
    beside, bad = run(PROMPT, [*PROMPT, 1, BAD_TOKEN])
    assert "not finite" in str(answers.failures[bad])
    assert beside not in answers.failures
    assert answers.text[beside] == expected
    assert all(id in answers.failures for id in run([*PROMPT, 1, BAD_TOKEN], [2, BAD_TOKEN, 3]))
    for id in (*run(PROMPT, PROMPT), *run(PROMPT)):
        assert answers.text.get(id) == expected
