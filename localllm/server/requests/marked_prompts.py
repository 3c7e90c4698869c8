"""Prompts with pictures and sounds in llama-server's form: a text with markers, and a file for each of them.

    {"prompt_string": "[INST] <marker> What is this? [/INST]", "multimodal_data": ["<base64>"]}

No template is applied: the marker's place is where the model sees the file. Raises `RequestError`s that name the field
as a JSON path. Knows no endpoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from localllm.chat.media_files import MediaReading, put_back
from localllm.errors import InvalidParameter
from localllm.types import Media, MediaFile, TokenId

MARKER = f"<__media_{secrets.token_hex(16)}__>"
"""`media_marker` of /props. Random: no user's text contains it by accident."""
DEFAULT_MARKER = "<__media__>"
"""libmtmd's own, for clients that do not look for ours."""


class MarkedPrompt(NamedTuple):
    """A text with media in it."""

    parts: tuple[str | Media, ...]
    files: tuple[MediaFile, ...]

    def source(self) -> dict[str, Any]:
        """The prompt, as fields of `GenerationRequest`."""
        return {"prompt_parts": self.parts, "media": self.files}


class PromptObject(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with pictures and sounds."""

    prompt_string: str | list[str | TokenId]
    """With files a text; without them, tokens and texts, too."""
    multimodal_data: list[str] | str | None = None
    """Base64 or data URLs, one for each marker, in order."""

    def prompt(self, path: str) -> str | list[str | TokenId] | MarkedPrompt:
        """`path`: of this object. Raises `InvalidParameter`."""
        given = self.multimodal_data
        files = [given] if isinstance(given, str) else given or []
        if not isinstance(self.prompt_string, str):
            if files:
                where = f"{path}.prompt_string"
                raise InvalidParameter(f"{where} must be a text if there is multimodal_data", param=where)
            return self.prompt_string
        if not files and MARKER not in self.prompt_string:
            return put_back(self.prompt_string)
        return _marked(self.prompt_string, files, path)


def _marked(text: str, given: Sequence[str], path: str) -> MarkedPrompt:
    texts = text.split(MARKER if MARKER in text else DEFAULT_MARKER)
    if len(texts) - 1 != len(given):
        raise InvalidParameter(
            f"{path}.prompt_string has {len(texts) - 1} markers and {path}.multimodal_data {len(given)} files; put "
            f"{MARKER} (media_marker of GET /props) where each file belongs",
            param=f"{path}.multimodal_data",
        )
    reading = MediaReading()
    media = [reading.image(each, f"{path}.multimodal_data[{number}]") for number, each in enumerate(given)]
    return MarkedPrompt(between(texts, media), reading.files)


def between(texts: Sequence[str], media: Sequence[Media]) -> tuple[str | Media, ...]:
    """Texts, one more than media, with these between them. Raises `InvalidParameter` for a document."""
    made: list[str | Media] = [texts[0]]
    for medium, behind in zip(media, texts[1:], strict=True):
        if medium.kind == "document":
            raise InvalidParameter(f"{medium.param} is a document; put its text into the prompt", param=medium.param)
        made += [medium, behind]
    return tuple(put_back(part) if isinstance(part, str) else part for part in made if part != "")
