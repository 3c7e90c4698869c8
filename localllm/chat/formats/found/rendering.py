"""Renders sentinel conversations with one chat template: prompts, and answers of every kind.

A few dozen small renderings at most, each made once. Takes as long as the template does, so call it only in a process
with limits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from localllm.chat.probing import abilities
from localllm.chat.request import RenderRequest
from localllm.chat.shaping import CALLS_AS_TEXT, TOOLS_AS_TEXT
from localllm.chat.template import render
from localllm.errors import TemplateError
from localllm.types.conversation import Function, Message, Rendering, ToolCall

USER, TEXT, THOUGHT, LATER = "qzuser", "qztext", "qzthought", "qzlater"
NAME, OTHER, KEY, LAST = "qzname", "qzother", "qzkey", "qzlast"
_SCHEMA = {
    "type": "object",
    "properties": {
        KEY: {"type": "string", "description": "d"},
        LAST: {"type": "string", "description": "d"},
        "qznumber": {"type": "integer", "description": "d"},
        "qzdeep": {"type": "object", "description": "d", "additionalProperties": {"type": "string"}},
    },
    "required": [KEY],
}
TOOLS = json.dumps(
    [
        {"type": "function", "function": {"name": name, "description": "d", "parameters": _SCHEMA}}
        for name in (NAME, OTHER)
    ]
)
FUNCTIONS = tuple(Function(name=name, parameters=json.dumps(_SCHEMA)) for name in (NAME, OTHER))
ONE = ToolCall(NAME, json.dumps({KEY: "qzvalue", LAST: "qzend"}), "qzcall001")
SECOND = ToolCall(OTHER, json.dumps({KEY: "qzsecond", LAST: "qzfinal"}), "qzcall002")
SEVERAL = ToolCall(NAME, json.dumps({KEY: "qzvalue", "qznumber": 3, "qzdeep": {"qza": 'q"}'}}), "qzcall003")
EMPTY = ToolCall(OTHER, "{}", "qzcall004")

MOST_CHARS = 200_000
"""Maximum length of a rendering in characters: longer ones are not informative and take long to read."""

SENTINELS = (USER, TEXT, THOUGHT, LATER, NAME, OTHER, KEY, LAST, "qzvalue", "qzend", "qzsecond", "qzfinal", "qzcall")

THINKING = {"enable_thinking": True, "thinking": True}
"""Variables that enable thinking, under both names that templates read."""
NOT_THINKING = {"enable_thinking": False, "thinking": False}


class Answer(NamedTuple):
    """An assistant's message as rendered, and its input."""

    calls: tuple[ToolCall, ...]
    text: str
    thought: str
    rendered: str
    """The whole conversation, which ends with the message."""
    prompt: str
    """The prompt for it."""
    before_text: str
    """The rendering before an answer that is only text."""
    without: str
    """The conversation without it, and without a prompt for one."""


class Renderings:
    """Renderings of sentinels by one template; None where it fails."""

    def __init__(self, template: str, bos_token: str = "", eos_token: str = "") -> None:
        self.template = template
        self.bos_token = bos_token
        self._tokens = bos_token, eos_token
        self._made: dict[object, str | None] = {}
        self._tools = TOOLS
        self.shows_tools = abilities(template).shows_tools and self.prompt() is not None
        self._tools = TOOLS if self.shows_tools else ""

    def prompt(self, variables: Mapping[str, object] | None = None, *, tools: bool = True) -> str | None:
        """The prompt for one user message."""
        return self._render((Message("user", USER),), variables, tools=tools, generates=True)

    def turns(self, *messages: Message, variables: Mapping[str, object] | None = None) -> str | None:
        """A conversation that ends with its last message."""
        return self._render(messages, variables, tools=True, generates=False)

    def answer(
        self,
        *calls: ToolCall,
        text: str = "",
        thought: str = "",
        variables: Mapping[str, object] | None = None,
    ) -> Answer | None:
        """An answer to that prompt; None also if the rendering lacks a call."""
        user = Message("user", USER)
        message = Message("assistant", text, thought=thought, tool_calls=calls)
        rendered, prompt = self.turns(user, message, variables=variables), self.prompt(variables)
        if rendered is None or prompt is None:
            return None
        before_text = (self.turns(user, Message("assistant", TEXT), variables=variables) or "").rpartition(TEXT)[0]
        without = self.turns(user, variables=variables) or ""
        behind = rendered[rendered.rfind(USER) :]
        if any(call.name not in behind for call in calls):
            return None
        text, thought = (each if each in behind else "" for each in (text, thought))
        return Answer(calls, text, thought, rendered, prompt, before_text, without)

    def _render(
        self, messages: tuple[Message, ...], variables: Mapping[str, object] | None, *, tools: bool, generates: bool
    ) -> str | None:
        """Render, or return the earlier rendering; None also if calls or tools had to become text."""
        given = json.dumps(variables or {})
        key = (messages, given, self._tools if tools else "", generates)
        if key not in self._made:
            request = RenderRequest(
                self.template,
                messages,
                *self._tokens,
                add_generation_prompt=generates,
                rendering=Rendering(variables=given, tools=self._tools if tools else ""),
            )
            try:
                made = render(request)
            except TemplateError:
                self._made[key] = None
            else:
                is_changed = not {CALLS_AS_TEXT, TOOLS_AS_TEXT}.isdisjoint(made.notes)
                self._made[key] = None if is_changed or len(made.text) > MOST_CHARS else made.text
        return self._made[key]
