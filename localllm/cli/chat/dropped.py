"""Finds paths of pictures, sounds and documents in a line that was typed, or onto which files were dropped.

    '/home/ada/My Photos/a.png' what is this?          what is this?
    file:///home/ada/My%20Photos/a.png what is this?   what is this?
    compare a.png with b.png                           compare a.png with b.png

Terminals quote or escape what is dropped as a shell would. A file of plain text, which people also name without sending
it, is taken only from the beginning of a line and by its whole path, as terminals write it. Knows no conversation.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from localllm.chat.media_files import is_text
from localllm.cli.chat.media_look import is_media
from localllm.types.conversation import HEAD_BYTES

_QUOTED = r"""'[^']*'(?:\\''[^']*')*|"[^"]*\""""
_WORD = re.compile(rf"(?<!\S)(?:(?:{_QUOTED})(?=\s|$|[?!.,;:)])|(?:\\.|\S)+)")
_AFTER = "?!.,;:)"


class Dropped(NamedTuple):
    """The line's files, and what it says."""

    paths: tuple[str, ...]
    text: str
    """Without paths at its beginning; in a sentence, a file's name stands for its path."""


def find(line: str) -> Dropped:
    """A line with a leading space, and text of several lines, such as a pasted log, has none."""
    if line[:1].isspace() or "\n" in line.strip():
        return Dropped((), line)
    paths: list[str] = []
    kept: list[str] = []
    at = 0
    for match in _WORD.finditer(line):
        path, length = _media_path(
            match[0], is_first=not "".join(kept).strip() and not line[at : match.start()].strip()
        )
        if path is None:
            continue
        paths.append(str(path))
        end = match.start() + length
        is_first = not "".join(kept).strip() and not line[at : match.start()].strip()
        is_alone = end == len(line) or line[end].isspace()
        kept += [line[at : match.start()], "" if is_first and is_alone else path.name]
        at = end
    return Dropped(tuple(paths), "".join([*kept, line[at:]]).strip() if paths else line)


def first_word(line: str) -> tuple[str, str]:
    """The line's first word as a path may be written there, and the rest."""
    match = _WORD.match(line.strip())
    if match is None:
        return "", line
    *_, word = _spellings(match[0])  # with escapes, if it has any
    return word, line.strip()[match.end() :].strip()


def media_file(text: str, *, takes_text: bool = False) -> Path | None:
    """The file that a word names, if it exists and is a picture, sound or document. `takes_text`: also one of plain
    text whose whole path it is."""
    for name in _spellings(text):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # RuntimeError: no home for ~USER
            path = Path(name).expanduser()
            if path.is_file():
                with path.open("rb") as file:
                    head = file.read(HEAD_BYTES)
                    if is_media(head) or (takes_text and path.is_absolute() and head and is_text(head)):
                        return path
    return None


def _media_path(word: str, *, is_first: bool) -> tuple[Path | None, int]:
    """With the number of characters that name it."""
    if not any(char in word for char in "./\\"):
        return None, 0
    bare = word.rstrip(_AFTER)
    for each in (word, bare) if bare != word else (word,):
        if (path := media_file(each, takes_text=is_first)) is not None:
            return path, len(each)
    return None, 0


def _spellings(text: str) -> Iterator[str]:
    """What it may mean, the likeliest first: quoted, an address of a file, as it stands, with escapes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        yield text[1:-1].replace("'\\''", "'") if text[0] == "'" else text[1:-1]
        return
    if text.lower().startswith("file://"):
        parts = urlsplit(text)
        if parts.netloc in ("", "localhost"):
            yield url2pathname(parts.path)
        return
    yield text
    if "\\" in text:
        yield re.sub(r"\\(.)", r"\1", text)
