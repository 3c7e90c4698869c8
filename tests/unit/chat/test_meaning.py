"""Messages that clients write in words of their own: which mean the same, and where two conversations part."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from localllm.chat.differences import difference, differing, rendering_difference
from localllm.chat.meaning import canonical_arguments, differ_at, digests, ids_of, is_same_answer, with_ids
from localllm.chat.whole_answers import read_answer, with_thought_apart
from localllm.types import ChatFormat, Message, Rendering, Tags, ToolCall

THINKS = ChatFormat(thought=Tags("<think>\n", "\n</think>"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def backwards(value: Any) -> Any:
    """The same JSON with its keys in another order, and whole numbers as a client without integers writes them."""
    if isinstance(value, dict):
        return {key: backwards(each) for key, each in reversed(value.items())}
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return [backwards(each) for each in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.sampled_from([None, 1, 4]), st.booleans())
def test_arguments_that_are_written_otherwise_mean_the_same(value: Any, indent: int | None, is_ascii: bool) -> None:
    one = json.dumps(value, ensure_ascii=not is_ascii)
    other = json.dumps(backwards(value), indent=indent, ensure_ascii=is_ascii)
    assert canonical_arguments(one) == canonical_arguments(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 1}', '{"a": "1"}'),
        ('{"a": null}', "{}"),
        ('{"a": [1, 2]}', '{"a": [2, 1]}'),
        ('{"a": " x"}', '{"a": "x"}'),
        ("{'a': 1}", '{"a": 1}'),
        ('{"a": 0.1}', '{"a": 0.10000000000000002}'),
    ],
)
def test_other_arguments_mean_something_else(one: str, other: str) -> None:
    assert canonical_arguments(one) != canonical_arguments(other)


def test_arguments_that_are_no_json_or_nest_too_deep_are_compared_as_they_are() -> None:
    deep = "[" * 100_000
    assert canonical_arguments(deep) == deep
    assert canonical_arguments(" {oops ") == "{oops"
    assert canonical_arguments("") == canonical_arguments("{}")


OURS = Message("assistant", "\nYes.", thought="Is it?", tool_calls=(ToolCall("f", '{"a":1}', "x"),))


@pytest.mark.parametrize(
    ("fields", "is_same"),
    [
        ({}, True),
        ({"thought": "", "content": "Yes. "}, True),
        ({"thought": " Is it?\n"}, True),
        ({"tool_calls": (ToolCall("f", '{\n "a": 1}', "y"),)}, True),
        ({"thought": "It is"}, False),
        ({"content": "No."}, False),
        ({"content": "yes."}, False),
        ({"tool_calls": ()}, False),
        ({"tool_calls": (ToolCall("g", '{"a": 1}', "x"),)}, False),
        ({"tool_calls": (ToolCall("f", '{"a": 2}', "x"),)}, False),
        ({"tool_calls": (ToolCall("f", '{"a":1}', "x"), ToolCall("f", '{"a":1}', "z"))}, False),
        ({"role": "user"}, False),
    ],
)
def test_an_answer_is_ours_by_what_it_means(fields: dict[str, Any], is_same: bool) -> None:
    assert is_same_answer(replace(OURS, **fields), OURS) is is_same


def chat(*, ids: str = "", thought: str = "Is it?", result: str = "3", to: int = 0) -> list[Message]:
    calls = (ToolCall("f", '{"a":1}', f"{ids}0"), ToolCall("g", "{}", f"{ids}1"))
    return [
        Message("system", "You help."),
        Message("user", "How many?"),
        Message("assistant", "", thought=thought, tool_calls=calls),
        Message("tool", result, tool_call_id=f"{ids}{to}"),
    ]


def test_conversations_are_digested_without_ids_and_thoughts_but_with_whose_result_it_is() -> None:
    assert digests(chat()) == digests(chat(ids="other", thought=""))
    assert len(digests(chat())) == 5
    for other in (chat(result="4"), chat(to=1)):
        assert digests(chat())[:-1] == digests(other)[:-1]
        assert digests(chat())[-1] != digests(other)[-1]
        assert differ_at(chat(), other) == 3
    assert differ_at(chat(), chat()[:2]) == 2
    named = [*chat()[:3], replace(chat()[3], name="f")]
    assert digests(chat()) == digests(named), "a result's name is that of its call"


def test_results_get_the_ids_that_their_calls_have_here_until_other_calls_take_them() -> None:
    ids = ids_of(chat(ids="theirs"), chat(ids="ours"))
    assert ids == {"theirs0": "ours0", "theirs1": "ours1"}
    again = Message("assistant", "", tool_calls=(ToolCall("f", "{}", "theirs0"),))
    results = [Message("tool", "x", tool_call_id=id) for id in ("theirs1", "theirs0", "unknown")]
    assert [each.tool_call_id for each in with_ids([*results, again, *results], ids)] == [
        "ours1", "ours0", "unknown", "", "ours1", "theirs0", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "thought", "text"),
    [
        ("<think>\nIs it?\n</think>\n\nYes.", "Is it?", "Yes."),
        ("Yes.", "", "Yes."),
        ("It says </think> there.", "", "It says </think> there."),
        ("<think>\nnever closed", "", "<think>\nnever closed"),
    ],
)
def test_a_thought_that_a_client_keeps_in_the_text_is_told_apart(content: str, thought: str, text: str) -> None:
    apart = with_thought_apart(Message("assistant", content), THINKS)
    assert (apart.thought, apart.content) == (thought, text)


def test_a_thought_whose_opening_was_in_the_prompt_is_told_apart_too() -> None:
    apart = with_thought_apart(Message("assistant", "Is it?\n</think>\n\nYes."), replace(THINKS, begins_thought=True))
    assert (apart.thought, apart.content) == ("Is it?", "Yes.")
    assert read_answer("Is it", THINKS, (), in_thought=True).ends_in_thought


def test_where_two_conversations_part_is_said_with_what_stands_there() -> None:
    before = chat()
    date = [replace(before[0], content="You help. " * 10 + "It is Monday."), *before[1:]]
    now = [replace(before[0], content="You help. " * 10 + "It is Tuesday."), *before[1:]]
    found = difference(date, now)
    assert found is not None
    assert found.text == "differs in message 0, character 106: 'Monday.' -> 'Tuesday.'"
    assert difference(before, chat(ids="x", thought="")) is None
    assert difference(before, before[:2]) is None
    cases = {
        "differs in message 2, arguments of call 0, character 6: '1}' -> '2}'": replace(
            before[2], tool_calls=(ToolCall("f", '{"a": 2}'), before[2].tool_calls[1])
        ),
        "differs in message 2, thought, character 0: 'Is it?' -> 'Who knows'": replace(before[2], thought="Who knows"),
        "differs in message 2, role, character 0: 'assistant' -> 'user'": Message("user", ""),
        "differs in message 2, character 0: nothing -> 'Well'": replace(before[2], content="Well", thought=""),
    }
    for text, message in cases.items():
        found = difference(before, [*before[:2], message, before[3]])
        assert found is not None
        assert found.text == text
    found = difference(before, chat(to=1))
    assert found is not None
    assert found.text == "differs in message 3: it is the result of another call"


@given(st.text(max_size=300), st.text(max_size=300))
def test_little_of_either_side_is_shown(before: str, now: str) -> None:
    text = differing("x", before, now)
    at = int(text.removeprefix("differs in x, character ").partition(":")[0])
    assert before[:at] == now[:at]
    assert len(text) < 2 * 60 * len(r"\U00000000") + 100


def test_what_a_template_gets_besides_messages_is_compared_too() -> None:
    one = Rendering(tools='[{"name": "a"}]')
    assert rendering_difference(one, Rendering(tools='[{"name": "a"}]')) == ""
    other = Rendering(tools='[{"name": "b"}]')
    assert rendering_difference(one, other) == "differs in the tools, character 11: 'a\"}]' -> 'b\"}]'"
    assert "template variables" in rendering_difference(Rendering(), Rendering(variables='{"x": 1}'))
