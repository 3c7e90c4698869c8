"""The result of a call: a text for a model, and files. Needs no SDK, since it is used everywhere."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """The result of one call."""

    text: str
    """All of it that is text; names the rest."""
    is_error: bool = False
    content: str = ""
    """All of it as JSON in MCP's shape, if it has pictures, sounds or other files, which some models read."""

    @property
    def whole(self) -> str:
        """What a model gets that may read more than text."""
        return self.content or self.text
