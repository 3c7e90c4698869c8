"""What is described of an operation. Knows none of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from localllm.types.wire import ErrorBody


class Query(NamedTuple):
    """A parameter of the query string."""

    name: str
    schema: dict[str, Any]
    required: bool = False


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    summary: str
    request: Any = None
    response: Any = None
    """None: text, or only events if there is a `chunk`; several: depending on the request's headers."""
    chunk: Any = None
    """The type of a stream's events, with `stream: true`."""
    needs_key: bool = True
    query: tuple[Query, ...] = ()
    needs_body: bool = True
    """Set if there is a `request`."""
    error: Any = ErrorBody
    """Several: depending on the request's fields."""
    text_type: str = "text/plain"
    """Media type of a response without a type."""
    is_form: bool = False
    """Whether the request is a multipart form, with a `file`."""
    is_empty: bool = False
    """Whether the response has no body."""


PAGE_QUERY = tuple(
    Query(name, {"type": kind}) for name, kind in (("limit", "string"), ("after_id", "string"), ("before_id", "string"))
)
"""Anthropic's paging; OpenAI's list of models has no pages."""
