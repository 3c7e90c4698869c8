"""Makes untrusted text safe to print: names, messages, answers. Knows no stream and no terminal.

Terminals obey control characters: `ESC ]` renames the window or fills the clipboard, C1 characters are the same
commands in one character, and bidirectional overrides show `exe.txt` for `txt.exe`. All text from files, registries and
servers passes through here before it is printed; `cli/shared/report.py` does that for all commands.
"""

from __future__ import annotations

import json

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SEPARATORS = (0x2028, 0x2029)
"""Line separators for some programs only."""
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Embeddings, overrides and isolates, which reorder the text after them. The marks for Arabic and Hebrew are kept."""
_TAGS = range(0xE0000, 0xE0080)
"""Invisible ASCII."""

_ORDERS = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*_CONTROLS, *_SEPARATORS, *_BIDI, *_TAGS) if chr(code) not in "\t\n"
}
_UNSEEN = dict.fromkeys((173, 6158, 8203, *range(8288, 8293), 65279), "�")
"""Zero-width characters, with which two names can look the same. Harmless in running text; joiners are kept, for
emoji."""
_IN_JSON = {code: json.dumps(chr(code))[1:-1] for code in _ORDERS if code >= 0x7F}
_IN_JSON[0x7F] = "\\u007f"


def printable(text: str) -> str:
    """Replace the characters that a terminal would obey; tabs and line ends are kept."""
    return text.translate(_ORDERS)


def one_line(text: str) -> str:
    """`printable` for names and table cells: spaces for tabs and line ends, and no zero-width characters."""
    return printable(text.replace("\n", " ").replace("\t", " ")).translate(_UNSEEN)


def printable_json(document: str) -> str:
    """Escape such characters in a JSON document; it decodes to the same value."""
    return document.translate(_IN_JSON)
