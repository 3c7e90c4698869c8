"""The result of a call: a text for a model. Needs no SDK, since it is used everywhere."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """The result of one call."""

    text: str
    is_error: bool = False
