"""The format of a model's answers: reasoning, text and calls. Both the parser (`chat/formats`) and the grammar
(`grammar/calls/answers.py`) are built from this one description, so they cannot disagree.

    thought.opening THOUGHT thought.closing behind_thought text.opening TEXT text.closing calls.begin call ... calls.end

Literals are exactly what the model was trained to write, white space included; a parser accepts any white space, or
none, at the edges of a literal that has some there. Plain frozen data. Knows nothing of templates or tokens.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Literal

import msgspec

from localllm.types.conversation import Function, MediaKind, Rendering
from localllm.types.structures import Structure, Tags

SlotKind = Literal["name", "id", "number", "arguments"]
"""The variable parts of a call: function name, call id, number of the call in the answer, arguments."""


class Slot(msgspec.Struct, frozen=True):
    """A variable part of a call, and the literal after it."""

    kind: SlotKind
    behind: str = ""


class PatternCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="pattern"):
    """Literals with slots between them: `before`, then each slot and its literal. The slot of the name comes before
    that of the arguments.
    """

    before: str
    slots: tuple[Slot, ...]
    first_number: int = 0


class ObjectCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="object"):
    """A JSON object with these keys, between `before` and `after`."""

    before: str = ""
    after: str = ""
    keys: tuple[tuple[SlotKind, str], ...] = (("name", "name"), ("arguments", "arguments"))
    """In the order in which the model writes them; empty for `{"NAME": ARGUMENTS}`."""
    first_number: int = 0


class JsonArguments(msgspec.Struct, frozen=True, tag="json"):
    """One JSON object."""


class TaggedArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tagged"):
    """Each argument between its own literals: `before` KEY `behind_key` VALUE `after`, one after the other.

    A value is verbatim text if the function's schema (or the type mark) says string, else JSON.
    """

    before: str
    behind_key: str
    after: str
    between: str = ""
    before_type: str = ""
    """The literal after the key, followed by the type mark and `behind_key`; empty: types are not marked."""
    type_marks: tuple[tuple[str, str], ...] = ()
    """JSON Schema type, or `*` for any other -> type mark."""
    quotes: tuple[str, str] = ("", "")
    """Optional quotes around a text, such as CDATA for text with XML's special characters or line ends."""


class PythonArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="python"):
    """Keyword arguments in Python syntax: `city="Ulm", days=3`; JSON's true, false and null are accepted too."""


class BareArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="bare"):
    """JSON without quotes around keys, and with `quote` around strings, in which nothing is escaped (Gemma)."""

    quote: str


class NestedArguments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="nested"):
    """Nested XML, each tag after `prefix`: `<city>Ulm</city>`, lists as `<item>` ... (MiniMax M3)."""

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
    """Alternatives to `begin` that models occasionally write: the parser accepts them, the grammar never does."""
    is_single: bool = False
    """At most one call."""

    @property
    def is_bare(self) -> bool:
        """Whether only brackets open a call (Llama 3), so that the name of a declared function tells it from text."""
        call, opening = self.call, self.opening.split()
        if isinstance(call, PatternCall):
            is_named = call.slots[0].kind == "name" and bool(call.slots[0].behind.strip())
        else:
            kinds = [kind for kind, _ in call.keys]
            is_named = not kinds or kinds.index("name") < kinds.index("arguments")
        return is_named and bool(opening) and {*opening} <= {"{", "[", "[{"}

    @property
    def opening(self) -> str:
        """The start of the first call, up to its first slot."""
        return self.begin + (self.call.before if isinstance(self.call, PatternCall) else self.call.before + "{")


Origin = Literal["known", "found", "generic"]
"""Where a format comes from: described by hand, or derived from the template, both verified by rendering; or the
generic format, which models tend to use by themselves."""
Thinking = Literal["never", "always", "switchable"]
Protocol = Literal["", "harmony", "muse", "python_tag"]
"""Formats that the literals alone cannot describe: messages with headers (gpt-oss, Muse), and additional calls as
Python code after `<|python_tag|>`."""


class ChatFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The format of one chat template. The default is the generic format."""

    name: str = "generic"
    origin: Origin = "generic"
    note: str = ""
    """Why it is the generic format."""
    thought: Tags | None = None
    behind_thought: str = "\n\n"
    text: Tags | None = None
    """The literals around the text, if any."""
    also_text: tuple[str, ...] = ()
    """Alternatives that may open the text."""
    calls: Calls | None = None
    protocol: Protocol = ""
    opened: str = ""
    """The part of the answer's first literal that is already at the end of the prompt."""
    ignored: tuple[str, ...] = ()
    """Literals between parts, such as the headers of further messages in one answer."""
    turn_end: str = ""
    """What the template writes after an assistant message."""
    thinking: Thinking = "never"
    begins_thought: bool = False
    """Whether the prompt already opens the reasoning, if thinking is enabled."""
    switch: tuple[str, str] = ("", "")
    """Template variables as JSON, with and without thinking, if the template reads neither `enable_thinking` nor
    `thinking`."""
    efforts: bool = False
    """Whether the template reads `reasoning_effort`."""
    thought_by_effort: tuple[tuple[str, Tags], ...] = ()
    """The literals around the reasoning of efforts that have their own (K2 Horizon)."""
    shows_tools: bool = False
    """Whether the template renders the tools; otherwise they are described in the system message."""
    omits_messages: bool = False
    """Whether a prompt lacks the user's message."""

    def for_answer(self, rendering: Rendering) -> ChatFormat:
        """The format of an answer to a prompt that is rendered so."""
        if not self.thought_by_effort:
            return self
        thought = dict(self.thought_by_effort).get(
            json.loads(rendering.variables).get("reasoning_effort"), self.thought
        )
        return msgspec.structs.replace(self, thought=thought)

    @property
    def literals(self) -> tuple[str, ...]:
        """All literals; control tokens among them are kept in the text of an answer."""
        tags = [each for each in (self.thought, self.text) if each is not None]
        tags += [each for _, each in self.thought_by_effort]
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
"""Where an answer begins: inside reasoning that the prompt opened; where the model may open it; or after it."""

Capability = Literal[
    "completion", "chat", "tools", "thinking", "vision", "audio", "structured_outputs", "embedding", "rerank"
]


def capabilities(
    *, generates: bool, chats: bool, thinks: bool, ranks: bool, reads: Collection[MediaKind] = ()
) -> list[Capability]:
    """A model's capabilities. All chat models take tools. That generative models can embed, too, is not listed."""
    if not generates:
        return ["rerank"] if ranks else ["embedding"]
    found: list[Capability] = ["completion"]
    if chats:
        found += ["chat", "tools"]
    if chats and thinks:
        found.append("thinking")
    found += [*["vision"] * ("image" in reads), *["audio"] * ("audio" in reads)]  # type: ignore[list-item]
    return [*found, "structured_outputs"]


CallChoice = Literal["none", "auto", "required"]


class AnswerSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of a `Structure` of kind `answer`: free text, and calls of these functions as `choice` allows."""

    format: ChatFormat
    functions: tuple[Function, ...] = ()
    choice: CallChoice = "auto"
    parallel: bool = True
    text: Structure | None = None
    """The structure of the text if there is no call; None: free text."""
