"""The interface of readers that convert the arguments of a call to JSON. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

LOST = "the arguments of call {index} are not valid JSON"


class Piece(NamedTuple):
    """New parts of a call's arguments."""

    json: str = ""
    """The pieces of a call together are one JSON object. The first nonempty one makes the text a call, so it comes only
    when the text looks like arguments."""
    rest: str | None = None
    """Set once the arguments have ended: the unread text after them. Then nothing more is fed."""
    is_broken: bool = False
    """Whether the arguments end because they are malformed; `rest` then begins where that was noticed."""


class ArgumentsReader(Protocol):
    """Reads the arguments of one call: `feed` text until there is a rest; `flush` if the answer ends before.

    The sum does not depend on how the text is cut into pieces. All pieces together take linear time.
    """

    def feed(self, text: str) -> Piece:
        """Read more text."""
        ...

    def flush(self) -> Piece:
        """Finish at the end of the answer.

        If only a literal after the arguments is missing, the JSON is closed, and the rest is the text held back that
        does not belong to them. Otherwise the JSON stays open, and the rest is None.
        """
        ...
