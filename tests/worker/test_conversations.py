"""Conversations through a real worker: what a template refuses is moved, and the prefix stays in the cache."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from localllm.errors import InvalidParameter
from localllm.runtime.answer_reader import Answer
from localllm.runtime.runtime import Runtime
from localllm.settings.config import Settings
from localllm.types import Delta, GenerationRequest, Message, Rendering, SamplingParams, ToolCall
from localllm.types.load_options import LoadOptions
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe
from tests.unit.chat.test_shaping import STRICT

TIMEOUT_S = 60
PLAIN = Rendering()
TEMPLATE = STRICT.replace("<|{{ m.role }}|>", "<|{{ m.role }}|>{{ mood }}")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversations")
    return write_llama(folder / "m.gguf", tokenizer=bpe(), chat_template=TEMPLATE, ctx=2048)


def test_conversations_become_prompts_in_a_worker(home: Path, path: Path) -> None:
    system, user = Message("system", "You help."), Message("user", "Say a word, and then another one, please.")
    more = (Message("assistant", "So"), Message("user", "go"))
    late = Message("system", "It is late.")

    async def ask(runtime: Runtime, id: str, *messages: Message, rendering: Rendering = PLAIN) -> tuple[Answer, Delta]:
        request = GenerationRequest(messages=messages, rendering=rendering, params=SamplingParams(max_tokens=1))
        (answer,) = await runtime.submit(id, [request])
        last = Delta()
        async for last in answer:  # noqa: B007
            pass
        return answer, last

    def cached(delta: Delta) -> int:
        assert delta.finish is not None
        return delta.finish.usage.cached_tokens

    async def scenario() -> None:
        runtime = Runtime(Settings(home=home, slots=1))
        try:
            model = (await runtime.load(path)).id
            first, _ = await ask(runtime, model, system, user, late)
            assert first.notes == ("system-moved",)
            grown, last = await ask(runtime, model, system, user, late, *more)
            assert grown.notes == ("system-moved",)
            assert cached(last) >= first.num_prompt_tokens - 1, "the prefix is the one of the turn before"
            begun = Message("assistant", "Once upon")
            assert (await runtime.render(model, [user, begun])).endswith("<|assistant|>Once upon")
            fresh = await runtime.render(model, [user, begun], Rendering(add_generation_prompt=True))
            assert fresh.endswith("<|assistant|>Once upon<|assistant|>")
            moods = [Rendering(variables=json.dumps({"mood": mood})) for mood in ("glad", "sad")]
            texts = await asyncio.gather(*(runtime.render(model, [user], mood) for mood in moods))
            assert [text.split("Say")[0] for text in texts] == ["<|user|>glad", "<|user|>sad"]
            both = await asyncio.gather(*(ask(runtime, model, user, rendering=mood) for mood in moods))
            assert both[0][0].num_prompt_tokens != both[1][0].num_prompt_tokens, "they share no prompt in the making"
            calls = Message("assistant", "", tool_calls=(ToolCall("f", '{"x": 1}', "c"),))
            answer, _ = await ask(runtime, model, user, calls, Message("tool", "3", tool_call_id="c"))
            assert answer.notes == ("calls-as-text",)
            with pytest.raises(InvalidParameter, match="assistant's message"):
                await ask(runtime, model, user, rendering=Rendering(continue_final_message=True))
            await runtime.unload(model)
            loaded = await runtime.load(path, LoadOptions(slots=1, chat_template="phi3"))
            assert loaded.info.chat_template_source == "option"
            assert await runtime.render(model, [user]) == f"<|user|>\n{user.content}<|end|>\n<|assistant|>\n"
        finally:
            await runtime.aclose()

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT_S))
