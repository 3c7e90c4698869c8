"""What came of a call: a text for a model. Needs no SDK, as everybody has to do with it."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """Of one call."""

    text: str
    is_error: bool = False
