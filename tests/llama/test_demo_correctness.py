"""Correctness of the engine at scale, on the model that localllm carries: many requests, every way of reuse."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus import mix

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.registry.resolve import carried
from localllm.types import ResolvedSampling
from tests.samplers import sampler

GREEDY = ResolvedSampling(temperature=0)
SLOTS = 8
LARGEST_DIFFERENCE = 0.5
"""More than chunks of other sizes change in this model's logits, as a test here shows; they spread over some 30."""


pytestmark = pytest.mark.usefixtures("demo")


@pytest.fixture(scope="module")
def backend(home: Path) -> Iterator[LlamaBackend]:
    loaded = library.load(selftest.choose(home).choice)
    model = LlamaModel(loaded, carried("demo.gguf"), gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(1024, SLOTS), Batching(512), threads=2)
    yield backend
    backend.free()
    model.close()


def prompts(backend: LlamaBackend, count: int) -> list[list[int]]:
    """Real conversations, half of them behind one of two long common beginnings."""
    rng = random.Random(4)
    shared = [mix.render(mix.example(rng, "story", "train")) * 2 for _ in range(2)]
    texts = [
        (rng.choice(shared) if rng.random() < 0.5 else "")
        + mix.prompt(mix.example(rng, rng.choice(("small_talk", "product", "facts", "json")), "train"))
        for _ in range(count)
    ]
    return [backend.vocab.tokenize(text)[-900:] for text in texts]


class Collector:
    def __init__(self) -> None:
        self.ended: set[int] = set()

    def __call__(self, output: StepOutput) -> None:
        assert not output.failures
        self.ended |= {id for id, delta in output.deltas if delta.finish is not None}


def logits_of(backend: LlamaBackend, tokens: list[int], chunk: int) -> list[float]:
    """The last row of logits, all tokens computed anew in chunks of that size."""
    backend.cells.truncate(0, 0)
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        backend.decoder.decode([Segment(0, start, part, num_outputs=int(start + len(part) == len(tokens)))])
    row = [float(logit) for logit in backend.decoder.logits(0)[-1]]
    backend.cells.truncate(0, 0)
    return row


def test_chunk_size_changes_logits_by_less_than_what_is_called_a_tie(backend: LlamaBackend) -> None:
    for tokens in prompts(backend, 5):
        whole = logits_of(backend, tokens, 512)
        for chunk in (1, 7, 64, 65):
            other = logits_of(backend, tokens, chunk)
            assert max(abs(one - two) for one, two in zip(whole, other, strict=True)) < LARGEST_DIFFERENCE


@pytest.mark.parametrize("num_requests", [80, pytest.param(500, marks=pytest.mark.exhaustive)])
def test_many_requests_through_eight_slots_answer_as_each_alone(backend: LlamaBackend, num_requests: int) -> None:
    """With prefixes shared, copied and kept, chunked by what the batch had room for, some cancelled on the way."""
    rng, collector = random.Random(5), Collector()
    engine = build_engine(backend, collector, sampler=sampler(), tiers=Tiers(2**26))
    many = prompts(backend, num_requests)
    requests = [Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=24)) for id, prompt in enumerate(many)]
    cancelled = set(rng.sample(range(num_requests), num_requests // 10))
    coming = list(reversed(requests))
    while coming or engine.scheduler.has_work:
        for _ in range(rng.randint(0, 3)):
            if coming:
                engine.submit(coming.pop())
        running = [sequence.id for sequence in engine.scheduler.running]
        if running and (victim := rng.choice(running)) in cancelled:
            engine.cancel(victim)
        engine.step()
        engine.check_integrity()
    assert collector.ended == set(range(num_requests))
    assert engine.scheduler.running == []
    cached = sum(request.progress.num_cached for request in requests)
    assert cached > 0.3 * sum(request.progress.num_prompt for request in requests)

    ties = 0
    alone = build_engine(backend, collector, sampler=sampler())
    for request in requests:
        prompt, answer = (
            request.progress.tokens[: request.progress.num_prompt],
            request.progress.tokens[request.progress.num_prompt :],
        )
        solo = Sequence(Request(request.id, prompt, sampling=GREEDY, max_tokens=24))
        for slot in range(SLOTS):  # every answer from an empty cache
            alone.kv.cut(slot, 0)
        alone.submit(solo)
        alone.step()
        while alone.scheduler.has_work:
            alone.step()
        expected = solo.progress.tokens[solo.progress.num_prompt :]
        if answer != expected[: len(answer)] or (request.id not in cancelled and len(answer) != len(expected)):
            at = next(i for i, pair in enumerate(zip(answer, expected, strict=False)) if pair[0] != pair[1])
            second, first = sorted(logits_of(backend, prompt + expected[:at], 512))[-2:]
            assert first - second < LARGEST_DIFFERENCE, f"request {request.id} differs at token {at}"
            ties += 1
    assert ties < 0.03 * num_requests, "positions where two tokens are as good are few"
