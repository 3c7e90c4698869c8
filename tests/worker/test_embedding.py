"""Embedding and ranking through a real worker: what is asked comes back in order, and disturbs nobody."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from localllm import LLM, AsyncLLM, SamplingParams
from localllm.errors import (
    ContextLengthExceeded,
    InvalidParameter,
    LocalLLMError,
    QueueFull,
    RequestTimeout,
)  # fmt: skip
from localllm.runtime.runtime import Runtime
from localllm.settings import config
from localllm.supervisor.text_queue import MAX_WAITING_TEXTS
from localllm.types import GenerationRequest, Usage
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.types.load_options import LoadOptions
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import wordpiece

GREEDY = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding-models")
    families.write_embedding(folder / "encoder.gguf")
    families.write_reranker(folder / "reranker.gguf")
    write_llama(folder / "causal.gguf", ctx=1024)
    return folder


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Iterator[LLM]:
    with LLM(folder / "encoder.gguf", threads=1) as llm:
        yield llm


@pytest.fixture(scope="module")
def causal(folder: Path) -> Iterator[LLM]:
    with LLM(folder / "causal.gguf", threads=1, slots=2) as llm:
        yield llm


def request_of(llm: LLM, request: EmbeddingRequest) -> list[int]:
    """The tokens of each text, as computed."""
    runtime = llm._llm._loaded_runtime()
    return list(llm._run(runtime.embed(llm.info.id, request)).num_tokens)


def test_a_text_s_vector_does_not_depend_on_what_is_embedded_with_it(encoder: LLM) -> None:
    texts = [f"{'word ' * (number % 40)}no {number}" for number in range(100)]
    together = encoder.embed(texts)
    assert together.shape == (100, families.N_EMBD)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(100), abs=1e-6)
    for number in (0, 37, 99):
        assert float(np.abs(encoder.embed([texts[number]])[0] - together[number]).max()) < 1e-5


def test_vectors_are_cut_then_normalized_or_left_as_they_are(encoder: LLM) -> None:
    raw = encoder.embed(["hello"], normalize=False)
    assert float(np.linalg.norm(raw)) > 1.5
    cut = encoder.embed(["hello"], dimensions=8)
    assert cut == pytest.approx(raw[:, :8] / np.linalg.norm(raw[:, :8]), abs=1e-6)
    assert encoder.embed(["hello"], dimensions=8, normalize=False) == pytest.approx(raw[:, :8])
    for dimensions in (0, families.N_EMBD + 1):
        with pytest.raises(InvalidParameter, match="from 1 to the model's 64") as caught:
            encoder.embed(["hello"], dimensions=dimensions)
        assert caught.value.param == "dimensions"


def test_token_arrays_are_taken_as_they_are(encoder: LLM) -> None:
    tokens = encoder.tokenize("hello world")
    assert (tokens[0], tokens[-1]) == (CLS, SEP)
    assert encoder.embed([tokens]) == pytest.approx(encoder.embed(["hello world"]), abs=1e-6)
    assert request_of(encoder, EmbeddingRequest(tokens=((5, 6, 7), (8,)))) == [3, 1]


@pytest.mark.parametrize(
    ("request_", "message", "param"),
    [
        (EmbeddingRequest(tokens=((5,), (len(wordpiece().tokens),))), "input 1: token 128 is not", "input"),
        (EmbeddingRequest(tokens=((5,), (10**6,))), "input 1: token 1000000 is not", "input"),
        (EmbeddingRequest(tokens=((5,), ())), "input 1 is empty", "input"),
        (EmbeddingRequest(texts=()), "at least one", "input"),
        (EmbeddingRequest(texts=("a",), tokens=((5,),)), "one of them", "input"),
        (EmbeddingRequest(texts=("a",) * (MAX_WAITING_TEXTS + 1)), "at most 20000", "input"),
    ],
)
def test_what_cannot_be_embedded_is_refused_with_its_number(
    encoder: LLM, request_: EmbeddingRequest, message: str, param: str
) -> None:
    with pytest.raises(InvalidParameter, match=message) as caught:
        request_of(encoder, request_)
    assert caught.value.param == param


def test_an_empty_text_is_what_the_vocabulary_makes_of_it(encoder: LLM, causal: LLM) -> None:
    assert encoder.embed([""]) == pytest.approx(encoder.embed([[CLS, SEP]]), abs=1e-6)
    with pytest.raises(InvalidParameter, match="input 0 is empty"):
        causal.embed([[]])


def test_a_text_that_is_too_long_is_refused_before_it_is_computed_or_cut_on_request(encoder: LLM) -> None:
    too_long = "a " * 600
    with pytest.raises(ContextLengthExceeded, match="However, input 1 resulted in 602") as caught:
        encoder.embed(["short", too_long])
    assert caught.value.details == {"item": 1, "prompt_tokens": 602, "context_length": 512}
    runtime = encoder._llm._loaded_runtime()
    cut = encoder._run(runtime.embed(encoder.info.id, EmbeddingRequest(texts=("short", too_long), truncate=True)))
    assert (cut.truncated, cut.num_tokens[1]) == ((1,), 512)
    tokens = encoder.tokenize(too_long)
    kept = encoder.embed([[*tokens[:511], SEP]])
    assert np.frombuffer(cut.data, "<f4").reshape(2, -1)[1:] == pytest.approx(kept, abs=1e-6)


def test_an_encoder_generates_nothing_and_says_so(encoder: LLM) -> None:
    assert (encoder.info.slots, encoder.info.ctx, encoder.info.pooling) == (0, 512, "mean")
    with pytest.raises(InvalidParameter, match="encoder is an embedding model; it cannot generate text"):
        encoder.complete("Hello")
    with pytest.raises(InvalidParameter, match="no ranking head"):
        encoder.rerank("a", ["b"])


def test_pooling_none_gives_a_vector_for_each_token(folder: Path) -> None:
    with LLM(folder / "causal.gguf", threads=1, slots=1, pooling="none", embedding_ctx=64) as llm:
        counts = [len(llm.tokenize(text)) for text in ("hello", "hello world")]
        vectors = llm.embed(["hello", "hello world"])
        assert vectors.shape == (sum(counts), families.N_EMBD)
        # A causal model's tokens see what is before them only.
        begins_alike = min(counts) - 2
        assert vectors[:begins_alike] == pytest.approx(vectors[counts[0] : counts[0] + begins_alike], abs=1e-5)
        with pytest.raises(ContextLengthExceeded, match="--embedding-ctx"):
            llm.embed([[5] * 65])


def test_a_reranker_gives_the_best_document_first(folder: Path) -> None:
    with LLM(folder / "reranker.gguf", threads=1) as llm:
        documents = ["the first", "a second one", "", "the first"]
        ranked = llm.rerank("what is first?", documents)
        assert sorted(number for number, _ in ranked) == [0, 1, 2, 3]
        assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
        scores = dict(ranked)
        assert scores[0] == pytest.approx(scores[3], abs=1e-5)
        best = llm.rerank("what is first?", documents, top_n=2)
        assert [score for _, score in best] == pytest.approx([score for _, score in ranked[:2]], abs=1e-4)
        with pytest.raises(InvalidParameter, match="has no vectors"):
            llm.embed(["a"])
        with pytest.raises(ContextLengthExceeded, match="document 1 resulted in 6"):
            llm.rerank("q", ["a", "b " * 600])
        with pytest.raises(ContextLengthExceeded, match="the query with document 0"):
            llm.rerank("q " * 600, ["a"])
        runtime = llm._llm._loaded_runtime()
        request = RerankRequest(query="q", documents=("a", "b " * 600), truncate=True)
        assert llm._run(runtime.rerank(llm.info.id, request)).truncated == (1,)


def unguessed(usage: Usage) -> Usage:
    """Without what was guessed."""
    return msgspec.structs.replace(usage, accepted_guesses=0, rejected_guesses=0)


def test_embeddings_beside_a_generation_change_neither_its_answer_nor_its_cache(causal: LLM) -> None:
    prompt = "Once upon a time " * 8
    wanted = causal.complete(prompt, params=GREEDY)
    texts = ["some text to embed " * 10] * 40
    vectors = causal.embed(texts[:1])
    again = causal.complete(prompt, params=GREEDY)

    async def both() -> None:
        embedding = asyncio.create_task(causal._llm.embed(texts))
        answer = await causal._llm.complete(prompt, params=GREEDY)
        beside = await embedding
        assert answer.text == wanted.text
        # Whether tokens are guessed is a matter of time.
        assert unguessed(answer.finish.usage) == unguessed(again.finish.usage)
        # Beside an answer a causal text may be computed in smaller pieces, which round otherwise.
        assert beside == pytest.approx(np.repeat(vectors, 40, axis=0), abs=1e-3)

    assert again.finish.usage.cached_tokens == again.finish.usage.prompt_tokens - 1
    causal._run(both())


def test_who_goes_away_or_runs_out_of_time_leaves_the_model_to_others(encoder: LLM) -> None:
    runtime, id = encoder._llm._loaded_runtime(), encoder.info.id
    many = EmbeddingRequest(tokens=((5,) * 400,) * 2000)

    async def scenario() -> None:
        leaving = asyncio.create_task(runtime.embed(id, many))
        await runtime.embed(id, EmbeddingRequest(texts=("single",)))  # passes the 2,000, which it would wait for long
        assert not leaving.done()
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        hurried = EmbeddingRequest(tokens=many.tokens, timeout_s=0.01)
        with pytest.raises(RequestTimeout, match=r"of 2000 texts were not computed within the 0\.01 s"):
            await runtime.embed(id, hurried)
        (model,) = runtime.running()
        assert model.num_requests == 0
        await runtime.embed(id, EmbeddingRequest(texts=("single",)))

    encoder._run(scenario())


def test_texts_that_wait_are_bounded(encoder: LLM) -> None:
    runtime, id = encoder._llm._loaded_runtime(), encoder.info.id
    half = EmbeddingRequest(tokens=((5, 6),) * (MAX_WAITING_TEXTS // 2 + 1))

    async def scenario() -> None:
        first = asyncio.create_task(runtime.embed(id, half))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match="texts are waiting already, of 20000 that may"):
            await runtime.embed(id, half)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    encoder._run(scenario())


def test_texts_whose_worker_dies_are_embedded_by_the_next_one(folder: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(folder / "encoder.gguf", threads=1) as llm:
            embedding = asyncio.create_task(llm.embed([[5] * 500] * 400))
            await llm.embed(["single"])
            (model,) = llm._loaded_runtime().running()
            assert model.pid is not None
            os.kill(model.pid, signal.SIGKILL)
            vectors = await embedding
            assert vectors.shape == (400, families.N_EMBD)
            assert vectors == pytest.approx(np.repeat(vectors[:1], 400, axis=0), abs=1e-5)
            (again,) = llm._loaded_runtime().running()
            assert again.pid != model.pid

    asyncio.run(scenario())


def test_the_queue_is_bounded_in_requests(folder: Path) -> None:
    async def scenario() -> None:
        runtime = Runtime(config.load({"max_waiting": 1}))
        try:
            model = await runtime.load(folder / "encoder.gguf", LoadOptions(threads=1))
            first = asyncio.create_task(runtime.embed(model.id, EmbeddingRequest(tokens=((5,) * 400,) * 500)))
            await asyncio.sleep(0)
            with pytest.raises(QueueFull, match="max_waiting"):
                await runtime.embed(model.id, EmbeddingRequest(texts=("a",)))
            with pytest.raises(LocalLLMError):
                await runtime.submit(model.id, [GenerationRequest(prompt="a")])
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        finally:
            await runtime.aclose()

    asyncio.run(scenario())
