"""Items of the Responses API as messages: what is one turn of the assistant, and what tools gave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localllm.server.apis.responses.items import (
    AnyItem,
    CallItem,
    CallOutput,
    CustomCallItem,
    CustomCallOutput,
    InputPart,
    InputText,
    MessageItem,
    OutputText,
    ReasoningText,
    ThoughtItem,
    sealed,
    unsealed,
)
from localllm.server.apis.responses.tools import OfferedTools, flat_name
from localllm.server.apis.responses.turns import to_messages
from localllm.types import Message, ToolCall


def user(*texts: str) -> MessageItem:
    return MessageItem(id="msg", role="user", content=[InputText(text) for text in texts])


def said(*texts: str) -> MessageItem:
    return MessageItem(id="msg", role="assistant", content=[OutputText(text) for text in texts])


def thought(*texts: str) -> ThoughtItem:
    return ThoughtItem(id="rs", content=[ReasoningText(text) for text in texts])


def call(number: int, arguments: str = "{}") -> CallItem:
    return CallItem(id="fc", call_id=f"call_{number}", name="f", arguments=arguments)


def gave(number: int, output: str | list[InputText] = "x") -> CallOutput:
    parts: str | list[InputPart] = output if isinstance(output, str) else [*output]
    return CallOutput(id="fco", call_id=f"call_{number}", output=parts)


def messages(*items: AnyItem) -> list[Message]:
    return to_messages(items, OfferedTools().named)


def test_a_thought_a_text_and_calls_are_one_turn_and_their_results_follow_it() -> None:
    turn: list[AnyItem] = [thought("Hm."), said("I look."), call(0, '{"a": 1}'), call(1)]
    assert messages(user("Hi"), *turn, gave(1), gave(0), thought("So."), said("Two.")) == [
        Message("user", "Hi"),
        Message(
            "assistant",
            "I look.",
            thought="Hm.",
            tool_calls=(ToolCall("f", '{"a": 1}', "call_0"), ToolCall("f", "{}", "call_1")),
        ),
        Message("tool", "x", tool_call_id="call_1", name="f"),
        Message("tool", "x", tool_call_id="call_0", name="f"),
        Message("assistant", "Two.", thought="So."),
    ]


def test_a_text_behind_calls_is_more_of_the_same_turn_and_one_behind_a_text_is_a_turn_of_its_own() -> None:
    assert messages(said("a"), call(0), said("b"), said("c")) == [
        Message("assistant", "ab", tool_calls=(ToolCall("f", "{}", "call_0"),)),
        Message("assistant", "c"),
    ]


def test_a_thought_begins_a_turn_and_one_of_which_nothing_came_is_left_out() -> None:
    assert messages(thought("a"), thought("b"), call(0), thought("c"), said("d"), thought("e"), user("f")) == [
        Message("assistant", "", thought="a\n\nb", tool_calls=(ToolCall("f", "{}", "call_0"),)),
        Message("assistant", "d", thought="c"),
        Message("user", "f"),
    ]


def test_parts_are_joined_and_kept() -> None:
    assert messages(user("a", "b"), said("c", "d"), call(0), gave(0, [InputText("e"), InputText("g")])) == [
        Message("user", "a\nb", parts=("a", "b")),
        Message("assistant", "c\nd", parts=("c", "d"), tool_calls=(ToolCall("f", "{}", "call_0"),)),
        Message("tool", "e\ng", parts=("e", "g"), tool_call_id="call_0", name="f"),
    ]


def test_custom_calls_and_those_of_a_namespace_have_the_names_that_the_model_knows() -> None:
    patch = CustomCallItem(id="ctc", call_id="a", name="patch", input='say "hi"\n')
    note = CustomCallItem(id="ctc", call_id="b", name="note", input="", namespace="mcp__git")
    log = CallItem(id="fc", call_id="c", name="log", arguments="{}", namespace="mcp__git")
    output = CustomCallOutput(id="ctco", call_id="a", output="done")
    assert messages(patch, note, log, output) == [
        Message(
            "assistant",
            "",
            tool_calls=(
                ToolCall("patch", '{"input": "say \\"hi\\"\\n"}', "a"),
                ToolCall("mcp__git__note", '{"input": ""}', "b"),
                ToolCall("mcp__git__log", "{}", "c"),
            ),
        ),
        Message("tool", "done", tool_call_id="a", name="patch"),
    ]


def test_names_of_a_namespace_are_joined_as_mcp_clients_do() -> None:
    assert flat_name("mcp__git", "log") == flat_name("mcp__git__", "log") == flat_name("mcp__git", "__log")
    assert flat_name("functions", "exec") == "exec", "the namespace of all that are in none"


@given(st.text(st.characters(codec="utf-8")))
def test_a_sealed_thought_comes_back_as_it_was(text: str) -> None:
    assert unsealed(sealed(text)) == text


@given(st.text() | st.text().map("localllm.1.".__add__))
def test_what_others_sealed_or_somebody_broke_is_no_thought_and_no_error(content: str) -> None:
    assert isinstance(unsealed(content), str)
    assert unsealed(f"gAAAA{content}") == ""
