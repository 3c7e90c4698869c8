"""Texts to embed, as clients send them: texts, tokens, mixtures, and objects with pictures and sounds.

llama-server accepts all of these; OpenAI's and TEI's clients send texts and tokens. Raises `RequestError`s that name
the item at fault as a JSON path, e.g. `input[3]`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from localllm.chat.media_files import MediaReading, put_back
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.content_parts import ChatPart
from localllm.server.requests.marked_prompts import MarkedPrompt, PromptObject
from localllm.server.requests.messages import ChatMessage
from localllm.server.requests.values import missing
from localllm.types import TokenId

Piece = str | TokenId
Item = str | tuple[Piece, ...] | MarkedPrompt
"""One item: a text, one with pictures and sounds, or tokens with texts among them."""
Tokenize = Callable[[str, bool], Awaitable[list[int]]]
"""Tokenizes a text; the flag says whether it begins an item."""


class InputObject(msgspec.Struct, frozen=True):
    """A text with pictures and sounds: llama-server's, with markers, or a message's content, whose parts are joined."""

    prompt_string: str | None = None
    multimodal_data: list[str] | str | None = None
    """For `prompt_string`: base64 or data URLs, one for each marker, in order."""
    content: list[ChatPart] | None = None

    def item(self, path: str) -> str | MarkedPrompt:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.prompt_string is not None:
            given = PromptObject(prompt_string=self.prompt_string, multimodal_data=self.multimodal_data)
            made = given.prompt(path)
            assert not isinstance(made, list), "a text gives no tokens"
            return made
        if self.multimodal_data:
            raise missing(f"{path}.prompt_string")
        if self.content is None:
            raise InvalidParameter(f"{path} has neither prompt_string nor content", param=path)
        return _joined([_renamed(part) for part in self.content], path)


Inputs = str | InputObject | list[str | TokenId | list[Piece] | InputObject]


def items_of(given: Inputs, field: str, *, may_be_empty: bool = False) -> list[Item]:
    """All items. An array with tokens in it is one item."""
    if is_single(given):
        items = [_item(given, field)]
    else:
        assert isinstance(given, list)
        if not given:
            raise InvalidParameter(f"{field} must not be an empty array", param=field)
        items = [_item(each, f"{field}[{index}]") for index, each in enumerate(given)]
    for index, item in enumerate(items):
        if not item and not (may_be_empty and isinstance(item, str)):
            name = field if is_single(given) else f"{field}[{index}]"
            raise InvalidParameter(f"{name} must not be empty", param=name)
    return items


def is_single(given: Inputs) -> bool:
    """Whether there is a single item outside an array."""
    return not isinstance(given, list) or any(isinstance(each, int) for each in given)


class AlikeItems(NamedTuple):
    """All items in one form; the others are None."""

    texts: list[str] | None = None
    tokens: list[list[int]] | None = None
    marked: list[MarkedPrompt] | None = None


async def alike(items: Sequence[Item], tokenize: Tokenize) -> AlikeItems:
    """As texts; as texts with media or as tokens, if any has these. Raises `InvalidParameter` if there are both."""
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) == len(items):
        return AlikeItems(texts)
    if any(isinstance(item, MarkedPrompt) for item in items):
        return AlikeItems(marked=[_marked(item) for item in items])
    tokens: list[list[int]] = []
    for item in items:
        assert not isinstance(item, MarkedPrompt)
        found: list[int] = []
        for index, piece in enumerate((item,) if isinstance(item, str) else item):
            found += await tokenize(piece, index == 0) if isinstance(piece, str) else [piece]
        tokens.append(found)
    return AlikeItems(tokens=tokens)


def _marked(item: Item) -> MarkedPrompt:
    if isinstance(item, MarkedPrompt):
        return item
    if not isinstance(item, str):
        raise InvalidParameter("send tokens and pictures in requests of their own", param="input")
    return MarkedPrompt((item,), ())


def _item(given: Inputs | TokenId | list[Piece], path: str) -> Item:
    if isinstance(given, InputObject):
        return given.item(path)
    if isinstance(given, str):
        return put_back(given)
    pieces: list[Piece] = []
    for index, piece in enumerate(given if isinstance(given, list) else [given]):
        if not isinstance(piece, str | int):
            where = f"{path}[{index}]"
            raise InvalidParameter(f"{where} must be a token or a text, because {path} has tokens", param=where)
        pieces.append(put_back(piece) if isinstance(piece, str) else piece)
    return tuple(pieces)


def _joined(parts: list[ChatPart], path: str) -> str | MarkedPrompt:
    reading = MediaReading()
    message = ChatMessage("user", parts).to_message(path, [], reading, refuses=True)
    for medium in message.media:
        if medium.kind == "document":
            raise UnsupportedParameter(f"{medium.param}: send a document's text to embed it", param=medium.param)
    if message.media:
        return MarkedPrompt(tuple(part for part in message.parts if part != ""), reading.files)
    return "".join(part for part in message.parts if isinstance(part, str)) or message.content


def _renamed(part: ChatPart) -> ChatPart:
    """With the name that chats have for a text."""
    return msgspec.structs.replace(part, type="text") if part.type == "input_text" else part
