"""The header `traceparent` (W3C Trace Context): which trace a request belongs to. Knows no spans."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class TraceContext(NamedTuple):
    """The trace, the caller's span in it, and whether the caller records it."""

    trace_id: str
    span_id: str
    is_sampled: bool


def trace_context(scope: Any) -> TraceContext | None:
    """What the header of an ASGI scope says; None if there is none or an invalid one, which the standard ignores."""
    found = _FORM.fullmatch(dict(scope["headers"]).get(b"traceparent", b"").strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    is_valid = version != b"ff" and (version != b"00" or more is None) and trace_id.strip(b"0") and span_id.strip(b"0")
    return TraceContext(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED)) if is_valid else None
