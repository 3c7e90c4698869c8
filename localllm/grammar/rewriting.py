"""What the modules of single keywords need of the rewriter of whole schemas (`schemas.DocumentRewriter`)."""

from __future__ import annotations

from typing import Any, Protocol

Schema = dict[str, Any] | bool


class Rewriter(Protocol):
    """Rewrites the subschemas of one document. Its methods raise `InvalidParameter`."""

    @property
    def is_part(self) -> bool:
        """Whether a document must match other schemas besides the one being written."""

    def schema(self, schema: Any, path: str, base: str) -> Schema:
        """One schema and its subschemas."""

    def resolved(self, schema: Any, path: str, base: str) -> tuple[Any, str]:
        """The schema, or what it merely refers to."""
