"""Conversations with calls in a real worker, held to their grammar, by a client that writes our answers its own way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from gguf import TokenType

from localllm import LLM, SamplingParams
from tests.e2e.test_tools import FIND, MARKERS, TEMPLATE, ping
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe, with_user_defined

NUM_TURNS = 8
BEFORE_THE_NAME = len('T\n{"name":')
"""Tokens of a call up to its name. What a grammar forces behind the last choice is never computed with the answer."""


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    tokenizer = with_user_defined(bpe(), MARKERS)
    tokenizer = replace(tokenizer, types=[*tokenizer.types[:-4], *[int(TokenType.CONTROL)] * 4])
    path = tmp_path_factory.mktemp("models") / "caller.gguf"
    with LLM(write_llama(path, ctx=8192, tokenizer=tokenizer, chat_template=TEMPLATE), slots=1, threads=1) as llm:
        yield llm


def test_calls_that_come_back_in_other_words_are_not_computed_again(llm: LLM) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Weather?"}]
    known = 0
    for turn in range(NUM_TURNS):
        params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=400, seed=turn)
        chat = llm.chat(
            messages, params=params, tools=[ping, FIND], tool_choice="required", parallel_tool_calls=False,
            thinking_budget=20,
        )  # fmt: skip
        usage = chat.finish.usage
        assert chat.finish.reason == "stop", chat
        assert usage.cached_tokens >= known, messages[-2]
        known = usage.prompt_tokens + BEFORE_THE_NAME
        made = [
            {
                "id": f"{turn}-{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(json.loads(call.arguments), indent=3)},
            }
            for number, call in enumerate(chat.calls)
        ]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "warm"} for call in made]
        messages += [{"role": "assistant", "content": chat.text.strip() or None, "tool_calls": made}, *results]
