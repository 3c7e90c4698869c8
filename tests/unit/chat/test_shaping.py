"""Messages reach every kind of template in a shape that it takes: nothing is lost, and a prefix stays a prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.chat.probing import abilities
from localllm.chat.request import RenderedText, RenderRequest
from localllm.chat.shaping import CALLS_AS_TEXT, SYSTEM_MOVED, SYSTEMS_JOINED, TOOLS_AS_TEXT, TURNS_JOINED, USER_ADDED
from localllm.chat.template import render
from localllm.errors import TemplateError
from localllm.types import Message, Rendering, ToolCall
from localllm.types.formats import Calls, ObjectCall

CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>"
    "{% endif %}"
)
STRICT = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be at"
    " the beginning.') }}{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}"
    "<|assistant|>{% endif %}"
)
GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('No system') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
    "{% endif %}<|{{ m.role }}|>{{ m.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CALLS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.thinking %}<t>{{ m.thinking }}</t>{% endif %}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}[{{ c.id }} {{ c.function.name }} ARGUMENTS]{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}{% if m.role == 'tool' %}({{ m.name }} {{ m.tool_call_id }}){% endif %}"
    "{% endfor %}"
)
"""ARGUMENTS: how this template writes them."""


def text_of(template: str, *messages: Message, **fields: Any) -> str:
    return rendered(template, *messages, **fields).text


def rendered(template: str, *messages: Message, **fields: Any) -> RenderedText:
    return render(RenderRequest(template, messages, **fields))


def user(text: str) -> Message:
    return Message("user", text)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


def system(text: str, role: str = "system") -> Message:
    return Message(role, text)


def test_what_a_template_takes_is_left_alone() -> None:
    made = rendered(CHATML, system("S"), user("a"), answer("b"), system("T"), user("c"), user("d"))
    assert made == RenderedText("<|system|>S<|user|>a<|assistant|>b<|system|>T<|user|>c<|user|>d<|assistant|>")


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_late_system_message_is_moved_where_the_template_refuses_it_and_the_prefix_stays(role: str) -> None:
    turns = (system("S"), user("a"), system("now", role))
    first = rendered(STRICT, *turns)
    assert first.notes == (SYSTEM_MOVED,)
    assert first.text == ("<|system|>S<|user|>a\n\n<system-reminder>\nnow\n</system-reminder><|assistant|>")
    grown = text_of(STRICT, *turns, answer("b"), system("later", role), user("c"))
    assert grown == (f"{first.text}b<|user|><system-reminder>\nlater\n</system-reminder>\n\nc<|assistant|>")


def test_a_late_system_message_between_answers_is_a_turn_of_its_own() -> None:
    text = text_of(STRICT, user("a"), answer("b"), system("now"), answer("c"), user("d"))
    assert "b<|user|><system-reminder>\nnow\n</system-reminder><|assistant|>c" in text


def test_several_system_messages_become_one() -> None:
    made = rendered(STRICT, system("S"), system("T", "developer"), user("a"))
    assert made == RenderedText("<|system|>S\n\nT<|user|>a<|assistant|>", (SYSTEMS_JOINED,))


def test_a_template_without_system_messages_gets_them_in_the_first_turn() -> None:
    made = rendered(GEMMA, system("S"), user("a"), answer("b"), user("c"), user("d"))
    assert made.text == "<|user|>S\n\na<|assistant|>b<|user|>c\n\nd<|assistant|>"
    assert made.notes == (SYSTEM_MOVED, TURNS_JOINED)


def test_the_developers_role_is_kept_where_a_template_knows_it() -> None:
    knows = CHATML + "{# 'developer' #}"
    assert text_of(knows, system("S", "developer"), user("a")).startswith("<|developer|>S")
    assert text_of(CHATML, system("S", "developer"), user("a")).startswith("<|system|>S")


PARTS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}"
)
ONLY_PARTS = "{% for m in messages %}<|{{ m.role }}|>{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (CHATML, "<|user|>a\nb<|assistant|>c<|assistant|>"),
        (PARTS, "<|user|>[a][b]<|assistant|>c"),
        (ONLY_PARTS, "<|user|>[a][b]<|assistant|>[c]"),
    ],
)
def test_parts_are_joined_unless_the_template_reads_parts(template: str, text: str) -> None:
    closed = Message("assistant", "c")
    assert text_of(template, Message("user", "a\nb", parts=("a", "b")), closed) == text


HISTORY = (
    user("a"),
    answer("", tool_calls=(ToolCall("f", '{"x":"ä","y":[1]}', "call_abcdefghijkl"),), thought="hm"),
    Message("tool", "3", tool_call_id="call_abcdefghijkl"),
)


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("{{ c.function.arguments | tojson }}", '{"x": "ä", "y": [1]}'),
        ("{{ c.function.arguments }}", '{"x":"ä","y":[1]}'),
        ("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}", "x=ä;y=[1];"),
    ],
)
def test_arguments_are_objects_or_texts_as_the_template_wants_them(arguments: str, written: str) -> None:
    text = text_of(CALLS.replace("ARGUMENTS", arguments), *HISTORY)
    assert f"[call_abcdefghijkl f {written}]" in text
    assert text.endswith("<|tool|>3(f call_abcdefghijkl)"), "the result has the name of what was called"
    assert "<t>hm</t>" in text


def test_arguments_that_are_no_object_fail_no_request() -> None:
    template = CALLS.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}")
    for broken in ("", "{", "[1]", "null", '{"a": ' * 5000):
        text = text_of(template, user("a"), answer("", tool_calls=(ToolCall("f", broken, "1"),)))
        assert "[1 f {" in text


def test_ids_are_as_short_as_a_template_insists_and_always_the_same() -> None:
    strict = (
        "{% if c.id | length != 9 %}{{ raise_exception('length 9!') }}{% endif %}{{ c.function.arguments | tojson }}"
    )
    template = CALLS.replace("ARGUMENTS", strict)
    text = text_of(template, *HISTORY)
    id = text.split("[")[1].split(" ")[0]
    assert len(id) == 9
    assert text.endswith(f"(f {id})")
    assert text_of(template, *HISTORY, answer("ok")).startswith(text)


def test_ids_that_carry_the_name_are_made_of_it() -> None:
    kimi = CALLS.replace("{{ c.function.name }} ARGUMENTS", "{{ c.function.arguments | tojson }}")
    kimi = kimi.replace("{{ m.name }} ", "")
    text = text_of(kimi, *HISTORY, *HISTORY[1:])
    assert '[functions.f:0 {"x": "ä", "y": [1]}]' in text
    assert text.endswith("(functions.f:1)")


def test_content_beside_calls_is_null_where_it_may_be_and_text_stays() -> None:
    template = CALLS.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}").replace(
        "{% if m.tool_calls %}", "{% if m.tool_calls %}{{ m.content | length }}"
    )
    can = abilities(template)
    assert can.calls is not None
    assert not can.calls.is_content_null
    assert "<t>hm</t>0[" in text_of(template, *HISTORY)


def test_calls_and_results_are_text_where_a_template_knows_none() -> None:
    made = rendered(GEMMA, *HISTORY, answer("three"), user("thanks"))
    assert made.notes == (CALLS_AS_TEXT,)
    assert made.text == (
        '<|user|>a<|assistant|><tool_call>\n{"name": "f", "arguments": {"x": "ä", "y": [1]}}\n</tool_call>'
        "<|user|><tool_response>\n3\n</tool_response><|assistant|>three<|user|>thanks<|assistant|>"
    )


TOOLS = [
    {"type": "function", "function": {"name": "f", "description": "Does ä.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "g"}},
]
GIVEN = Rendering(tools=json.dumps(TOOLS))
SHOWS = (
    "{% for t in tools or [] %}[{{ t.function.name + t.function.parameters.type }}]{% endfor %}" + CHATML
    + "{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function }}{% endfor %}"
)  # fmt: skip


def test_tools_that_a_template_does_not_show_are_described_in_the_system_message() -> None:
    made = rendered(CHATML, system("Be kind."), user("a"), rendering=GIVEN)
    assert made.notes == (TOOLS_AS_TEXT,)
    start, _, described = made.text.partition("<|system|>Be kind.\n\n# Tools\n\n")
    assert start == ""
    assert (
        "\n<tools>\n" + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in TOOLS) + "\n</tools>\n" in described
    )
    assert described.endswith(
        '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|user|>a<|assistant|>'
    )
    alone = text_of(CHATML, user("a"), rendering=GIVEN)
    assert alone.startswith("<|system|># Tools\n")
    grown = rendered(CHATML, user("a"), answer("b"), user("c"), rendering=GIVEN)
    assert grown.text.startswith(alone + "b<|user|>c")


def test_a_template_without_a_system_message_has_its_tools_in_the_users_first_turn() -> None:
    made = rendered(GEMMA, user("a"), rendering=GIVEN)
    assert made.notes == (TOOLS_AS_TEXT, SYSTEM_MOVED)
    assert made.text.startswith("<|user|># Tools\n")
    assert made.text.endswith("</tool_call>\n\na<|assistant|>")


def test_tools_and_calls_are_told_of_in_the_words_of_the_models_format() -> None:
    words = Calls(call=ObjectCall(keys=()), begin="<<", between=";", end=">>")
    made = rendered(GEMMA, *HISTORY, user("thanks"), rendering=GIVEN, words=words)
    assert '<<{"example_function": {"example_parameter": "value", "another_parameter": 2}}>>' in made.text
    assert '<|assistant|><<{"f": {"x": "ä", "y": [1]}}>><|user|>' in made.text
    assert "tool_call>" not in made.text


def test_a_result_of_no_call_becomes_text_where_the_template_wants_the_call() -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'tool' and not messages[loop.index0 - 1].tool_calls %}"
        "{{ raise_exception('no call') }}{% endif %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    )
    lone = Message("tool", "12", tool_call_id="call_1")
    assert text_of(template, user("a"), lone) == "<|user|>a<|user|><tool_response>\n12\n</tool_response>"
    tolerant = template.replace("{{ raise_exception('no call') }}", "")
    assert text_of(tolerant, user("a"), lone) == "<|user|>a<|tool|>12"


NEEDS_USER = (
    "{% set ns = namespace(asked=false) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.asked = true %}"
    "{% endif %}{% endfor %}{% if not ns.asked %}{{ raise_exception('No user query found in messages.') }}{% endif %}"
    + CHATML
)


@pytest.mark.parametrize("template", [NEEDS_USER, GEMMA])
def test_a_chat_without_a_users_turn_gets_an_empty_one_where_the_template_wants_one(template: str) -> None:
    made = rendered(template, answer("a"))
    assert (made.text, made.notes) == ("<|user|><|assistant|>a<|assistant|>", (USER_ADDED,))
    longer = text_of(template, answer("a"), user("b"))
    assert longer.startswith("<|user|><|assistant|>a"), "the prefix stays"
    assert text_of(CHATML, answer("a")) == "<|assistant|>a<|assistant|>"


def test_tools_that_a_template_shows_are_left_to_it_unless_it_fails_on_their_schemas() -> None:
    with_schemas = Rendering(tools=json.dumps(TOOLS[:1]))
    made = rendered(SHOWS, user("a"), rendering=with_schemas)
    assert (made.text, made.notes) == ("[fobject]<|user|>a<|assistant|>", ())
    made = rendered(SHOWS, user("a"), rendering=GIVEN)  # one of these has none
    assert made.notes == (TOOLS_AS_TEXT,)
    assert made.text.startswith("<|system|># Tools\n")


@pytest.mark.parametrize("template", [CHATML, GEMMA, STRICT, PARTS])
@pytest.mark.parametrize("text", ["The answer", "The answer is ", "", "  x\n"])
def test_a_last_answer_is_continued_where_it_ends(template: str, text: str) -> None:
    made = text_of(template, user("a"), answer(text), continues=True)
    assert made.startswith("<|user|>a<|assistant|>")
    shown = made.removeprefix("<|user|>a<|assistant|>")
    assert shown == (text.lstrip() if template is GEMMA else text), "what the template cuts at the front, it may cut"


def test_a_last_thought_is_continued_and_what_is_left_out_cannot_be() -> None:
    template = CALLS.replace("ARGUMENTS", "")
    assert text_of(template, user("a"), answer("", thought="Let me"), continues=True).endswith("<t>Let me")
    with pytest.raises(TemplateError, match="leaves out the message"):
        text_of("{{ messages[0].content }}", user("a"), answer("b"), continues=True)


def test_variables_tools_and_documents_reach_the_template_and_never_replace_what_is_its_own() -> None:
    template = "{{ messages | length }}{{ mood }}{{ tools | tojson }}{{ documents[0].title }}{{ messages[0].content }}"
    tools = [{"type": "function", "function": {"name": "f"}}]
    rendering = Rendering(
        variables=json.dumps({"mood": "ä", "messages": "none"}),
        tools=json.dumps(tools),
        documents='[{"title": "T"}]',
    )
    assert text_of(template, user("a"), rendering=rendering) == f"1ä{json.dumps(tools)}Ta"


def test_a_template_that_takes_nothing_says_so_itself() -> None:
    with pytest.raises(TemplateError, match="never"):
        render(RenderRequest("{{ raise_exception('never') }}", (user("a"),)))
