"""Renders a model's Jinja chat template like Transformers (`apply_chat_template`), in jinja2's immutable sandbox.

The sandbox prevents access to Python's internals; it bounds neither time nor memory, so this runs only in the worker's
template child. Knows nothing of tokens.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from localllm.chat.formats.known import HERMES
from localllm.chat.jinja import apply
from localllm.chat.media_marks import Marks, MediaMark
from localllm.chat.probing import Abilities, abilities, tool_variables
from localllm.chat.request import RenderedText, RenderRequest
from localllm.chat.shaping import shape
from localllm.chat.surrogates import REPLACED, whole_text
from localllm.errors import TemplateError
from localllm.types import Message

_END = "\ue0c1\ue0c0\ue0c2"
"""Marks the end of a message to be continued: private-use characters that no text contains."""


def render(request: RenderRequest) -> RenderedText:
    """Render the prompt. Raises `TemplateError`, with the template's own message if there is one.

    Tools that a template does not show, or whose schemas it cannot read, are described in the system message.
    """
    tools = _parsed(request.rendering.tools) if request.rendering.tools else None
    if not tools:
        return _rendered(request)
    refusal: TemplateError | None = None
    if abilities(request.template).shows_tools:
        try:
            return _rendered(request, shown=tools)
        except TemplateError as error:
            refusal = error
    try:
        return _rendered(request, described=tools)
    except TemplateError as error:
        raise refusal or error from None


def _rendered(request: RenderRequest, *, shown: list[Any] | None = None, described: Sequence[Any] = ()) -> RenderedText:
    """Render with `shown` tools passed to the template, and `described` ones in the system message."""
    can = abilities(request.template)
    made = _filled(request, can, shown, described)
    if made is None:  # it leaves out some of the pictures and sounds that it seemed to show
        made = _filled(request, replace(can, media=()), shown, described)
    if made is None:
        raise TemplateError("the chat template leaves out a picture or sound of these messages", param="messages")
    return made


def _filled(
    request: RenderRequest, can: Abilities, shown: list[Any] | None, described: Sequence[Any]
) -> RenderedText | None:
    """None: not all pictures and sounds are in the text."""
    rest = ""
    messages = request.messages
    if request.continues:
        messages, rest = _marked(messages)
    marks = Marks(request.marker) if request.marker else None
    turns, notes = shape(messages, can, words=request.words or HERMES, tools=described, marks=marks)
    given = request.rendering
    expected = _taken_marks(turns)
    variables = {
        **_parsed(given.variables or "{}"),
        "messages": turns,
        # Always set, as in Transformers: an undefined variable would pass the test "is not none".
        **tool_variables(shown, can.tools),
        "documents": _parsed(given.documents) if given.documents else None,
    }
    if marks is not None and can.media:
        variables = marks.quoted(variables, re.compile("|".join(each.tokens for each in can.media)))
    text = apply(
        request.template,
        **{
            **variables,
            "bos_token": request.bos_token,
            "eos_token": request.eos_token,
            "add_generation_prompt": request.add_generation_prompt and not request.continues,
        },
    )
    for pattern, printed in expected.items():
        pieces = re.split(f"(?:{pattern})", text)
        if len(pieces) != len(printed) + 1:
            return None
        text = "".join(piece + mark for piece, mark in zip(pieces, [*printed, ""], strict=True))
    if marks is not None and not _has_all(text, messages, marks):
        return None
    if request.continues:
        text, mark, _ = text.rpartition(_END)
        if not mark:
            raise TemplateError("the chat template leaves out the message that is to be continued", param="messages")
    whole = whole_text(text)  # calls, tools and variables are JSON, in which escapes may stand for surrogates
    return RenderedText(whole + rest, notes if whole == text else (*notes, REPLACED))


def _taken_marks(turns: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Removes the marks from the parts: pattern of a placeholder -> the marks of what it stands for, in order."""
    taken: dict[str, list[str]] = {}
    for part in (part for turn in turns if isinstance(turn["content"], list) for part in turn["content"]):
        if (found := part.pop("mark", None)) is not None:
            pattern, mark = found
            taken.setdefault(pattern, []).append(mark)
    return taken


def _has_all(text: str, messages: Sequence[Message], marks: Marks) -> bool:
    """Whether every picture and sound is in the text, as often as in the messages."""
    media = Counter(marks.mark(media) for each in messages for media in each.media)
    return media == Counter(marks.mark(piece) for piece in marks.split(text) if isinstance(piece, MediaMark))


def _marked(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], str]:
    """Mark the end of the last message; also returns the blanks after it, which many templates would strip."""
    last = messages[-1]
    if not last.content and last.thought:
        thought = last.thought.rstrip()
        return (*messages[:-1], replace(last, thought=thought + _END)), last.thought[len(thought) :]
    text = last.content.rstrip()
    end = last.parts[-1] if last.parts else None
    parts = (*last.parts[:-1], end.rstrip() + _END) if isinstance(end, str) else last.parts
    return (*messages[:-1], replace(last, content=text + _END, parts=parts)), last.content[len(text) :]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"the input of the chat template is not JSON: {error}", param="messages") from error
