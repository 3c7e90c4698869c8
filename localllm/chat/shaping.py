"""Converts messages to a chat template's input: dicts with Transformers' fields, in a shape that the template accepts.

Content that a template refuses or drops is moved, never lost, and a growing conversation keeps its prefix:
- A system message in the middle goes to the end of the preceding user turn or result (else into the following turn,
  else into one of its own), between `<system-reminder>` tags. Several at the beginning become one. If the template
  supports no system messages, it goes into the first user turn.
- Calls and results that a template cannot write become text, in the model's own format or that of Hermes.
- Tools that it does not show are described in the system message, in the same format.
- If the template requires a user turn, an empty one goes before an answer or result that nothing was asked for.
- Consecutive turns of the same role are joined if the template requires that roles alternate.
- Pictures and sounds become parts where the template shows them, else marks in the text (see `media_marks`).
Each of these leaves a note. Knows nothing of Jinja.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from localllm.chat.formats.known import HERMES
from localllm.chat.formats.writer import written_calls
from localllm.chat.media_marks import Marks, MediaMark
from localllm.chat.probing import SHORT_ID, Abilities, CallShape, named_id
from localllm.chat.tool_prompt import described
from localllm.types import Message, ToolCall
from localllm.types.formats import Calls

BETWEEN = "\n\n"
SYSTEM_MOVED = "system-moved"
SYSTEMS_JOINED = "systems-joined"
CALLS_AS_TEXT = "calls-as-text"
TURNS_JOINED = "turns-joined"
USER_ADDED = "user-turn-added"
TOOLS_AS_TEXT = "tools-as-text"


def shape(
    messages: Sequence[Message],
    can: Abilities,
    *,
    words: Calls = HERMES,
    tools: Sequence[Any] = (),
    marks: Marks | None = None,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The template's input, and notes on changes. `words`: format for calls and tools that the template cannot write;
    `tools`: those that it does not show; `marks`: for pictures and sounds. Parts for these
    have the template's pattern and the mark as `mark`."""
    notes: dict[str, None] = {}
    if marks is not None:
        messages = [marks.in_text(each, media_first=not _shows_media(each, can)) for each in messages]
    if tools:
        notes[TOOLS_AS_TEXT] = None
        messages = _with_tools(messages, described(tools, words))
    turns = [each if can.developer or each.role != "developer" else replace(each, role="system") for each in messages]
    turns = _with_ids(_with_names(turns), can.calls)
    turns = _without_calls(turns, can, words, notes)
    turns = _with_systems(turns, can, notes)
    if not can.no_user:
        turns = _with_user(turns, notes)
    if not can.same_role_twice:
        turns = _alternating(turns, notes)
    return [_dict(turn, can, marks) for turn in turns], tuple(notes)


def _shows_media(message: Message, can: Abilities) -> bool:
    return all(can.placeholder(media.kind, message.role) for media in message.media)


def _with_names(messages: Iterable[Message]) -> list[Message]:
    """Add the name of the called function to results: few clients send it, and many templates read it."""
    names: dict[str, str] = {}
    named = []
    for each in messages:
        names.update((call.id, call.name) for call in each.tool_calls)
        missing = each.role == "tool" and not each.name and names.get(each.tool_call_id)
        named.append(replace(each, name=names[each.tool_call_id]) if missing else each)
    return named


def _with_ids(messages: list[Message], wanted: CallShape | None) -> list[Message]:
    """Convert ids to the form that the template requires; they stay the same in later requests of the conversation."""
    if wanted is None or wanted.ids == "any":
        return messages
    ids: dict[str, str] = {}
    turns = []
    num_calls = 0
    for each in messages:
        for number, call in enumerate(each.tool_calls, num_calls):
            ids[call.id] = named_id(call.name, number) if wanted.ids == "named" else _short(call.id)
        num_calls += len(each.tool_calls)
        calls = tuple(replace(call, id=ids[call.id]) for call in each.tool_calls)
        unknown = named_id(each.name, 0) if wanted.ids == "named" else _short(each.tool_call_id)
        result_of = ids.get(each.tool_call_id, unknown) if each.role == "tool" else ""
        turns.append(replace(each, tool_calls=calls, tool_call_id=result_of))
    return turns


def _short(id: str) -> str:
    if len(id) == SHORT_ID and id.isascii() and id.isalnum():
        return id
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:SHORT_ID]


def _with_tools(messages: Sequence[Message], text: str) -> list[Message]:
    """Add a description of tools to the first system message."""
    if messages and messages[0].is_system:
        return [_joined(messages[0], text), *messages[1:]]
    return [Message("system", text), *messages]


def _without_calls(messages: list[Message], can: Abilities, words: Calls, notes: dict[str, None]) -> list[Message]:
    """Convert calls and results to text if the template cannot write them, which may depend on a preceding call."""
    turns: list[Message] = []
    after_result = has_called = False
    for each in messages:
        if each.role != "tool" and not each.is_system:
            has_called = bool(each.tool_calls)
        if each.tool_calls and can.calls is None:
            notes[CALLS_AS_TEXT] = None
            made = written_calls(words, [replace(call, arguments=_object(call.arguments)) for call in each.tool_calls])
            each = _joined(replace(each, tool_calls=()), made, between="\n")
        is_result = each.role == "tool" and not (can.results and (has_called or can.lone_results))
        if is_result:
            notes[CALLS_AS_TEXT] = None
            text = f"<tool_response>\n{each.content}\n</tool_response>"
            if after_result:
                turns[-1] = _joined(turns[-1], text, between="\n")
                continue
            each = Message("user", text)
        after_result = is_result
        turns.append(each)
    return turns


def _with_systems(messages: list[Message], can: Abilities, notes: dict[str, None]) -> list[Message]:
    num_leading = next((index for index, each in enumerate(messages) if not each.is_system), len(messages))
    leading, rest = messages[:num_leading], messages[num_leading:]
    if len(leading) > 1 and not can.several_systems:
        notes[SYSTEMS_JOINED] = None
        leading = [_joined(leading[0], *(each.content for each in leading[1:]))]
    turns = leading
    pending: list[str] = []  # texts for the user's next turn
    if leading and not can.system:
        notes[SYSTEM_MOVED] = None
        turns, pending = [], [leading[0].content]
    for index, each in enumerate(rest):
        if each.is_system and not can.late_system:
            notes[SYSTEM_MOVED] = None
            text = reminder(each.content)
            if not pending and turns and turns[-1].role in ("user", "tool"):
                turns[-1] = _joined(turns[-1], text)
            elif pending or _next_role(rest[index:]) == "user":
                pending.append(text)
            else:
                turns.append(Message("user", text))
        elif pending:
            if each.role == "user":
                turns.append(_prefixed(pending, each))
            else:
                turns += [Message("user", BETWEEN.join(pending)), each]
            pending = []
        else:
            turns.append(each)
    return [*turns, Message("user", BETWEEN.join(pending))] if pending else turns


def _with_user(messages: list[Message], notes: dict[str, None]) -> list[Message]:
    """An empty user turn behind the leading system messages, unless one is there. It depends on these messages alone,
    so that a growing conversation keeps its prefix.
    """
    begin = next((index for index, each in enumerate(messages) if not each.is_system), len(messages))
    if begin < len(messages) and messages[begin].role == "user":
        return messages
    notes[USER_ADDED] = None
    return [*messages[:begin], Message("user", ""), *messages[begin:]]


def reminder(text: str) -> str:
    """A system message inside a user turn."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


def _next_role(messages: Sequence[Message]) -> str | None:
    """Role of the next message that is not a system message."""
    return next((each.role for each in messages if not each.is_system), None)


def _alternating(messages: list[Message], notes: dict[str, None]) -> list[Message]:
    turns: list[Message] = []
    for each in messages:
        last = turns[-1] if turns else None
        if last is not None and each.role == last.role and each.role in ("user", "assistant") and not last.tool_calls:
            notes[TURNS_JOINED] = None
            turns[-1] = replace(
                _joined(last, each.content), tool_calls=each.tool_calls, thought=last.thought or each.thought
            )
        else:
            turns.append(each)
    return turns


def _joined(message: Message, *texts: str, between: str = BETWEEN) -> Message:
    """Append texts to a message."""
    parts = (*(message.parts or (message.content,)), *texts)
    return replace(message, content=between.join(filter(None, (message.content, *texts))), parts=parts)


def _prefixed(texts: list[str], message: Message) -> Message:
    """Prepend texts to a message."""
    parts = (*texts, *(message.parts or (message.content,)))
    return replace(message, content=BETWEEN.join(filter(None, (*texts, message.content))), parts=parts)


def _dict(message: Message, can: Abilities, marks: Marks | None) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    shown = [] if marks is None else _with_media(message, can, marks)
    if shown:
        turn["content"] = shown
    elif can.only_parts or (can.parts and len(message.parts) > 1):
        texts = [part for part in message.parts or (message.content,) if isinstance(part, str)]
        turn["content"] = [{"type": "text", "text": text} for text in texts]
    if message.tool_calls and can.calls is not None:
        if not message.content:
            turn["content"] = None if can.calls.is_content_null else ""
        turn["tool_calls"] = [_call(call, can.calls) for call in message.tool_calls]
    if message.role == "tool":
        turn["tool_call_id"] = message.tool_call_id
    if message.name:
        turn["name"] = message.name
    if message.thought and (can.thought_beside_text or not (message.tool_calls and message.content)):
        if can.thought_field == "parts":
            text = [{"type": "text", "text": message.content}] if message.content else []
            turn["content"] = [{"type": "thinking", "thinking": message.thought}, *text]
        else:
            turn[can.thought_field] = message.thought
    if can.needed_thought and message.role == "assistant":
        turn.setdefault(can.needed_thought, "")
    return turn


def _with_media(message: Message, can: Abilities, marks: Marks) -> list[dict[str, Any]]:
    """The content in parts, those for pictures and sounds as the template knows them; empty if it shows none here."""
    parts: list[dict[str, Any]] = []
    has_media = False
    for piece in (piece for text in message.parts or (message.content,) for piece in marks.split(str(text))):
        shown = can.placeholder(piece.kind, message.role) if isinstance(piece, MediaMark) else None
        if shown is not None and isinstance(piece, MediaMark):
            has_media = True
            parts.append({**shown.part, "mark": (shown.pattern, marks.mark(piece))})
        else:
            parts.append({"type": "text", "text": marks.mark(piece) if isinstance(piece, MediaMark) else str(piece)})
    return parts if has_media else []


def _call(call: ToolCall, wanted: CallShape) -> dict[str, Any]:
    arguments = _arguments(call.arguments) if wanted.are_arguments_objects else call.arguments
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _object(text: str) -> str:
    return json.dumps(_arguments(text), ensure_ascii=False)


def _arguments(text: str) -> Any:
    """The arguments as an object; any other value becomes its only member."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = text
    return value if isinstance(value, dict) else {"arguments": value}
