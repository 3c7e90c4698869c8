"""Real workers that are sent what costs much to prepare: they stay alive, and answer others in between."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from localllm.errors import ContextLengthExceeded, InvalidParameter, QueueFull
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.types import GenerationRequest, Message, SamplingParams
from tests.asked import complete
from tests.models.maker import write_llama
from tests.models.tokenizers import CHATML, bpe

TIMEOUT_S = 60
ONE_TOKEN = SamplingParams(max_tokens=1)
HELLO = (Message("user", "hello"),)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its texts are split into words by the C++ library's regular expressions, which recurse for each character."""
    tokenizer = dataclasses.replace(bpe(), pre="deepseek-llm")
    folder = tmp_path_factory.mktemp("preparing")
    return write_llama(folder / "m.gguf", tokenizer=tokenizer, chat_template=CHATML, ctx=2048)


def with_model(
    home: Path, path: Path, scenario: Callable[[Runtime, str], Awaitable[None]], settings: Settings | None = None
) -> None:
    async def run() -> None:
        runtime = Runtime(settings or Settings(home=home))
        try:
            model = await runtime.load(path)
            await asyncio.wait_for(scenario(runtime, model.id), TIMEOUT_S)
        finally:
            await runtime.aclose()

    asyncio.run(run())


async def say_hello(runtime: Runtime, model: str) -> None:
    (answer,) = await runtime.submit(model, [GenerationRequest(messages=HELLO, params=ONE_TOKEN)])
    async for _ in answer:
        pass


@pytest.mark.parametrize("character", ["1", "a", "日"])
def test_no_run_of_one_character_ends_the_worker(home: Path, path: Path, character: str) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        text = character * 200_000
        tokens = await runtime.tokenize(model, text, add_special=False)
        assert b"".join(await runtime.pieces(model, tokens)).decode() == text
        with pytest.raises(ContextLengthExceeded):
            await complete(runtime, model, text, ONE_TOKEN)
        await say_hello(runtime, model)

    with_model(home, path, scenario)


def test_a_chat_is_answered_while_many_large_texts_are_tokenized(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        text = "the word " * 200_000
        calls = [asyncio.create_task(runtime.tokenize(model, text)) for _ in range(8)]
        await asyncio.sleep(0)
        await say_hello(runtime, model)
        assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)

    with_model(home, path, scenario)


@pytest.mark.parametrize("count", [1, 3])
def test_a_prediction_that_takes_many_turns_is_waited_for(home: Path, tmp_path: Path, count: int) -> None:
    """However many answers have it, and while others are prepared or hang up."""

    async def scenario(runtime: Runtime, model: str) -> None:
        large = GenerationRequest(messages=HELLO, params=ONE_TOKEN, prediction="the word " * 60_000)
        asked = asyncio.create_task(runtime.submit(model, [large] * count))
        gone = asyncio.create_task(runtime.submit(model, [msgspec.structs.replace(large, cache_salt="other")]))
        await say_hello(runtime, model)
        gone.cancel()
        for answer in await asked:
            assert [delta.finish async for delta in answer][-1] is not None
        await asyncio.wait([gone])

    long = write_llama(tmp_path / "long.gguf", tokenizer=bpe(), chat_template=CHATML, ctx=2**17)
    with_model(home, long, scenario, Settings(home=home, ctx=2**17, slots=1))


def test_a_chat_is_answered_beside_many_messages_and_special_tokens(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        many = tuple(Message("user", "<|im_end|>x") for _ in range(60_000))
        attacks = [
            asyncio.create_task(runtime.submit(model, [GenerationRequest(messages=many)] * 2)),
            asyncio.create_task(runtime.submit(model, [GenerationRequest(prompt="<|im_end|>x" * 60_000)] * 2)),
        ]
        await asyncio.sleep(0)
        await say_hello(runtime, model)
        for attack in attacks:
            with pytest.raises(ContextLengthExceeded, match="at least"):
                await attack

    with_model(home, path, scenario)


def test_calls_over_the_limit_are_refused_and_a_text_over_its_own(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        calls = [asyncio.create_task(runtime.tokenize(model, "x " * 200_000)) for _ in range(6)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert {type(call.exception()) for call in done} == {QueueFull}
        assert len(done) == 2
        await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(InvalidParameter, match=r"1048577 bytes.* 1048576 .*max_tokenize_bytes"):
            await runtime.tokenize(model, "x" * (2**20 + 1))

    with_model(home, path, scenario, Settings(home=home, max_waiting=4, max_tokenize_bytes=2**20))
