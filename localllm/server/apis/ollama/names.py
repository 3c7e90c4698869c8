"""Converts between Ollama's model names (`[host/][namespace/]model[:tag]`, any case) and ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from localllm.errors import InvalidParameter
from localllm.runtime.runtime import among

DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_TAG = "registry.ollama.ai", "library", "latest"
_HUB = ("hf.co", "huggingface.co")
MAX_NAME_CHARS = 350 + 3 * 81

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}", re.ASCII)
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}", re.ASCII)
_HUB_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}", re.ASCII)


class Name(NamedTuple):
    """A name with all optional parts; compared in lower case."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def key(self) -> tuple[str, ...]:
        """The same for all spellings of a model's name."""
        host = _HUB[0] if self.host.lower() in _HUB else self.host
        return tuple(part.lower() for part in (host, self.namespace, self.model, self.tag))

    @property
    def is_short(self) -> bool:
        """Whether it may be a model of Ollama's library or of our catalog."""
        return (self.host.lower(), self.namespace.lower()) == (DEFAULT_HOST, DEFAULT_NAMESPACE)


def parse(text: str) -> Name | None:
    """The parts of a name; None if it is not a valid Ollama name."""
    if len(text) > MAX_NAME_CHARS:
        return None
    _, _, rest = text.rpartition("://")
    *front, last = rest.split("/")
    model, colon, tag = last.partition(":")
    if len(front) > 2:
        return None
    host = front[0] if len(front) == 2 else DEFAULT_HOST
    namespace = front[-1] if front else DEFAULT_NAMESPACE
    user = _HUB_USER if host.lower() in _HUB else _NAMESPACE
    parts_fit = user.fullmatch(namespace) and _PART.fullmatch(model) and (not colon or _PART.fullmatch(tag))
    if not parts_fit or not _HOST.fullmatch(host):
        return None
    return Name(host, namespace, model, tag if colon else DEFAULT_TAG)


def shown(id: str) -> str:
    """The name of this model for Ollama's clients."""
    plain = id.removeprefix("ollama:")
    return plain if ":" in plain.rpartition("/")[2] or parse(plain) is None else f"{plain}:{DEFAULT_TAG}"


def found(asked: str, ids: Iterable[str]) -> str | None:
    """The id of the model with that name, if any. Raises `InvalidParameter` for an invalid name."""
    there = list(ids)
    for id in there:
        if asked.lower() in (id.lower(), shown(id).lower()):
            return id
    name = parse(asked)
    if name is None:
        raise InvalidParameter("invalid model name", param="model")
    for id in there:
        other = parse(shown(id))
        if other is not None and other.key == name.key:
            return id
    if not name.is_short or name.tag.lower() != DEFAULT_TAG:
        return None
    return among(there, name.model.lower())


def ours(asked: str) -> str:
    """Our name for a model that is not on this machine yet. Raises `InvalidParameter`."""
    name = parse(asked)
    if name is None:
        raise InvalidParameter("invalid model name", param="model")
    if name.is_short:
        tag = "" if name.tag == DEFAULT_TAG else f":{name.tag.lower()}"
        return f"{name.model.lower()}{tag}"
    if name.key[0] == _HUB[0]:
        tag = "" if name.tag == DEFAULT_TAG else f":{name.tag}"
        return f"{_HUB[0]}/{name.namespace}/{name.model}{tag}"
    return in_registry(asked)


def in_registry(asked: str) -> str:
    """The name in Ollama's registry, or in one with its protocol."""
    name = parse(asked)
    if name is None:
        raise InvalidParameter("invalid model name", param="model")
    return f"ollama:{name.host}/{name.namespace}/{name.model}:{name.tag}"
