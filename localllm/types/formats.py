"""How a model writes an answer: its thought, its text, its calls. One description, from which both the reader of an
answer (`chat/formats`) and its grammar (`grammar/answers.py`) are made, so that they cannot disagree.

    thought.opening THOUGHT thought.closing behind_thought text.opening TEXT text.closing calls.begin call ... calls.end

Literals stand as the model was taught to write them, white space included; a reader takes any white space, and none,
where a literal has some at its edges. Plain frozen data, a part of `types`. Knows nothing of templates or tokens.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types.conversation import Function
from localllm.types.structures import Structure, Tags

SlotKind = Literal["name", "id", "number", "arguments"]
"""Of a call: the function's name, the call's id, its number among the answer's calls, its arguments."""


class Slot(msgspec.Struct, frozen=True):
    """What differs from call to call, and the literal behind it."""

    kind: SlotKind
    behind: str = ""


class PatternCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="pattern"):
    """A call is literals with slots between them: `before`, then each slot and what is behind it. One is the name's,
    and comes before the arguments'.
    """

    before: str
    slots: tuple[Slot, ...]
    first_number: int = 0


class ObjectCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="object"):
    """A call is a JSON object with these keys; `before` and `after` stand around it."""

    before: str = ""
    after: str = ""
    keys: tuple[tuple[SlotKind, str], ...] = (("name", "name"), ("arguments", "arguments"))
    """In the order in which the model writes them. None for `{"NAME": ARGUMENTS}`."""
    first_number: int = 0


class JsonArguments(msgspec.Struct, frozen=True, tag="json"):
    """One JSON object."""


class TaggedArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tagged"):
    """Each argument between literals of its own: `before` KEY `behind_key` VALUE `after`, one behind the other.

    A value is a text as it is where the function's schema (or the type's mark) says string; else it is JSON.
    """

    before: str
    behind_key: str
    after: str
    between: str = ""
    before_type: str = ""
    """Behind the key, with the type's mark and then `behind_key` following; nothing: types are not marked."""
    type_marks: tuple[tuple[str, str], ...] = ()
    """JSON Schema's type, `*` for any other -> its mark."""
    quotes: tuple[str, str] = ("", "")
    """What may stand around a text besides, as XML's CDATA does where it has XML's own characters or line ends."""


class PythonArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="python"):
    """Keyword arguments as Python writes them: `city="Ulm", days=3`; True, False and None may be JSON's words."""


class BareArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="bare"):
    """JSON without quotes around keys, and with `quote` around texts, in which nothing is escaped (Gemma)."""

    quote: str


class NestedArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="nested"):
    """XML all the way down, each tag behind `prefix`: `<city>Ulm</city>`, lists as `<item>` ... (MiniMax M3)."""

    prefix: str = ""


Arguments = JsonArguments | TaggedArguments | PythonArguments | BareArguments | NestedArguments


class Calls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls of an answer: `begin` call `between` call `end`."""

    call: PatternCall | ObjectCall
    arguments: Arguments = JsonArguments()
    begin: str = ""
    between: str = ""
    end: str = ""
    also_begins: tuple[str, ...] = ()
    """What may stand instead of `begin`, as models write it now and then: a reader takes it, no grammar makes it."""
    is_single: bool = False
    """There is one call at most."""
    at_start_only: bool = False
    """Nothing marks a call but that the answer begins with it (Llama 3)."""

    @property
    def opening(self) -> str:
        """What the first call begins with, up to its first slot."""
        return self.begin + (self.call.before if isinstance(self.call, PatternCall) else self.call.before + "{")


Origin = Literal["known", "found", "generic"]
"""Of a format: described by hand, or by what the template writes, and in both cases checked by rendering; or what
models do when nobody told them otherwise."""
Thinking = Literal["never", "always", "switchable"]
Protocol = Literal["", "harmony", "muse", "python_tag"]
"""How answers are read that the literals alone do not describe: messages with headers, as gpt-oss and Muse write
them; calls as Python code behind `<|python_tag|>` besides."""


class ChatFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one chat template. The default is the generic one."""

    name: str = "generic"
    origin: Origin = "generic"
    note: str = ""
    """Why it is the generic one."""
    thought: Tags | None = None
    behind_thought: str = "\n\n"
    text: Tags | None = None
    """What stands around the text, if anything does."""
    also_text: tuple[str, ...] = ()
    """What may open a text instead."""
    calls: Calls | None = None
    protocol: Protocol = ""
    opened: str = ""
    """Of the literal that an answer begins with, what prompts end with already."""
    ignored: tuple[str, ...] = ()
    """What may stand between parts and is none of them, as the headers of further messages of one answer are."""
    turn_end: str = ""
    """What the template writes behind an assistant's message."""
    thinking: Thinking = "never"
    begins_thought: bool = False
    """Prompts end within a thought where one is wanted, so that no answer opens one itself."""
    switch: tuple[str, str] = ("", "")
    """JSON objects of the variables for thinking and for none, where its template reads neither `enable_thinking` nor
    `thinking`."""
    efforts: bool = False
    """Its template reads `reasoning_effort`."""
    shows_tools: bool = False
    """Its template writes down the tools; else they are described in the system message."""

    @property
    def literals(self) -> tuple[str, ...]:
        """All that it is made of: control tokens among these are part of an answer's text."""
        tags = [each for each in (self.thought, self.text) if each is not None]
        found = [text for each in tags for text in (each.opening, each.closing)]
        found += [self.behind_thought, *self.also_text, *self.ignored]
        if self.calls is not None:
            calls, call = self.calls, self.calls.call
            found += [calls.begin, calls.between, calls.end, *calls.also_begins, call.before]
            found += [slot.behind for slot in call.slots] if isinstance(call, PatternCall) else [call.after]
            found += [
                text
                for name in calls.arguments.__struct_fields__
                if isinstance(text := getattr(calls.arguments, name), str)
            ]
        return tuple(dict.fromkeys(filter(None, found)))


Beginning = Literal["thought", "either", "text"]
"""Where an answer begins: within a thought that its prompt opened; before one that the model may open; behind it, or
where there is none.
"""

Capability = Literal["completion", "chat", "tools", "thinking", "structured_outputs", "embedding", "rerank"]


def capabilities(*, generates: bool, chats: bool, thinks: bool, ranks: bool) -> list[Capability]:
    """What a model is for: any that generates would embed as well. Tools are told to every one that chats."""
    if not generates:
        return ["rerank"] if ranks else ["embedding"]
    found: list[Capability] = ["completion"]
    if chats:
        found += ["chat", "tools"]
    if chats and thinks:
        found.append("thinking")
    return [*found, "structured_outputs"]


CallChoice = Literal["none", "auto", "required"]


class AnswerSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of a `Structure` of kind `answer`: free text, with calls of these functions as the choice has them."""

    format: ChatFormat
    functions: tuple[Function, ...] = ()
    choice: CallChoice = "auto"
    parallel: bool = True
    text: Structure | None = None
    """What the text has to be where no call is made: the answer is one or the other. None: anything."""
