"""Every chat template that llama.cpp carries renders every conversation, as jinja2 set up like Transformers does.

The templates are those of `models/templates` in llama.cpp's sources, in the folder that LOCALLLM_CHAT_TEMPLATES names.
Skipped where there are none.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import pytest

from localllm.chat.probing import abilities
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.types import Message, Rendering, ToolCall
from tests.each import each

NAMED = os.environ.get("LOCALLLM_CHAT_TEMPLATES")
TEMPLATES = sorted(Path(NAMED).glob("*.jinja")) if NAMED else []
needs_templates = pytest.mark.skipif(
    not TEMPLATES, reason="LOCALLLM_CHAT_TEMPLATES names no folder with llama.cpp's models/templates"
)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "qzlookup",
            "description": "Looks a word up.",
            "parameters": {
                "type": "object",
                "properties": {"word": {"type": "string", "description": "Which"}},
                "required": ["word"],
            },
        },
    }
]
SYSTEM, USER, ANSWER, AGAIN, LATE = "qzsystem: help.", "qzuser asks", "qzanswer: so", "qzagain asks", "qzlate: hurry."
RESULT, VALUE = "qzresult", "qzvalue é \"'<x>"
CALL = Message(
    "assistant", "", tool_calls=(ToolCall("qzlookup", json.dumps({"word": VALUE}, ensure_ascii=False), "call_123456"),)
)
TURNS = {
    "plain": (Message("user", USER),),
    "system": (Message("system", SYSTEM), Message("user", USER), Message("assistant", ANSWER), Message("user", AGAIN)),
    "developer": (Message("developer", SYSTEM), Message("user", USER)),
    "late": (Message("system", SYSTEM), Message("user", USER), Message("system", LATE)),
    "late developer": (
        Message("user", USER), Message("assistant", ANSWER), Message("developer", LATE), Message("user", AGAIN),
    ),
    "two systems": (Message("system", SYSTEM), Message("system", LATE), Message("user", USER)),
    "two users": (Message("user", USER), Message("user", AGAIN)),
    "parts": (Message("user", f"{USER}\n{AGAIN}", parts=(USER, AGAIN)),),
    "call": (Message("user", USER), CALL, Message("tool", RESULT, tool_call_id="call_123456")),
    "late after result": (
        Message("system", SYSTEM), Message("user", USER), CALL, Message("tool", RESULT, tool_call_id="call_123456"),
        Message("system", LATE),
    ),
    "answer first": (Message("assistant", ANSWER), Message("user", USER)),
    "answer alone": (Message("system", SYSTEM), Message("assistant", ANSWER)),
    "nobody asked": (Message("system", SYSTEM), CALL, Message("tool", RESULT, tool_call_id="call_123456")),
    "result alone": (Message("system", SYSTEM), Message("tool", RESULT, tool_call_id="call_0")),
    "system alone": (Message("system", SYSTEM),),
    "thought": (
        Message("user", USER), Message("assistant", ANSWER, thought="qzthought"), Message("user", AGAIN),
    ),
}  # fmt: skip


def text_of(template: str, *messages: Message, continues: bool = False, **fields: Any) -> str:
    return render(
        RenderRequest(template, messages, "<s>", "</s>", continues=continues, rendering=Rendering(**fields))
    ).text


SYSTEM_WITH_THE_USER = {"mistralai-Mistral-Nemo-Instruct-2407"}
"""Where the system message stands in the last of the user's turns, and nowhere if that is not the last of all."""


class AssistantTracker(jinja2.ext.Extension):
    """Transformers' own, without what it tracks."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Any) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Any) -> Any:
        return caller()


@functools.cache
def transformers_like(source: str) -> jinja2.Template:
    """As `transformers.utils.chat_template_utils` compiles one; written apart from ours."""

    def tojson(
        x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, AssistantTracker]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment.from_string(source)


def by_transformers(source: str, messages: list[dict[str, Any]], tools: Any = None, **variables: Any) -> str:
    fields = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "documents": None}
    fields["date_string"] = datetime.datetime.now().strftime("%d %b %Y")  # as llama.cpp gives it
    if not tools and abilities(source).tools == "list":
        tools = []
    return transformers_like(source).render(messages=messages, tools=tools, **fields | variables)


@needs_templates
@each("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_renders_every_conversation_as_transformers_does(path: Path) -> None:
    """In one test, so that a template is compiled and probed once."""
    nothing_is_lost(path)
    agrees_with_transformers(path)
    continues_a_last_answer(path)


def nothing_is_lost(path: Path) -> None:
    source = path.read_text("utf-8")
    for name, messages in TURNS.items():
        text = text_of(source, *messages)
        texts = [part for each in messages for part in (each.parts or (each.content,))]
        if (
            path.stem in SYSTEM_WITH_THE_USER
            and messages[-1].role != "user"
            and SYSTEM in texts
            and not name.startswith("system")
        ):
            texts.remove(SYSTEM)
        assert [part for part in texts if isinstance(part, str) and part not in text] == [], name
        if CALL in messages:
            assert "qzlookup" in text, name
            assert "qzvalue" in text, name


def agrees_with_transformers(path: Path) -> None:
    source = path.read_text("utf-8")
    can = abilities(source)
    if can.tools == "functions":
        return  # Transformers has no variable of that name
    plain: list[dict[str, Any]] = [{"role": "user", "content": USER}]
    history = [
        {"role": "user", "content": USER},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": AGAIN},
    ]
    cases: list[tuple[tuple[Message, ...], list[dict[str, Any]], dict[str, Any]]] = [
        ((Message("user", USER),), plain, {}),
        ((Message("user", USER),), plain, {"enable_thinking": False, "thinking": False}),
        ((Message("user", USER),), plain, {"enable_thinking": True, "reasoning_effort": "high"}),
    ]
    if can.system:
        cases.append((TURNS["system"], [{"role": "system", "content": SYSTEM}, *history], {}))
    for messages, given, variables in cases:
        ours = text_of(source, *messages, variables=json.dumps(variables))
        assert ours == by_transformers(source, given, **variables)
    if can.calls is None:
        return
    word: Any = {"word": VALUE}
    id = {"any": "call_123456", "short": "call12345", "named": "functions.qzlookup:0"}[can.calls.ids]
    arguments = word if can.calls.are_arguments_objects else json.dumps(word, ensure_ascii=False)
    call = {"id": id, "type": "function", "function": {"name": "qzlookup", "arguments": arguments}}
    given = [
        {"role": "user", "content": USER},
        {"role": "assistant", "content": None if can.calls.is_content_null else "", "tool_calls": [call]},
        {"role": "tool", "content": RESULT, "tool_call_id": id, "name": "qzlookup"},
    ]
    called = ToolCall("qzlookup", json.dumps(word, ensure_ascii=False), id)
    messages = (
        Message("user", USER),
        Message("assistant", "", tool_calls=(called,)),
        Message("tool", RESULT, tool_call_id=id),
    )
    if can.shows_tools:
        assert text_of(source, *messages, tools=json.dumps(TOOLS)) == by_transformers(source, given, TOOLS)
    else:  # also where they make it fail, as llama.cpp's own for DeepSeek R1
        assert text_of(source, *messages) == by_transformers(source, given)
        assert "Looks a word up." in text_of(source, *messages, tools=json.dumps(TOOLS))


def continues_a_last_answer(path: Path) -> None:
    source = path.read_text("utf-8")
    text = text_of(source, Message("user", USER), Message("assistant", "Once upon "), continues=True)
    assert text.endswith("Once upon ")
    assert USER in text
