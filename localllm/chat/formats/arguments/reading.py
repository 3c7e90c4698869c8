"""What reads and writes the arguments of a call, whatever the format: JSON goes out, or comes in. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

LOST = "the arguments of call {index} are not valid JSON"


class Piece(NamedTuple):
    """What is new of a call's arguments."""

    json: str = ""
    """The pieces of a call together are one JSON object. The first that is not empty makes the call a call, so it comes
    only when the arguments look like some.
    """
    rest: str | None = None
    """Once the arguments are over: what came behind them, unread. No more is fed then."""
    is_broken: bool = False
    """They are over since they cannot be read; the rest begins where that was seen."""


class ArgumentsReader(Protocol):
    """The arguments of one call: `feed` them as they come, until there is a rest; `flush` if the answer ends before.

    The sum is the same however they are cut into pieces, and all pieces together take linear time.
    """

    def feed(self, text: str) -> Piece:
        """What is known so far."""
        ...

    def flush(self) -> Piece:
        """The answer ended. If the arguments are whole but for a literal behind them, their JSON is closed, and the
        rest is what was held back and is none of them (maybe nothing). Else the JSON stays open, and the rest is None.
        """
        ...
