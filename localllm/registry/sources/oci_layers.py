"""Parses the small layers of Ollama's models: system message, parameters, first messages, licences.

What cannot be honoured becomes a notice, so that one parameter does not make a model unusable. Knows nothing of
registries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, PullFailed
from localllm.registry.go_template.translating import to_jinja
from localllm.registry.making.modelfile import is_go_template
from localllm.registry.making.parameters import Parameters, collect_usable
from localllm.registry.sources.source import clean, decode
from localllm.types import Message

JINJA = "application/vnd.localllm.template.jinja"
"""Our media type for a Jinja chat template: Ollama's are Go templates."""
GO = ("template", "prompt")
"""The kinds of layers with a Go template."""
MAX_PARAMETERS = 100
MAX_MESSAGES = 1000
ROLES = ("system", "user", "assistant")

_LICENSES = {"apache license": "Apache-2.0", "mit license": "MIT"}
"""Beginning of a licence's text -> its SPDX identifier."""


class _Message(msgspec.Struct):
    role: str
    content: str = ""
    images: list[Any] | None = None


@dataclass(frozen=True)
class Texts:
    """The content of all small layers."""

    system: str | None
    license: str | None
    license_text: tuple[str, ...]
    messages: tuple[Message, ...]
    template: str | None
    fallback: str | None
    """For files without a template: the Go template, translated to Jinja."""
    parameters: Parameters
    notices: tuple[str, ...]


def read_texts(layers: list[tuple[str, bytes]], origin: str) -> Texts:
    """Parses `(kind, content)` pairs. Raises `PullFailed` for content that is not valid for its kind."""
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
        raise PullFailed(f"{origin} sets {len(values):,} parameters; at most {MAX_PARAMETERS} are supported")
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
    """The Jinja template, the translated Go template, and notices."""
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
    """Decodes a licence in any encoding, so that an umlaut in it does not make a model unusable."""
    for encoding in ("utf-16",) if content.startswith((b"\xff\xfe", b"\xfe\xff")) else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("utf-8", "replace")


def _messages(content: bytes, origin: str) -> tuple[list[Message], list[str]]:
    found = decode(content, list[_Message], f"the messages of {origin}")
    if len(found) > MAX_MESSAGES:
        raise PullFailed(
            f"{origin} begins every chat with {len(found):,} messages; at most {MAX_MESSAGES:,} are supported"
        )
    usable = [one for one in found if one.role in ROLES and not one.images]
    notices = []
    if len(usable) < len(found):
        notices.append(f"{len(found) - len(usable)} of its first messages have images or unknown roles and are ignored")
    return [Message(one.role, one.content) for one in usable], notices


def _license(text: str) -> str | None:
    """The short name of a well-known licence, else the first line of its text."""
    line = next((clean(line) for line in text[:4000].splitlines() if line.strip()), "")
    return _LICENSES.get(line.lower().strip(" ."), line) or None
