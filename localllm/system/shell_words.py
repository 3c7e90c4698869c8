"""Words for a command line that a reader may copy: quoted where a shell would not take them as they are.

Double quotes, which the shells of every system know, wherever nothing inside means anything to one of them.
"""

from __future__ import annotations

import re
import shlex

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_MEANS_SOMETHING = re.compile(r"[\"$`!%\\^]")


def shell_word(word: object) -> str:
    """The text of `word` as one word of a command line."""
    text = str(word)
    if _PLAIN.fullmatch(text):
        return text
    return shlex.quote(text) if _MEANS_SOMETHING.search(text) else f'"{text}"'
