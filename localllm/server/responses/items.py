"""The items of a conversation: as clients write them, as they are kept and listed, and as messages for a template.

Knows nothing of requests, answers and the store.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.server.openai.logprobs import ChatLogprob
from localllm.server.openai.messages import ContentPart
from localllm.server.parse import small
from localllm.types import Message

ItemStatus = Literal["in_progress", "completed", "incomplete"]

ROLES = ("system", "developer", "user", "assistant")
_KNOWN = frozenset({"type", "role", "content", "id", "status", "phase"})
_TEXT_PARTS = ("input_text", "output_text")


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    text: str


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str
    annotations: list[Any] = []
    logprobs: list[ChatLogprob] = []


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str


class ThoughtItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """The thought before a structured answer. None that comes in is given to a model: templates leave old ones out."""

    id: str
    summary: list[Any] = []
    content: list[ReasoningText]
    status: ItemStatus = "completed"


class Item(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message, of either side."""

    id: str
    role: str
    status: ItemStatus = "completed"
    content: list[InputText | OutputText]

    def to_message(self) -> Message:
        """Parts are joined as the chat API joins them."""
        texts = [part.text for part in self.content]
        return Message(self.role, "\n".join(texts), parts=tuple(texts) if len(texts) > 1 else ())

    def without_logprobs(self) -> Item:
        """As the next turn keeps it: they would be kept once more with every turn."""
        parts = [msgspec.structs.replace(part, logprobs=[]) for part in self.content if isinstance(part, OutputText)]
        return msgspec.structs.replace(self, content=parts)


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item as the client wrote it: a message, with or without its type, or a thought of ours that comes back."""

    type: str | None = None
    role: str | None = None
    content: str | list[ContentPart] | None = None

    def to_item(self, path: str) -> Item:
        """Raises `InvalidParameter`, `UnsupportedParameter`; `path` is where this item stands."""
        if self.type not in (None, "message"):
            kind = clipped(self.type or "")
            raise UnsupportedParameter(f"input of type {kind!r} is not supported yet", param=f"{path}.type")
        if self.role is None or self.content is None:
            missing = f"{path}.role" if self.role is None else f"{path}.content"
            raise InvalidParameter(f"{missing} is missing", param=missing)
        if self.role not in ROLES:
            known, given = ", ".join(ROLES), clipped(self.role)
            raise InvalidParameter(f"{path}.role must be one of {known}, got {given!r}", param=f"{path}.role")
        part = OutputText if self.role == "assistant" else InputText
        return Item(id=new_id("msg"), role=self.role, content=[part(text) for text in self._texts(f"{path}.content")])

    def _texts(self, path: str) -> list[str]:
        if isinstance(self.content, str):
            return [self.content]
        texts: list[str] = []
        for index, part in enumerate(self.content or ()):
            if part.type not in _TEXT_PARTS:
                where = f"{path}[{index}].type"
                raise UnsupportedParameter(f"content of type {clipped(part.type)!r} is not supported yet", param=where)
            if part.text is None:
                raise InvalidParameter(f"{path}[{index}].text is missing", param=f"{path}[{index}].text")
            texts.append(part.text)
        return texts


def new_id(prefix: str) -> str:
    """Nobody guesses it: who knows a response's id may read it."""
    return f"{prefix}_{secrets.token_hex(24)}"


def input_items(given: str | Sequence[InputItem] | None) -> list[Item]:
    """The field `input`; a text is a user's message, and thoughts are left out.

    Raises `InvalidParameter`, `UnsupportedParameter`.
    """
    if isinstance(given, str):
        given = [InputItem(role="user", content=given)]
    return [item.to_item(f"input[{index}]") for index, item in enumerate(given or ()) if item.type != "reasoning"]


def unknown_in_items(given: msgspec.Raw | None) -> list[str]:
    """The fields of messages that are nobody's; other items are refused as a whole."""
    items = () if given is None else msgspec.json.decode(given, type=str | list[dict[str, msgspec.Raw]] | None)
    if not isinstance(items, list):
        return []
    messages = (item for item in items if "type" not in item or small(item["type"]) in (None, "message"))
    unknown = set[str]().union(*messages) - _KNOWN
    return [f"input[].{name}" for name in sorted(unknown)]
