"""What is said of a schema that is accepted: keywords and formats that are not enforced.

The notes are those of the reply's header, `what: path`. Knows nothing of how keywords are enforced.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.grammar.schema.shortest import Outline


class Concessions(NamedTuple):
    """What a further try gives up, since llguidance did not take the whole schema."""

    dropped: tuple[str, ...] = ()
    """Paths of keywords that are left out."""
    without_formats: bool = False
    """Leaves out each `format` beside a `pattern`: llguidance cannot examine both together."""
    narrows: bool = False
    """Of too many combinations of alternatives, some are never taken."""
    empty_definitions: tuple[str, ...] = ()
    """Names of rewritten definitions that no document matches."""


NONE = Concessions()


class Notes:
    """Of one structure."""

    def __init__(self, *, is_loose: bool = False, concessions: Concessions = NONE, is_checked: bool = False) -> None:
        """`is_loose`: keywords that cannot be enforced are left out. `is_checked`: documents are checked while they are
        written, so that `uniqueItems` is only marked."""
        self.is_loose = is_loose
        self.is_checked = is_checked
        self.concessions = concessions
        self.left_out: dict[str, None] = {}
        """Paths of keywords that were left out, in order."""
        self.checks = ""
        """What documents are checked for (see `checks`)."""
        self.outline = Outline()
        """Of the shortest documents."""
        self.annotations: dict[str, str] = {}
        """Notes on keywords and formats that JSON Schema tells to ignore."""

    def leave_out(self, path: str) -> None:
        """Note a keyword that is not enforced."""
        self.left_out[path] = None

    def add(self, what: str, note: str) -> None:
        """Note something; of the same thing, only the first place."""
        self.annotations.setdefault(what, note)

    def never(self, path: str) -> None:
        """Note a schema that no document matches: what has it is never written."""
        self.add(f"never {path}", f"never-valid: {path}")

    @property
    def all(self) -> list[str]:
        return [*self.annotations.values(), *(f"keyword-not-enforced: {path}" for path in self.left_out)]
