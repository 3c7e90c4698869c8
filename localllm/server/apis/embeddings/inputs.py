"""Texts to embed, as clients send them: texts, tokens, mixtures, objects around them.

llama-server accepts all of these; OpenAI's and TEI's clients send texts and tokens. Images are refused by name. Raises
`RequestError`s that name the item at fault as a JSON path, e.g. `input[3]`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.values import ListField, needed, wrong_content
from localllm.types import TokenId

Piece = str | TokenId
Item = str | tuple[Piece, ...]
"""One item: a text, or tokens with texts among them."""
Tokenize = Callable[[str, bool], Awaitable[list[int]]]
"""Tokenizes a text; the flag says whether it begins an item."""


class InputPart(msgspec.Struct, frozen=True):
    """A part of `content`."""

    type: str
    text: str | None = None


class InputObject(msgspec.Struct, frozen=True):
    """llama-server's object for a text with images, or a message's content. Its parts are joined."""

    fates: ClassVar[Fates] = Fates({"multimodal_data": RefusedField("images and audio are not supported yet", ([],))})

    prompt_string: str | None = None
    multimodal_data: ListField | msgspec.UnsetType = msgspec.UNSET
    content: list[InputPart] | None = None

    def text(self, path: str) -> str:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if not isinstance(self.multimodal_data, msgspec.UnsetType) and bytes(self.multimodal_data) not in (
            b"null",
            b"[]",
        ):
            raise UnsupportedParameter(
                f"{path}.multimodal_data: images and audio are not supported; leave them out",
                param=f"{path}.multimodal_data",
            )
        if self.prompt_string is not None:
            return self.prompt_string
        if self.content is None:
            raise InvalidParameter(f"{path} has neither prompt_string nor content", param=path)
        return "".join(_text(part, f"{path}.content[{index}]") for index, part in enumerate(self.content))


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


async def alike(items: Sequence[Item], tokenize: Tokenize) -> tuple[list[str] | None, list[list[int]] | None]:
    """All items as texts, or all as tokens if any item has tokens; the other result is None."""
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) == len(items):
        return texts, None
    tokens: list[list[int]] = []
    for item in items:
        found: list[int] = []
        for index, piece in enumerate((item,) if isinstance(item, str) else item):
            found += await tokenize(piece, index == 0) if isinstance(piece, str) else [piece]
        tokens.append(found)
    return None, tokens


def _item(given: Inputs | TokenId | list[Piece], path: str) -> Item:
    if isinstance(given, InputObject):
        return given.text(path)
    if isinstance(given, str):
        return given
    pieces: list[Piece] = []
    for index, piece in enumerate(given if isinstance(given, list) else [given]):
        if not isinstance(piece, str | int):
            where = f"{path}[{index}]"
            raise InvalidParameter(f"{where} must be a token or a text, because {path} has tokens", param=where)
        pieces.append(piece)
    return tuple(pieces)


def _text(part: InputPart, path: str) -> str:
    if part.type not in ("text", "input_text"):
        raise wrong_content(part.type, path)
    return needed(part.text, f"{path}.text")
