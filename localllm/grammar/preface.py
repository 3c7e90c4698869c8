"""The thought that may stand before a document, as a grammar in front of the document's."""

from __future__ import annotations

from typing import Any

from localllm.structures import Preface


def with_preface(grammars: list[dict[str, Any]], preface: Preface) -> list[dict[str, Any]]:
    """The grammars (the first is named `document`) with one before them that reads the thought, then `@document`."""
    raise NotImplementedError(f"a thought before a document ({preface.thought.closing})")
