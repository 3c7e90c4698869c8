"""Values as clients send them, and the sentences that refuse them: what the adapters of all APIs share.

Knows no API's fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, UnsetType

from localllm.chat.media_files import put_back
from localllm.chat.unreadable import with_parts
from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.types import Media, Message

T = TypeVar("T")

ObjectField = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "null"]})]
ListField = Annotated[Raw, Meta(extra_json_schema={"type": ["array", "null"]})]


def missing(path: str) -> InvalidParameter:
    """The error for a required field that is absent."""
    return InvalidParameter(f"{path} is missing", param=path)


def needed(value: T | None, path: str) -> T:
    """The value. Raises `InvalidParameter` if it is absent."""
    if value is None:
        raise missing(path)
    return value


def exclusive(one: str, other: str, param: str) -> InvalidParameter:
    """The error for two fields of which only one may be sent."""
    return InvalidParameter(f"{one} and {other} are mutually exclusive; send one of them", param=param)


def wrong_content(kind: str, path: str) -> UnsupportedParameter:
    """The error for a part of a message that is not text, such as an image."""
    return UnsupportedParameter(
        f"{path}: content of type {clipped(kind)!r} is not supported here; leave it out", param=f"{path}.type"
    )


def json_of(given: Raw | UnsetType) -> str:
    """The JSON as text; empty for null. Base64 that was taken out of the body, as of a file that a call writes, stands
    in it again.
    """
    text = "" if isinstance(given, UnsetType) else bytes(given).decode("utf-8", "replace").strip()
    return "" if text == "null" else put_back(text)


def json_or_text(given: Raw | UnsetType, path: str) -> str:
    """A string's content, or the JSON itself; empty for null. Raises `InvalidParameter`."""
    text = json_of(given)
    if text.startswith('"'):
        try:
            return msgspec.json.decode(text, type=str)
        except msgspec.DecodeError as error:  # half a surrogate pair
            raise InvalidParameter(f"{path} is not valid text: {error}", param=path) from error
    return text


def json_as(given: Raw | UnsetType, path: str, opening: str, what: str) -> str:
    """The JSON as text; empty for null. Raises `InvalidParameter` if it does not begin like `what`."""
    text = json_of(given)
    if text and not text.startswith(opening):
        raise InvalidParameter(f"{path} must be {what}", param=path)
    return text


def message_of(role: str, parts: Sequence[str | Media]) -> Message:
    """A message of one or several parts, its texts joined as llama-server and vLLM do."""
    return with_parts(Message(role, ""), parts)
