"""Text from elsewhere, made safe to print: names, messages, answers. Knows no stream and no terminal.

A terminal obeys control characters: `ESC ]` renames its window or fills the clipboard, the C1 characters are the same
commands in one character, and bidirectional overrides show `exe.txt` for `txt.exe`. Whatever files, registries and
servers say passes through here before it is printed; `cli/report.py` does that for all commands.
"""

from __future__ import annotations

import json

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SEPARATORS = (0x2028, 0x2029)
"""Line ends to some programs and nothing to others."""
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Embeddings, overrides and isolates: they reorder the text after them. The marks of Arabic and Hebrew stay."""
_TAGS = range(0xE0000, 0xE0080)
"""Invisible ASCII."""

_ORDERS = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*_CONTROLS, *_SEPARATORS, *_BIDI, *_TAGS) if chr(code) not in "\t\n"
}
_UNSEEN = dict.fromkeys((173, 6158, 8203, *range(8288, 8293), 65279), "�")
"""Without width, so that two names look the same. In running text they are harmless; joiners stay, for emoji."""
_IN_JSON = {code: json.dumps(chr(code))[1:-1] for code in _ORDERS if code >= 0x7F}
_IN_JSON[0x7F] = "\\u007f"


def printable(text: str) -> str:
    """The text with a replacement character for each that a terminal would obey; tabs and line ends stay."""
    return text.translate(_ORDERS)


def one_line(text: str) -> str:
    """`printable`, with spaces for tabs and line ends, and nothing that has no width: for a cell of a table, a name."""
    return printable(text.replace("\n", " ").replace("\t", " ")).translate(_UNSEEN)


def printable_json(document: str) -> str:
    """The same JSON document, with such characters escaped: it decodes to what it did."""
    return document.translate(_IN_JSON)
