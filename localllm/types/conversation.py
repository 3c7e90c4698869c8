"""What a chat is made of: messages, the calls in them, and how all of it becomes a prompt. Plain frozen data.

A part of `types`. Knows nothing of templates or of any API's JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that an assistant made in an earlier turn."""

    name: str
    arguments: str = "{}"
    """JSON, as it was written; whatever else a client sent back."""
    id: str = ""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a chat. Its role is `system`, `developer`, `user`, `assistant` or `tool` (a call's result)."""

    role: str
    content: str
    parts: tuple[str, ...] = ()
    """The same text in several parts, for templates that read parts; none: it is one."""
    thought: str = ""
    """What the assistant thought before it; the template says whether that is shown to the model again."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """Of the call that this is the result of."""
    name: str = ""
    """Of who speaks, or of the function that was called."""

    @property
    def is_system(self) -> bool:
        """Whether it instructs the model, under either name."""
        return self.role in ("system", "developer")

    @property
    def is_open(self) -> bool:
        """Whether an answer can go on where it ends."""
        return self.role == "assistant" and not self.tool_calls


class Rendering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How messages become a prompt. The JSON texts keep what a client wrote, and can be compared."""

    variables: str = "{}"
    """JSON object: what the template gets besides."""
    tools: str = ""
    """JSON array, as the chat API has tools."""
    documents: str = ""
    """JSON array."""
    add_generation_prompt: bool | None = None
    """Whether the prompt ends where an answer begins; None: it does, unless the last message is continued."""
    continue_final_message: bool | None = None
    """Whether the answer goes on where the last message ends; None: if that is an assistant's and no call."""

    def continues(self, messages: tuple[Message, ...]) -> bool:
        """Whether the last of them is continued."""
        if self.continue_final_message is not None:
            return self.continue_final_message
        last = messages[-1] if messages else None
        return self.add_generation_prompt is None and last is not None and last.is_open


class Function(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the model may call."""

    name: str
    parameters: str = ""
    """JSON Schema of its arguments, as the client wrote it; nothing: any object."""
    is_strict: bool = False
    """A schema that cannot be kept is an error; else its arguments are any object, and a note says so."""
    param: str = "tools"
    """Where its schema stands in the request, as errors name it."""


class Calling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tools an answer may or must call. What the template is told of them is `Rendering.tools`."""

    functions: tuple[Function, ...]
    choice: Literal["none", "auto", "required"] = "auto"
    """`none`: they are in the prompt, so that it stays what it was, and no call may come."""
    parallel: bool = True
    """There may be several calls."""


class CallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a call that is being made: the first of each has its id and name, and all have more arguments."""

    index: int
    """Of the call within the answer, from 0 on."""
    arguments: str = ""
    """JSON; the pieces of a call together are one object."""
    name: str = ""
    id: str = ""


def whole_calls(deltas: Iterable[CallDelta]) -> tuple[ToolCall, ...]:
    """All calls of an answer, of its pieces."""
    heads: dict[int, CallDelta] = {}
    arguments: dict[int, list[str]] = {}
    for delta in deltas:
        heads.setdefault(delta.index, delta)
        arguments.setdefault(delta.index, []).append(delta.arguments)
    return tuple(ToolCall(head.name, "".join(arguments[index]), head.id) for index, head in heads.items())
