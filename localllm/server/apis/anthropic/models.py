"""`/v1/models` in Anthropic's format: pages of models with their limits and capabilities."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, clipped
from localllm.server.answers.catalog import Entry
from localllm.server.requests.values import exclusive

DEFAULT_LIMIT = 20
MAX_LIMIT = 1000


class Page(NamedTuple):
    """The requested page."""

    limit: int = DEFAULT_LIMIT
    after_id: str | None = None
    before_id: str | None = None


class Support(msgspec.Struct, frozen=True):
    supported: bool


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities that only Anthropic's servers have."""

    supported: bool
    code_execution: Support
    web_search: Support


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """Passed to the chat template; whether the template uses it is known once the model is loaded."""

    supported: bool
    low: Support
    medium: Support
    high: Support
    xhigh: Support
    max: Support


class ThinkingTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Accepted values of `thinking.type`, the same for all models."""

    adaptive: Support
    enabled: Support
    disabled: Support
    between_tools: Support


class ThinkingSupport(msgspec.Struct, frozen=True, kw_only=True):
    supported: bool
    types: ThinkingTypes


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities of the model as this server offers them."""

    batch: Support
    citations: Support
    code_execution: Support
    context_management: Support
    effort: Effort
    image_input: Support
    pdf_input: Support
    server_tools: ServerTools
    structured_outputs: Support
    thinking: ThinkingSupport


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One model. Models are never deprecated here."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    """When the model was added on this machine."""
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None
    """Context as loaded, otherwise as trained; None if unknown."""
    max_tokens: int | None
    """The same as the context, which prompt and answer share."""
    capabilities: Capabilities | None
    """None if its file has not been read yet."""
    line: None = None
    deprecated_at: None = None
    retires_at: None = None


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    data: list[ModelInfo]
    has_more: bool
    first_id: str | None
    last_id: str | None


def parse_page(query: Mapping[str, str]) -> Page:
    """Raises `InvalidParameter`."""
    given = query.get("limit", str(DEFAULT_LIMIT))
    limit = int(given) if given.isascii() and given.isdigit() and len(given) < 5 else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidParameter(f"limit must be a number from 1 to {MAX_LIMIT}, got {clipped(given)!r}", param="limit")
    after_id, before_id = query.get("after_id"), query.get("before_id")
    if after_id and before_id:
        raise exclusive("after_id", "before_id", param="before_id")
    return Page(limit, after_id or None, before_id or None)


def model_page(entries: Sequence[Entry], page: Page) -> ModelPage:
    """The requested page. Raises `InvalidParameter` for an unknown id."""
    ids = [entry.id for entry in entries]
    if page.before_id is not None:
        end = _index(ids, page.before_id, "before_id")
        begin = max(0, end - page.limit)
        has_more = begin > 0
    else:
        begin = 0 if page.after_id is None else _index(ids, page.after_id, "after_id") + 1
        end = min(begin + page.limit, len(ids))
        has_more = end < len(ids)
    data = [model_info(entry) for entry in entries[begin:end]]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return ModelPage(data=data, has_more=has_more, first_id=first, last_id=last)


def model_info(entry: Entry) -> ModelInfo:
    """The entry of one model."""
    info = entry.info
    limit = entry.ctx or (None if info is None else info.context_length)
    return ModelInfo(
        id=entry.id,
        display_name=entry.id if info is None or info.name is None else info.name,
        created_at=datetime.datetime.fromtimestamp(entry.created_unix_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=limit,
        max_tokens=limit,
        capabilities=_capabilities(entry),
    )


def _capabilities(entry: Entry) -> Capabilities | None:
    known = entry.capabilities
    if known is None:
        return None
    yes, no = Support(True), Support(False)
    chats = Support("chat" in known)
    reads_effort = entry.loaded is not None and entry.loaded.format.efforts
    effort = Support(reads_effort)
    types = ThinkingTypes(adaptive=yes, enabled=yes, disabled=yes, between_tools=no)
    return Capabilities(
        batch=chats,
        citations=no,
        code_execution=no,
        context_management=no,
        effort=Effort(supported=reads_effort, low=effort, medium=effort, high=effort, xhigh=effort, max=effort),
        image_input=Support("vision" in known),
        pdf_input=no,
        server_tools=ServerTools(supported=False, code_execution=no, web_search=no),
        structured_outputs=chats,
        thinking=ThinkingSupport(supported="thinking" in known, types=types),
    )


def _index(ids: Sequence[str], id: str, param: str) -> int:
    try:
        return ids.index(id)
    except ValueError:
        raise InvalidParameter(f"{param}: no model is called {clipped(id)!r} here", param=param) from None
