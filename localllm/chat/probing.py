"""Finds out by rendering sentinels which messages a chat template accepts, and in what shape: system messages in the
middle, parts, calls, results and reasoning.

A template that fails on everything is assumed to accept everything, so that requests report its own error. Knows
nothing of real conversations.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from localllm.types import MediaKind

Apply = Callable[..., str | None]
"""Renders messages and optional tools; None: the template failed."""
ApplyWith = Callable[..., str | None]
"""The same, with additional variables."""
Turn = dict[str, Any]

IdShape = Literal["any", "short", "named"]
"""Form of call ids: unchanged, nine characters (Mistral), or the function's name and a number (Kimi K2)."""

ToolsShape = Literal["none", "list", "functions"]
"""How tools are passed: without any, `tools` is None (`none`) or an empty list (`list`); `functions` also sets a
variable of that name to JSON (Firefunction)."""

TOOLS_SHAPES: tuple[ToolsShape, ...] = ("none", "list", "functions")

THOUGHT_FIELDS = ("reasoning_content", "thinking", "reasoning")
SHORT_ID = 9
"""Length of short ids."""

_U: Turn = {"role": "user", "content": "qzuser"}
_A: Turn = {"role": "assistant", "content": "qzanswer"}
_V: Turn = {"role": "user", "content": "qzlater"}
_NAME, _KEY, _VALUE, _RESULT, _THOUGHT = "qzname", "qzkey", "qzvalue", "qzresult", "qzthought"
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _NAME,
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {_KEY: {"type": "string", "description": "d"}},
                "required": [_KEY],
            },
        },
    }
]


class CallShape(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which a template accepts an assistant's calls."""

    is_content_null: bool
    """Whether the content of a message with calls and no text is null; otherwise it is empty."""
    are_arguments_objects: bool
    """Whether arguments are objects; otherwise they are JSON texts."""
    ids: IdShape


class Placeholder(msgspec.Struct, frozen=True, kw_only=True):
    """How a template shows a picture or sound that stands among the parts of a content."""

    kind: MediaKind
    part: Turn
    """The part as the template knows it."""
    pattern: str
    """Regular expression of what it prints for one."""
    tokens: str
    """The same for the tokens in it. Texts of clients that match are quoted."""
    roles: tuple[str, ...]
    """The turns in which it shows them."""


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """Input that a template accepts unchanged; anything else must be reshaped."""

    tools: ToolsShape = "none"
    """How tools are passed to it."""
    shows_tools: bool = True
    """Whether it renders the tools."""
    system: bool = True
    """Whether it accepts a system message at the beginning."""
    several_systems: bool = True
    """Whether it accepts more than one at the beginning."""
    late_system: bool = True
    """Whether it accepts one after other turns, and renders it in place."""
    developer: bool = False
    """Whether it has a role `developer`, distinct from `system`."""
    parts: bool = False
    """Whether it accepts content in several parts."""
    only_parts: bool = False
    same_role_twice: bool = True
    """Whether it accepts consecutive user turns."""
    no_user: bool = True
    """Whether it accepts conversations that begin with another turn than a user's, or have none."""
    calls: CallShape | None = CallShape(is_content_null=True, are_arguments_objects=True, ids="any")
    results: bool = True
    lone_results: bool = True
    """Whether it accepts results of calls that are not in the conversation."""
    thought_field: str = "reasoning_content"
    """Field of an assistant's message that holds the reasoning; `parts`: a part of its content."""
    needed_thought: str = ""
    """Field that every assistant's message must have, even if it is empty (K2 Horizon)."""
    thought_beside_text: bool = True
    """Whether a message may have reasoning, text and calls together."""
    media: tuple[Placeholder, ...] = ()
    """The pictures and sounds that it shows."""

    def placeholder(self, kind: str, role: str) -> Placeholder | None:
        """How pictures or sounds are shown in turns of that role; videos are shown as pictures."""
        kind = "image" if kind == "video" else kind
        return next((each for each in self.media if each.kind == kind and role in each.roles), None)


def probe(template: str, apply: ApplyWith) -> Abilities:
    """Find a template's abilities by a few dozen small renderings."""
    for shape in TOOLS_SHAPES:
        given = functools.partial(_with_tools, apply, shape)
        if _shown(given, [_U], _U["content"]):
            return _probe(template, given, shape, only_parts=False)
        if _shown_parts(given, [_in_parts(_U)], _U["content"]):
            return _probe(template, given, shape, only_parts=True)
    return Abilities()


def tool_variables(tools: list[Any] | None, shape: ToolsShape) -> dict[str, Any]:
    """The template variables that pass these tools."""
    if shape == "functions":
        return {"tools": tools, "functions": json.dumps(tools or [], indent=4, ensure_ascii=False)}
    return {"tools": tools or ([] if shape == "list" else None)}


def _with_tools(
    apply: ApplyWith, shape: ToolsShape, messages: list[Turn], tools: list[Turn] | None = None
) -> str | None:
    return apply(messages, **tool_variables(tools, shape))


def _probe(template: str, apply: Apply, tools: ToolsShape, *, only_parts: bool) -> Abilities:
    turn = _in_parts if only_parts else dict[str, Any]
    system, second = turn(_system("qzsystem")), turn(_system("qzsecond"))
    user, answer, later = turn(_U), turn(_A), turn(_V)
    needed = _needed_thought(apply, user, answer)
    if needed:
        apply = functools.partial(_with_thoughts, apply, needed)
    takes_system = _in_order(apply, [system, user], "qzsystem")
    first = [system] if takes_system else []
    calls = _probe_calls(apply, user)
    field = _probe_thought(apply, user, calls)
    return Abilities(
        tools=tools,
        shows_tools=_NAME in (apply([user], tools=_TOOLS) or ""),
        system=takes_system,
        several_systems=takes_system and _in_order(apply, [system, second, user], "qzsystem", "qzsecond"),
        late_system=_in_order(apply, [user, answer, second, later], *_texts(_U, _A), "qzsecond", *_texts(_V))
        and _in_order(apply, [*first, user, second], *_texts(_U), "qzsecond"),
        developer=any(f"{quote}developer{quote}" in template for quote in "\"'")
        and _shown(apply, [{**system, "role": "developer"}, user], "qzsystem"),
        parts=only_parts
        or _shown_parts(
            apply,
            [_in_parts(each, "qzpart" + each["role"]) for each in [*first, _U, _A, _V]],
            *_texts(_U, _A, _V),
            *("qzpart" + each["role"] for each in [*first, _U, _A]),
        ),
        only_parts=only_parts,
        same_role_twice=_in_order(apply, [user, later], *_texts(_U, _V)),
        no_user=_in_order(apply, [*first, answer, later], *_texts(_A, _V))
        and _shown(apply, [*first, answer], *_texts(_A))
        and (not first or _shown(apply, first, "qzsystem")),
        calls=calls,
        results=_takes_results(template, apply, [user, answer], calls),
        lone_results=_shown(apply, [user, {"role": "tool", "content": _RESULT, "tool_call_id": "qzcall000"}], _RESULT),
        thought_field=field,
        needed_thought=needed,
        thought_beside_text=calls is None
        or apply(_called(user, calls, text="qztext", thought={field: _THOUGHT})) is not None,
        media=tuple(filter(None, (_probe_media(apply, kind, system, user, calls) for kind in _MEDIA_PARTS))),
    )


_MEDIA_PARTS: dict[MediaKind, tuple[Turn, ...]] = {
    "image": ({"type": "image"}, {"type": "image_url", "image_url": {"url": ""}}),
    "audio": (
        {"type": "audio"},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": ""}},
    ),
}
_TOKENS = re.compile(r"[<\[].*[>\]]", re.DOTALL)
"""What a template prints for a picture, without words around it: `Audio 1: <|begin|><|pad|><|end|>`."""
_TOKEN = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_FIRST, _LAST = "qzfirst", "qzlast"


def _probe_media(
    apply: Apply, kind: MediaKind, system: Turn, user: Turn, calls: CallShape | None
) -> Placeholder | None:
    for part in _MEDIA_PARTS[kind]:
        alone, one = _between(apply, []), _between(apply, [part])
        if one is None or one == alone or "'type'" in one or '"type"' in one:
            continue
        printed = _TOKENS.search(one)
        core = printed[0] if printed else one.strip()
        pattern, two = _numbered(core), _between(apply, [part, part])
        if not core or two is None or len(re.findall(pattern, two)) != 2 or (alone and re.search(pattern, alone)):
            continue
        content = [{"type": "text", "text": _FIRST}, part]
        tool = {"role": "tool", "content": content, "tool_call_id": "qzcall000", "name": _NAME}
        turns = {
            "system": [{**system, "content": content}, user],
            "tool": [user, _A, tool] if calls is None else [*_called(user, calls)[:-1], tool],
        }
        roles = [role for role, each in turns.items() if _shows_media(apply(each), pattern)]
        tokens = "|".join(map(_numbered, _TOKEN.findall(core) or [core]))
        return Placeholder(kind=kind, part=part, pattern=pattern, tokens=tokens, roles=("user", *roles))
    return None


def _between(apply: Apply, parts: list[Turn]) -> str | None:
    """What a template prints between two texts for the parts between them."""
    first, last = ({"type": "text", "text": text} for text in (_FIRST, _LAST))
    text = apply([{"role": "user", "content": [first, *parts, last]}]) or ""
    found = re.search(f"{_FIRST}(.*){_LAST}", text, re.DOTALL)
    return None if found is None else found[1]


def _shows_media(text: str | None, pattern: str) -> bool:
    return text is not None and _FIRST in text and "'type'" not in text and len(re.findall(pattern, text)) == 1


def _numbered(text: str) -> str:
    """A pattern of the text with any numbers: some templates count pictures."""
    return re.sub(r"\d+", r"\\d+", re.escape(text))


def _needed_thought(apply: Apply, user: Turn, answer: Turn) -> str:
    if apply([user, answer]) is not None:
        return ""
    fields = (field for field in THOUGHT_FIELDS if apply([user, {**answer, field: ""}]) is not None)
    return next(fields, "")


def _with_thoughts(apply: Apply, field: str, messages: list[Turn], tools: list[Turn] | None = None) -> str | None:
    return apply([{field: "", **each} if each["role"] == "assistant" else each for each in messages], tools=tools)


def _probe_calls(apply: Apply, user: Turn) -> CallShape | None:
    ids: tuple[IdShape, ...] = ("any", "short", "named")
    for id_shape in ids:
        for are_objects in (True, False):
            for is_null in (True, False):
                shape = CallShape(is_content_null=is_null, are_arguments_objects=are_objects, ids=id_shape)
                for tools in (None, _TOOLS):
                    if _is_call(apply(_called(user, shape), tools=tools)):
                        return shape
    return None


def _is_call(text: str | None) -> bool:
    """Whether the text shows the call properly: neither in Python syntax nor as JSON within JSON."""
    return (
        text is not None
        and text.count(_NAME) > 0
        and _VALUE in text
        and not any(wrong in text for wrong in ("None", f"{{'{_KEY}'", f'\\"{_KEY}'))
    )


def _takes_results(template: str, apply: Apply, turns: list[Turn], calls: CallShape | None) -> bool:
    if calls is not None:
        return _shown(apply, _called(turns[0], calls), _RESULT)
    names_role = any(f"{quote}tool{quote}" in template for quote in "\"'")
    return names_role and _shown(apply, [*turns, {"role": "tool", "content": _RESULT, "name": _NAME}], _RESULT)


def _probe_thought(apply: Apply, user: Turn, calls: CallShape | None) -> str:
    for field in THOUGHT_FIELDS:
        if _shown(apply, [user, {**_A, field: _THOUGHT}], _THOUGHT):
            return field
        if calls is not None and _shown(apply, _called(user, calls, thought={field: _THOUGHT}), _THOUGHT):
            return field
    parts = [{"type": "thinking", "thinking": _THOUGHT}, {"type": "text", "text": _A["content"]}]
    if _shown_parts(apply, [user, {**_A, "content": parts}], _THOUGHT, _A["content"]):
        return "parts"
    return THOUGHT_FIELDS[0]


def _called(user: Turn, shape: CallShape, *, text: str = "", thought: Turn | None = None) -> list[Turn]:
    arguments: Any = {_KEY: _VALUE} if shape.are_arguments_objects else json.dumps({_KEY: _VALUE})
    id = {"any": "call_qz0000000000", "short": "qzcall000", "named": named_id(_NAME, 0)}[shape.ids]
    call = {"id": id, "type": "function", "function": {"name": _NAME, "arguments": arguments}}
    content = text or (None if shape.is_content_null else "")
    answer = {"role": "assistant", "content": content, "tool_calls": [call], **(thought or {})}
    return [user, answer, {"role": "tool", "content": _RESULT, "tool_call_id": id, "name": _NAME}]


def named_id(name: str, number: int) -> str:
    """Id of a call with this index in the conversation, from 0."""
    return f"functions.{name}:{number}"


def _shown(apply: Apply, messages: list[Turn], *texts: str) -> bool:
    text = apply(messages)
    return text is not None and all(each in text for each in texts)


def _shown_parts(apply: Apply, messages: list[Turn], *texts: str) -> bool:
    """Whether the texts are shown, and not as a list in Python or JSON syntax."""
    text = apply(messages)
    return (
        text is not None
        and all(each in text for each in texts)
        and not any(f"{quote}{word}{quote}: " in text for quote in "\"'" for word in ("text", "thinking"))
    )


def _in_order(apply: Apply, messages: list[Turn], *texts: str) -> bool:
    """Whether each occurs once, in this order."""
    text = apply(messages)
    if text is None or any(text.count(each) != 1 for each in texts):
        return False
    places = [text.index(each) for each in texts]
    return places == sorted(places)


def _system(text: str) -> Turn:
    return {"role": "system", "content": text}


def _texts(*turns: Turn) -> list[str]:
    return [turn["content"] for turn in turns]


def _in_parts(turn: Turn, *more: str) -> Turn:
    return {**turn, "content": [{"type": "text", "text": text} for text in (turn["content"], *more)]}


@functools.lru_cache(maxsize=8)
def abilities(template: str) -> Abilities:
    """A template's abilities, cached. Takes as long as the template does, so call it only in a process with limits."""
    from localllm.chat.jinja import apply
    from localllm.errors import TemplateError

    def attempt(messages: list[Turn], **variables: object) -> str | None:
        try:
            return apply(
                template,
                messages=messages,
                bos_token="",
                eos_token="",
                add_generation_prompt=True,
                documents=None,
                **variables,
            )
        except TemplateError:
            return None

    return probe(template, attempt)
