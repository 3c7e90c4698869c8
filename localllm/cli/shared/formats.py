"""The chat format of a model, found without loading it: a child process with limits renders its template.

Knows nothing of templates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localllm.errors import LocalLLMError
from localllm.types import Capability, ChatFormat, MediaKind, ModelInfo, capabilities

if TYPE_CHECKING:
    from localllm.worker.prompts.template_child import TemplateChild

UNKNOWN = "its template is unknown"


def format_of(path: Path, info: ModelInfo) -> ChatFormat | None:
    """The chat format; None without a chat template. Raises `InvalidModelFile`."""
    if not _chats(info):
        return None
    with _finder() as child:
        return _format_in(path, info, child)


def abilities(info: ModelInfo, format: ChatFormat | None, reads: Collection[MediaKind] = ()) -> list[Capability]:
    """The model's capabilities, as /v1/models lists them once it is loaded; none if it only guesses for another."""
    if info.draft_head is not None:
        return []
    thinks = format is not None and format.thinking != "never"
    return capabilities(
        generates=info.causal,
        chats=format is not None,
        thinks=thinks,
        ranks=info.pooling == "rank" and not info.causal,
        reads=reads,
    )


def as_json(format: ChatFormat) -> dict[str, Any]:
    """The `chat_format` of /v1/models."""
    found: dict[str, Any] = {"name": format.name, "origin": format.origin, "thinking": format.thinking}
    found |= {"reasoning_effort": format.efforts, "tools": "template" if format.shows_tools else "system_message"}
    return found | ({"note": format.note} if format.note else {})


def rows(format: ChatFormat) -> list[tuple[str, str]]:
    """The rows of `show`."""
    origin = {
        "known": f"{format.name}: known, and checked against its template",
        "found": f"{format.name}: derived from its template",
        "generic": f"generic: {format.note or UNKNOWN}",
    }[format.origin]
    thinking = {
        "never": "never, judging by its template",
        "always": "always",
        "switchable": "can be turned on and off",
    }[format.thinking]
    effort = "; supports reasoning_effort" if format.efforts else ""
    tools = "rendered by its template" if format.shows_tools else "described in the system message, not by its template"
    return [("format", origin), ("thinking", thinking + effort), ("tools", tools)]


def in_generic_format(names: Sequence[str], data_dir: Path) -> dict[str, str]:
    """The models with the generic format or with an error -> the reason."""
    found: dict[str, str] = {}
    with _finder() as child:
        for name in names:
            try:
                format = _format_of_name(name, data_dir, child)
            except LocalLLMError as error:
                found[name] = error.message
                continue
            if format is not None and format.origin == "generic":
                found[name] = format.note or UNKNOWN
    return found


def _format_of_name(name: str, data_dir: Path, child: TemplateChild) -> ChatFormat | None:
    from localllm.registry.header_reading import read_info
    from localllm.registry.resolve import resolve

    file = resolve(name, data_dir)
    try:
        info = read_info(file)
        return _format_in(file.path, info, child) if _chats(info) else None
    finally:
        file.release()


def _chats(info: ModelInfo) -> bool:
    return info.causal and "default" in info.chat_templates


def _format_in(path: Path, info: ModelInfo, child: TemplateChild) -> ChatFormat:
    from localllm.gguf import read_header, special_texts

    special = special_texts(read_header(path))
    return child.format_of_model(info.chat_templates, special.bos, special.eos)


@contextlib.contextmanager
def _finder() -> Iterator[TemplateChild]:
    """A child process that renders templates within limits."""
    from localllm.worker.prompts.template_child import TemplateChild

    child = TemplateChild()
    try:
        yield child
    finally:
        child.close()
