"""Log-probabilities of prompts on the real llama.cpp: those of the library called by hand, alone and among others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, ReportOptions, Request, Reuse
from localllm.engine.sampling.native import load
from localllm.engine.scheduling.pace import StepLimits
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.registry.resolve import carried
from localllm.types import Delta, ResolvedSampling, TokenLogprob

ByHand = Callable[[list[int]], npt.NDArray[np.float64]]
GREEDY = ResolvedSampling(temperature=0)
TEXTS = [
    "<|im_start|>user\nWhat is GGUF?<|im_end|>\n<|im_start|>assistant\nA file format for models.",
    "The fox found a ball. She gave it to the owl, and the owl said thank you. " * 12,
    "é漢🙂 and 123",
]


class Model(NamedTuple):
    """One loaded, and the same for a computation by hand."""

    backend: LlamaBackend
    path: Path
    tolerance: float
    """Of log-probabilities: quantized matrices round otherwise in chunks of other sizes."""


@pytest.fixture(scope="module", params=["tiny", "tiny-unified", "tiny-few-rows", "demo"])
def model(request: pytest.FixtureRequest, loaded_library: library.Library, tiny_model: Path) -> Iterator[Model]:
    path, tolerance = (carried("demo.gguf"), 0.5) if request.param == "demo" else (tiny_model, 0.02)
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    cells = 2048 if request.param == "tiny-unified" else None
    backend = open_backend(
        loaded_library,
        model,
        KvMemory(512, 4, num_cells=cells),
        Batching(256, max_outputs=9 if request.param == "tiny-few-rows" else None),
        threads=2,
    )
    yield Model(backend, path, tolerance)
    backend.free()
    model.close()


@pytest.fixture(scope="module")
def by_hand(loaded_library: library.Library, model: Model) -> Iterator[ByHand]:
    """Tokens -> their log-probabilities [tokens, vocabulary], all in one llama_decode with every logit asked for."""
    api: Any = loaded_library.api
    handle = api.llama_model_load_from_file(str(model.path).encode(), api.llama_model_default_params())
    size = api.llama_vocab_n_tokens(api.llama_model_get_vocab(handle))

    def compute(tokens: list[int]) -> npt.NDArray[np.float64]:
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 512
        context = api.llama_init_from_model(handle, params)
        batch = api.llama_batch_init(len(tokens), 0, 1)
        for place, token in enumerate(tokens):
            batch.token[place], batch.pos[place], batch.logits[place] = token, place, 1
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        batch.n_tokens = len(tokens)
        assert api.llama_decode(context, batch) == 0
        rows = [np.ctypeslib.as_array(api.llama_get_logits_ith(context, i), (size,)).copy() for i in range(len(tokens))]
        api.llama_batch_free(batch)
        api.llama_free(context)
        logits = np.stack(rows).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        result: npt.NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return result

    yield compute
    api.llama_model_free(handle)


def answers(backend: LlamaBackend, sequences: list[Sequence], **options: Any) -> dict[int, list[Delta]]:
    told: dict[int, list[Delta]] = {}

    def emit(output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            told.setdefault(id, []).append(delta)

    engine = build_engine(backend, emit, sampler=load(threads=2), **options)
    for sequence in sequences:
        engine.submit(sequence)
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
        engine.check_integrity()
    return told


def scoring(id: int, tokens: list[int], num_top: int = 2, max_tokens: int = 1) -> Sequence:
    return Sequence(
        Request(
            id,
            tokens,
            sampling=GREEDY,
            max_tokens=max_tokens,
            reported=ReportOptions(logprobs=num_top, prompt_logprobs=num_top),
            reuse=Reuse(cache_prompt=False),
        )
    )


def prompt_of(deltas: list[Delta]) -> list[TokenLogprob]:
    return [logprob for delta in deltas for logprob in delta.prompt_logprobs]


def check(model: Model, tokens: list[int], logprobs: list[TokenLogprob], rows: npt.NDArray[np.float64]) -> None:
    assert b"".join(each.piece for each in logprobs) == b"".join(map(model.backend.vocab.spelled, tokens))
    assert math.isnan(logprobs[0].logprob)
    for token, each, row in zip(tokens[1:], logprobs[1:], rows[:-1], strict=True):
        assert each.logprob == pytest.approx(row[token], abs=model.tolerance)
        likeliest = np.sort(row)[::-1][: len(each.top)]
        for (_, logprob), expected in zip(each.top, likeliest, strict=True):
            assert logprob == pytest.approx(expected, abs=model.tolerance)
        if row[token] == row.max() and likeliest[0] - likeliest[1] > 2 * model.tolerance:
            assert each.top[0] == (each.piece, each.logprob), "the very same number: clients compare them"


@pytest.mark.parametrize("max_step_s", [60, 1e-4], ids=["whole", "token by token"])
def test_they_are_those_of_the_library_alone_and_together(model: Model, by_hand: ByHand, max_step_s: float) -> None:
    prompts = [model.backend.vocab.tokenize(text) for text in TEXTS]
    prompts = [tokens[: 250 if max_step_s > 1 else 40] for tokens in prompts]
    beside = Sequence(
        Request(
            9,
            model.backend.vocab.tokenize("Once"),
            sampling=ResolvedSampling(seed=3),
            max_tokens=200,
            ending=Ending(ignore_eos=True),
        )
    )
    alone = [answers(model.backend, [scoring(0, tokens)], limits=StepLimits(max_step_s))[0] for tokens in prompts]
    sequences = [beside, *(scoring(id, tokens) for id, tokens in enumerate(prompts))]
    together = answers(model.backend, sequences, limits=StepLimits(max_step_s))
    for id, tokens in enumerate(prompts):
        rows = by_hand(tokens)
        check(model, tokens, prompt_of(alone[id]), rows)
        check(model, tokens, prompt_of(together[id]), rows)
    assert len(together[9]) > 1


def test_they_are_those_of_generating(model: Model) -> None:
    """What is generated with log-probabilities has the same ones as a prompt of the next request."""
    prompt = model.backend.vocab.tokenize(TEXTS[0])
    sequence = Sequence(
        Request(
            1,
            prompt,
            sampling=GREEDY,
            max_tokens=12,
            reported=ReportOptions(logprobs=1),
            ending=Ending(ignore_eos=True),
        )
    )
    made = answers(model.backend, [sequence])[1]
    generated = [logprob for delta in made for logprob in delta.logprobs]
    again = prompt_of(answers(model.backend, [scoring(1, sequence.progress.tokens, num_top=1, max_tokens=0)])[1])[
        len(prompt) :
    ]
    assert len(again) == len(generated) == 12
    for one, other in zip(again, generated, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=model.tolerance)
        assert one.top[0] == (one.piece, one.logprob), "greedy"


def test_a_scored_prompt_is_of_use_to_the_next_request_and_its_rows_cost_no_token(model: Model) -> None:
    tokens = model.backend.vocab.tokenize(TEXTS[1])[:250]
    told = answers(
        model.backend,
        [
            scoring(1, tokens, max_tokens=0),
            Sequence(Request(2, tokens, sampling=GREEDY, max_tokens=8, ending=Ending(ignore_eos=True))),
        ],
    )
    finish = told[1][-1].finish
    assert finish is not None
    assert (finish.reason, finish.usage.completion_tokens, finish.usage.cached_tokens) == ("length", 0, 0)
    plain = answers(
        model.backend, [Sequence(Request(2, tokens, sampling=GREEDY, max_tokens=8, ending=Ending(ignore_eos=True)))]
    )
    assert "".join(delta.text for delta in told[2]) == "".join(delta.text for delta in plain[2])
