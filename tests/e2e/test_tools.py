"""Models that may call tools, in a real worker: what a random model writes under the grammar is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from gguf import TokenType

from localllm import LLM, SamplingParams, Structure
from localllm.errors import IncompleteDocument, InvalidParameter
from localllm.llm.tools import Tools
from localllm.types import Chat, whole_calls
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe, with_user_defined

TEMPLATE = """{%- if tools %}<|im_start|>system
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools><|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}{% if m.content or not loop.first %}{{ '\\n' }}{% endif %}<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking %}<think>
{% endif %}{% endif %}"""
MARKERS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
ASKED = [{"role": "user", "content": "Weather?"}]
WILD = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=300)
END, IM_END = 1, 4
"""Of the vocabulary, what ends an answer."""
CLOSING = 2 * len("\n</think>")
"""Tokens that may close a thought, letter by letter, and some more that come with the last of them."""


def weather(city: str, days: int = 1) -> None:
    """The weather of a city."""


def ping() -> None:
    """Nothing."""


SCHEMA = {
    "type": "object",
    "properties": {"place": {"enum": ["Ulm", "Aachen"]}, "exact": {"type": "boolean"}},
    "required": ["place", "exact"],
    "additionalProperties": False,
}
FIND = {"type": "function", "function": {"name": "find", "parameters": SCHEMA}}
TOOLS: Tools = [weather, ping, FIND]


@pytest.fixture(scope="module", params=["control tokens", "user-defined tokens", "letters"])
def llm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    """Random models that differ in what their markers are in the vocabulary."""
    tokenizer = bpe()
    if request.param != "letters":
        tokenizer = with_user_defined(tokenizer, MARKERS)
    if request.param == "control tokens":
        tokenizer = replace(tokenizer, types=[*tokenizer.types[:-4], *[int(TokenType.CONTROL)] * 4])
    path = tmp_path_factory.mktemp("models") / "caller.gguf"
    with LLM(write_llama(path, ctx=4096, tokenizer=tokenizer, chat_template=TEMPLATE), slots=2, threads=1) as llm:
        yield llm


def tokens_of(llm: LLM, marker: str) -> int | None:
    """The token that a marker is, if it is one."""
    tokens = llm.tokenize(marker, add_special=False)
    return tokens[0] if len(tokens) == 1 else None


def that_likes(llm: LLM, marker: str, bias: float = 60.0, *, seed: int = 0) -> SamplingParams:
    """A model that writes a marker wherever it may, and else ends its answer where it may."""
    token = tokens_of(llm, marker)
    assert token is not None
    return SamplingParams(
        temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=300, seed=seed,
        logit_bias={token: bias, END: 40.0, IM_END: 40.0},
    )  # fmt: skip


def check_calls(chat: Chat) -> None:
    for call in chat.calls:
        arguments = json.loads(call.arguments)
        if call.name == "weather":
            assert isinstance(arguments["city"], str)
            assert isinstance(arguments.get("days", 1), int)
            assert {*arguments} <= {"city", "days"}
        elif call.name == "ping":
            assert arguments == {}
        else:
            assert call.name == "find"
            assert arguments["place"] in ("Ulm", "Aachen")
            assert isinstance(arguments["exact"], bool)
    assert len({call.id for call in chat.calls}) == len(chat.calls)


@pytest.mark.parametrize("seed", range(6))
def test_a_forced_call_has_arguments_of_its_schema(llm: LLM, seed: int) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=1500, seed=seed)
    chat = llm.chat(ASKED, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, params=params)
    if chat.finish.reason == "stop":
        assert len(chat.calls) == 1
        check_calls(chat)
        assert chat.text == ""
    else:  # the city's name was longer than the answer may be
        assert chat.calls[0].name == "weather"


def test_a_named_tool_is_called_streamed_as_whole(llm: LLM) -> None:
    whole = llm.chat(ASKED, tools=TOOLS, tool_choice="find", parallel_tool_calls=False, params=WILD)
    check_calls(whole)
    assert [call.name for call in whole.calls] == ["find"]
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=300, seed=5)
    deltas = list(llm.chat(ASKED, tools=TOOLS, tool_choice="find", params=params, stream=True))
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert [piece.name for piece in pieces if piece.name] == ["find"] * len(whole_calls(pieces))
    assert all(piece.id for piece in pieces if piece.name)
    again = llm.chat(ASKED, tools=TOOLS, tool_choice="find", params=params)
    assert [(call.name, call.arguments) for call in whole_calls(pieces)] == [
        (call.name, call.arguments) for call in again.calls
    ]


@pytest.mark.parametrize("seed", range(4))
def test_text_is_free_until_a_call_opens(llm: LLM, seed: int) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=60, seed=seed)
    free = llm.chat(ASKED, params=params)
    with_tools = llm.chat(ASKED, tools=TOOLS, params=params)
    assert with_tools.text or with_tools.calls or with_tools.thought
    assert free.calls == ()
    if with_tools.finish.reason == "stop":
        check_calls(with_tools)


def test_a_model_that_wants_to_calls(llm: LLM) -> None:
    """Also where its markers are control tokens, which are no text otherwise."""
    if tokens_of(llm, "<tool_call>") is None:
        pytest.skip("its markers are no tokens")
    for seed in range(4):
        params = that_likes(llm, "<tool_call>", seed=seed)
        chat = llm.chat(ASKED, tools=[ping, FIND], params=params, parallel_tool_calls=False)
        assert (len(chat.calls), chat.text, chat.notes, chat.finish.reason) == (1, "", (), "stop")
        check_calls(chat)
        forbidden = llm.chat(ASKED, tools=[ping, FIND], tool_choice="none", params=params)
        assert (forbidden.calls, "<tool_call>" in forbidden.text) == ((), False)
        assert "<tool_call>" in llm.chat(ASKED, params=replace_max(params, 3)).text, "nobody offered any tools"


def replace_max(params: SamplingParams, max_tokens: int) -> SamplingParams:
    fields: dict[str, Any] = {name: getattr(params, name) for name in SamplingParams.__struct_fields__}
    return SamplingParams(**{**fields, "max_tokens": max_tokens})


def test_a_thought_stands_before_the_call_within_its_budget(llm: LLM) -> None:
    for budget in (0, 1, 7):
        chat = llm.chat(
            ASKED, tools=[ping, FIND], tool_choice="required", thinking=True, thinking_budget=budget,
            parallel_tool_calls=False, params=WILD,
        )  # fmt: skip
        check_calls(chat)
        assert (len(chat.calls), chat.text) == (1, "")
        assert bool(chat.thought) == (budget > 0) or not chat.thought.strip()
        assert chat.finish.usage.reasoning_tokens <= budget + CLOSING


def test_a_budget_bounds_the_thought_of_a_free_answer(llm: LLM) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=60, seed=3)
    chat = llm.chat(ASKED, thinking=True, thinking_budget=5, params=params)
    assert chat.finish.usage.reasoning_tokens <= 5 + CLOSING
    assert chat.text
    assert "think>" not in chat.thought


@pytest.mark.parametrize("max_tokens", [1, 4, 9, 20, 33])
def test_nothing_is_lost_of_an_answer_that_is_cut_within_a_call(llm: LLM, max_tokens: int) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=max_tokens, seed=2)
    chat = llm.chat(ASKED, tools=[FIND], tool_choice="required", params=params)
    deltas = list(llm.chat(ASKED, tools=[FIND], tool_choice="required", params=params, stream=True))
    streamed = whole_calls(piece for delta in deltas for piece in delta.calls)
    assert "".join(delta.text for delta in deltas) == chat.text
    assert [(call.name, call.arguments) for call in streamed] == [(call.name, call.arguments) for call in chat.calls]
    if chat.finish.reason == "length":
        assert chat.text or chat.calls
        assert all('{"place": '.startswith(call.arguments[:10]) for call in chat.calls)


def test_an_answer_that_is_cancelled_within_a_call_frees_its_slot(llm: LLM) -> None:
    for _ in range(2 * llm.info.slots):
        with llm.chat(ASKED, tools=TOOLS, tool_choice="weather", params=WILD, stream=True) as stream:
            for delta in stream:
                if delta.calls:
                    break
            stream.cancel()
            chat = stream.result()
        assert chat.finish.reason in ("cancelled", "stop", "length")
        assert [call.name for call in chat.calls][:1] == ["weather"]
    assert llm.chat(ASKED, params=SamplingParams(max_tokens=2)).finish.usage.completion_tokens <= 2


def test_stop_strings_and_logprobs_work_beside_tools(llm: LLM) -> None:
    chat = llm.chat(ASKED, tools=[FIND], tool_choice="find", params=SamplingParams(logprobs=1, max_tokens=300))
    assert len(chat.logprobs) == chat.finish.usage.completion_tokens
    stopped = llm.chat(ASKED, tools=[FIND], tool_choice="find", params=SamplingParams(stop=('"exact"',), max_tokens=99))
    assert '"exact"' not in "".join(call.arguments for call in stopped.calls)


def test_an_answer_is_calls_or_a_text_of_the_structure_where_both_are_asked_for(llm: LLM) -> None:
    shape = Structure.choice("a", "b")
    assert llm.chat(ASKED, schema=shape, tools=TOOLS, tool_choice="none").parsed in ("a", "b")
    for seed in range(8):
        params = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, max_tokens=300, seed=seed)
        chat = llm.chat(ASKED, schema=shape, tools=[ping, FIND], params=params)
        assert chat.finish.reason == "stop"
        check_calls(chat)
        assert bool(chat.calls) != (chat.text in ("a", "b"))
    calling = llm.chat(ASKED, schema=shape, tools=[ping], tool_choice="required", parallel_tool_calls=False)
    with pytest.raises(IncompleteDocument, match="calls tools"):
        _ = calling.parsed


def test_a_strict_schema_that_cannot_be_kept_is_refused_by_its_path_and_another_one_is_noted(llm: LLM) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}
    strict = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    with pytest.raises(InvalidParameter) as refused:
        llm.chat(ASKED, tools=[strict], params=WILD)
    assert (refused.value.param or "").startswith("tools[0].function.parameters.properties")
    kind = {"type": "function", "function": {"name": "f", "parameters": schema}}
    chat = llm.chat(ASKED, tools=[kind], tool_choice="required", params=SamplingParams(max_tokens=8))
    assert any("tools[0].function.parameters" in note for note in chat.notes)
