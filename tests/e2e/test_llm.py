"""`from localllm import LLM, AsyncLLM`: a real worker process, the real llama.cpp, no HTTP."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm import LLM, AsyncLLM, SamplingParams
from localllm.errors import (
    ContextLengthExceeded,
    DeviceUnavailable,
    InvalidModelFile,
    InvalidParameter,
    ModelNotFound,
    NoChatTemplate,
    WorkerCrashed,
)  # fmt: skip
from localllm.types import GenerationRequest
from tests.models.maker import write_llama
from tests.models.tokenizers import Tokenizer, spm

GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def llm(tiny_chat_model: Path) -> Iterator[LLM]:
    with LLM(tiny_chat_model, slots=2, threads=1) as llm:
        yield llm


def test_a_chat_is_the_same_streamed_and_whole(llm: LLM) -> None:
    whole = llm.chat(HELLO, params=GREEDY)
    deltas = list(llm.chat(HELLO, stream=True, params=GREEDY))
    assert "".join(delta.text for delta in deltas) == whole.text
    assert deltas[-1].finish is not None
    assert deltas[-1].finish.usage.total_tokens == whole.finish.usage.total_tokens
    assert deltas[-1].finish.usage.cached_tokens == whole.finish.usage.prompt_tokens - 1
    assert whole.finish.usage.completion_tokens == sum(delta.num_tokens for delta in deltas) == 12
    assert whole.finish.reason == "length"


def test_a_chat_is_the_completion_of_its_rendered_template(llm: LLM) -> None:
    rendered = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert llm.complete(rendered, params=GREEDY).text == llm.chat(HELLO, params=GREEDY).text


def test_what_was_loaded_is_told(llm: LLM) -> None:
    assert llm.info.id == "tiny-chat"
    assert (llm.info.ctx, llm.info.slots, llm.info.threads) == (512, 2, 1)
    assert llm.info.layers_per_device == {"CPU": 3}
    assert repr(llm).endswith("tiny-chat.gguf', ctx=512, slots=2>")
    assert repr(llm.info) == "<LoadedModel 'tiny-chat', ctx=512, slots=2, layers on {'CPU': 3}>"
    assert len(repr(llm.info.info)) < 120


def test_leaving_a_stream_early_frees_its_slot(endless_model: Path) -> None:
    with LLM(endless_model, slots=2, threads=1, ctx=65536) as llm:
        for _ in range(6):  # three times the slots
            for _delta in llm.complete("Hello", stream=True, params=SamplingParams(temperature=0)):
                break
        assert llm.complete("Hello", params=GREEDY).finish.timings.queue_s < 5


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(llm: LLM) -> None:
    with pytest.raises(ContextLengthExceeded) as caught:
        llm.complete("word " * 3000)
    assert caught.value.details["context_length"] == 512
    assert 512 < int(caught.value.details["prompt_tokens"] or 0) <= 3001
    assert "at least" in str(caught.value), "it was refused by its bytes"


def test_bad_arguments_are_named(llm: LLM) -> None:
    with pytest.raises(InvalidParameter, match="role and content"):
        llm.chat([{"role": "user"}])
    with pytest.raises(InvalidParameter, match="empty"):
        llm._run(llm._llm._loaded_runtime().submit(llm.info.id, [GenerationRequest(prompt_tokens=())]))


def test_requests_from_many_threads_answer_as_alone(llm: LLM) -> None:
    async def many(llm: AsyncLLM) -> list[str]:
        chats = await asyncio.gather(*(llm.complete(f"prompt {i % 5}", params=GREEDY) for i in range(20)))
        return [chat.text for chat in chats]

    texts = llm._run(many(llm._llm))
    for i in range(5):
        assert set(texts[i::5]) == {llm.complete(f"prompt {i}", params=GREEDY).text}


def test_a_model_without_template_says_what_to_do(tiny_model: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(tiny_model, threads=1) as llm:
            with pytest.raises(NoChatTemplate, match="completions"):
                await llm.chat(HELLO)
            deltas = [delta async for delta in await llm.complete("Hello", stream=True, params=GREEDY)]
            assert sum(delta.num_tokens for delta in deltas) == 12
            assert await llm.tokenize("Hello") != []

    asyncio.run(scenario())


def test_a_worker_that_is_killed_fails_its_answer_and_comes_back_for_the_next(endless_model: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(endless_model, threads=1, ctx=65536) as llm:
            assert llm._runtime is not None
            session = await llm._runtime._supervisor.acquire("endless")
            answer = await llm.complete("Hello", stream=True, params=SamplingParams(temperature=0))
            await anext(answer)
            os.kill(session.pid, signal.SIGKILL)
            with pytest.raises(WorkerCrashed, match="SIGKILL"):
                async for _ in answer:
                    pass
            assert (await llm.complete("Hello", params=GREEDY)).finish.usage.completion_tokens == 12

    asyncio.run(scenario())


def test_a_character_that_llama_cpp_would_abort_on_is_refused_by_name(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "letters.gguf", tokenizer=letters_only())
    with LLM(path, threads=1) as llm:
        with pytest.raises(InvalidParameter, match=r"no token for the character '\\n'"):
            llm.complete("once\nupon")
        assert llm.complete("once upon", params=GREEDY).finish.usage.completion_tokens == 12


def letters_only() -> Tokenizer:
    """A SentencePiece vocabulary without byte tokens, as small story models have."""
    whole = spm(320)
    keep = [i for i, token in enumerate(whole.tokens) if not token.startswith("<0x")]
    return dataclasses.replace(
        whole,
        tokens=[whole.tokens[i] for i in keep],
        scores=[whole.scores[i] for i in keep],
        types=[whole.types[i] for i in keep],
    )


def test_loading_what_cannot_be_loaded_is_a_clear_error(tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(ModelNotFound, match="nothing here"):
        LLM("nothing here.gguf")
    (tmp_path / "junk.gguf").write_bytes(b"junk" * 100)
    with pytest.raises(InvalidModelFile, match="byte 0"):
        LLM(tmp_path / "junk.gguf")
    with pytest.raises(DeviceUnavailable, match="no GPU"):
        LLM(tiny_model, gpu_layers="all")
    with pytest.raises(InvalidParameter, match="4096"):
        LLM(tiny_model, ctx=4096)


def test_load_progress_goes_from_nothing_to_all(tiny_model: Path) -> None:
    seen: list[float] = []
    with LLM(tiny_model, threads=1, on_progress=seen.append) as llm:
        assert llm.info.load_s > 0
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
