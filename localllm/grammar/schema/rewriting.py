"""The interface of the rewriter of whole schemas (`schemas.DocumentRewriter`) for the modules of single keywords."""

from __future__ import annotations

from typing import Any, Protocol

Schema = dict[str, Any] | bool


class Rewriter(Protocol):
    """Rewrites the subschemas of one document. Its methods raise `InvalidParameter`."""

    @property
    def is_part(self) -> bool:
        """Whether a document must also match other schemas than the one being rewritten."""

    @property
    def names_are_distinct(self) -> bool:
        """Whether documents are checked for names that come twice in an object."""

    def schema(self, schema: Any, path: str, base: str) -> Schema:
        """Rewrite a schema and its subschemas."""

    def resolved(self, schema: Any, path: str, base: str) -> tuple[Any, str]:
        """The schema, or what it merely refers to."""
