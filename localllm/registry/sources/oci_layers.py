"""The small layers of Ollama's models: system message, parameters, first messages, licences. Bytes to typed values.

What cannot be honoured becomes a notice, so that a model is not lost for a parameter. Knows nothing of registries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, PullFailed
from localllm.registry.go_template.translating import to_jinja
from localllm.registry.modelfile import is_go_template
from localllm.registry.parameters import Parameters, collect_usable
from localllm.registry.sources.source import clean, decode
from localllm.types import Message

JINJA = "application/vnd.localllm.template.jinja"
"""The media type of a chat template of ours: Ollama's are in Go's language."""
GO = ("template", "prompt")
"""The kinds of layers with a template in Go's language."""
MAX_PARAMETERS = 100
MAX_MESSAGES = 1000
ROLES = ("system", "user", "assistant")

_LICENSES = {"apache license": "Apache-2.0", "mit license": "MIT"}
"""How the text of a licence begins -> its SPDX name."""


class _Message(msgspec.Struct):
    role: str
    content: str = ""
    images: list[Any] | None = None


@dataclass(frozen=True)
class Texts:
    """What the layers say, taken together."""

    system: str | None
    license: str | None
    license_text: tuple[str, ...]
    messages: tuple[Message, ...]
    template: str | None
    fallback: str | None
    """A template for files that have none: the one in Go's language, in Jinja."""
    parameters: Parameters
    notices: tuple[str, ...]


def read_texts(layers: list[tuple[str, bytes]], origin: str) -> Texts:
    """`(kind, content)` of each. Raises `PullFailed` for content that is not text, or not of the form of its kind."""
    licenses = [_license_text(content) for kind, content in layers if kind == "license"]
    systems = [_text(content, f"the system message of {origin}") for kind, content in layers if kind == "system"]
    values: dict[str, Any] = {}
    messages: list[Message] = []
    notices: list[str] = []
    for kind, content in layers:
        if kind == "params":
            values |= decode(content, dict[str, Any], f"the parameters of {origin}")
        elif kind == "messages":
            found, said = _messages(content, origin)
            messages, notices = messages + found, notices + said
    if len(values) > MAX_PARAMETERS:
        raise PullFailed(f"{origin} sets {len(values):,} parameters; the most is {MAX_PARAMETERS}")
    parameters, unused = collect_usable(values)
    template, fallback, said = _templates(layers, origin)
    notices += said
    return Texts(
        system=systems[-1] if systems and systems[-1].strip() else None,
        license=_license(licenses[0]) if licenses else None,
        license_text=tuple(licenses),
        messages=tuple(messages),
        template=template,
        fallback=fallback,
        parameters=parameters,
        notices=(*notices, *(clean(sentence) for sentence in unused)),
    )


def _templates(layers: list[tuple[str, bytes]], origin: str) -> tuple[str | None, str | None, list[str]]:
    """The one in Jinja, the one in Go's language, translated, and what to say."""
    template = fallback = None
    notices: list[str] = []
    for kind, content in layers:
        if kind != JINJA and kind not in GO:
            continue
        text = _text(content, f"the chat template of {origin}")
        if kind == JINJA or ("{%" in text and not is_go_template(text)):
            template = text
        elif is_go_template(text):
            try:
                fallback = to_jinja(text)
            except InvalidParameter as error:
                notices.append(f"only the GGUF file's own chat template can be used: {clean(error.message)}")
    return template, fallback, notices


def _text(content: bytes, what: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PullFailed(f"{what} is not UTF-8 text: {error}") from error


def _license_text(content: bytes) -> str:
    """Whatever it is encoded in: no model is lost for an umlaut in its licence."""
    for encoding in ("utf-16",) if content.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("utf-8", "replace")


def _messages(content: bytes, origin: str) -> tuple[list[Message], list[str]]:
    found = decode(content, list[_Message], f"the messages of {origin}")
    if len(found) > MAX_MESSAGES:
        raise PullFailed(f"{origin} begins every chat with {len(found):,} messages; the most is {MAX_MESSAGES:,}")
    usable = [one for one in found if one.role in ROLES and not one.images]
    notices = []
    if len(usable) < len(found):
        notices.append(f"{len(found) - len(usable)} of its first messages have pictures or unknown roles; left out")
    return [Message(one.role, one.content) for one in usable], notices


def _license(text: str) -> str | None:
    """Its first line, or the short name of a licence that everybody knows."""
    line = next((clean(line) for line in text[:4000].splitlines() if line.strip()), "")
    return _LICENSES.get(line.lower().strip(" ."), line) or None
