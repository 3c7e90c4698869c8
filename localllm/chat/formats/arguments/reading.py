"""Interface for reading and writing the arguments of a call in any format, from and to JSON. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

LOST = "the arguments of call {index} are not valid JSON"


class Piece(NamedTuple):
    """New parts of a call's arguments."""

    json: str = ""
    """The pieces of a call together are one JSON object. The first one that is not empty makes it a call, so it comes
    only once the arguments look like arguments."""
    rest: str | None = None
    """Set once the arguments have ended: what followed them, unread. Nothing more is fed then."""
    is_broken: bool = False
    """The arguments end because they cannot be read; `rest` begins where that was noticed."""


class ArgumentsReader(Protocol):
    """The arguments of one call: `feed` them as they arrive, until there is a rest; `flush` if the answer ends before.

    The sum is the same however they are cut into pieces, and all pieces together take linear time.
    """

    def feed(self, text: str) -> Piece:
        """What is known so far."""
        ...

    def flush(self) -> Piece:
        """The answer has ended. If the arguments are complete except for a literal after them, their JSON is closed,
        and the rest is what was held back and does not belong to them (possibly nothing). Else the JSON stays open, and
        the rest is None."""
        ...
