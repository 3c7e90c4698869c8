"""The demo model's chat template: tools, calls, results and thoughts as clients send them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from corpus.mix import TEMPLATE

from localllm.chat.jinja import apply
from localllm.errors import TemplateError

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather", "parameters": {"type": "object", "properties": {}}},
}
ASKED = {"role": "user", "content": "Rain?"}


def render(*messages: Mapping[str, object], **variables: object) -> str:
    return apply(TEMPLATE, messages=list(messages), **variables)


def test_tools_stand_after_the_system_message() -> None:
    written = '{"name": "weather", "description": "The weather", "parameters": {"type": "object", "properties": {}}}'
    written += "\n</tools>"
    text = render({"role": "system", "content": "Be brief."}, ASKED, tools=[WEATHER], add_generation_prompt=True)
    assert text == (
        f"<|im_start|>system\nBe brief.\n\nTools:\n<tools>\n{written}<|im_end|>\n"
        "<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert render(ASKED, tools=[WEATHER["function"]]).startswith(f"<|im_start|>system\nTools:\n<tools>\n{written}")


@pytest.mark.parametrize("arguments", [{"city": "Rome"}, '{"city": "Rome"}'])
def test_calls_and_results_read_alike_however_a_client_writes_arguments(arguments: object) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    text = render(
        ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call, call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"sky": "blue"}'},
    )
    one = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    assert text == (
        f"<|im_start|>user\nRain?<|im_end|>\n<|im_start|>assistant\n{one}\n{one}<|im_end|>\n"
        '<|im_start|>tool\n{"sky": "blue"}<|im_end|>\n'
    )


def test_thinking_opens_the_answer_and_is_forgotten_with_the_next_question() -> None:
    opened = render(ASKED, add_generation_prompt=True, enable_thinking=True)
    assert opened.endswith("<|im_start|>assistant\n<think>\n")
    for answer in (
        {"role": "assistant", "content": "Yes.", "reasoning_content": "It pours."},
        {"role": "assistant", "content": "<think>\nIt pours.\n</think>\n\nYes."},
    ):
        assert render(ASKED, answer) == opened + "It pours.\n</think>\n\nYes.<|im_end|>\n"
        assert "pours" not in render(ASKED, answer, ASKED)
        assert render(ASKED, answer, ASKED).count("Yes.") == 1


def test_without_thinking_a_conversation_only_grows() -> None:
    """So that what was computed for one turn serves the next."""
    first = render(ASKED, add_generation_prompt=True, enable_thinking=False)
    second = render(ASKED, {"role": "assistant", "content": "Yes."}, ASKED, add_generation_prompt=True)
    assert second.startswith(first + "Yes.<|im_end|>\n")


def test_a_role_it_does_not_know_is_named() -> None:
    with pytest.raises(TemplateError, match='"critic"'):
        render({"role": "critic", "content": "Bad."})
