"""Text that users give in bytes: piped, typed or on the command line. Finds its encoding, and says what it cannot read.

Knows no command.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localllm.cli.shared import report
from localllm.errors import InvalidParameter
from localllm.system.files import bounded_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""UTF-32's mark begins with UTF-16's."""
_HEAD_BYTES = 4096
MAX_SYSTEM_BYTES = 4 * 1024 * 1024
"""Of a system message; no context takes more."""
REPLACEMENT = "\ufffd"


def system_text(text: str | None, file: Path) -> str:
    """The system message in a file. `text`: one that was given beside it. Raises `InvalidParameter`."""
    if text is not None:
        raise InvalidParameter("--system and --system-file exclude each other; leave one of them out", param="system")
    return decoded(bounded_bytes(file, MAX_SYSTEM_BYTES, param="system_file"), str(file)).rstrip("\r\n")


def decoded(data: bytes, source: str) -> str:
    """The text: UTF-8, or UTF-16 as PowerShell pipes it; a line on stderr says if bytes had to be replaced."""
    mark, encoding = _encoding(data)
    return _read(data[len(mark) :], encoding, source)


def decoded_lines(file: io.BufferedReader[Any], source: str) -> Iterator[str]:
    """As `decoded`, line by line as they arrive, without line ends."""
    mark, encoding = _encoding(file.peek(_HEAD_BYTES)[:_HEAD_BYTES])
    file.read(len(mark))
    lines = io.TextIOWrapper(file, encoding, "replace", "\n")
    has_said = False
    try:
        for number, line in enumerate(lines, 1):
            if REPLACEMENT in line and not has_said:
                has_said = True
                report.say(
                    f"localllm: line {number:,} of {source} is not valid {encoding.upper()}; what cannot be read is "
                    "replaced"
                )
            yield line.rstrip("\r\n")
    finally:
        lines.detach()


def _encoding(head: bytes) -> tuple[bytes, str]:
    """The mark at the beginning, if any, and the encoding."""
    marked = next((each for each in _MARKS if head.startswith(each[0])), None)
    return marked or (b"", _without_mark(head))


def typed(text: str) -> str:
    """Text in which bytes that are not UTF-8 stand as surrogates, which nothing can encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return decoded(text.encode("utf-8", "surrogateescape"), "the line")
    return text


def _without_mark(data: bytes) -> str:
    """UTF-16 without a mark has a zero byte in nearly every Latin character; UTF-8 text has none."""
    head = data[:_HEAD_BYTES]
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if zeros and zeros.count(0) * 2 > len(zeros):
            return encoding
    return "utf-8"


def _read(data: bytes, encoding: str, source: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        report.say(
            f"localllm: {source} is not valid {encoding.upper()} from byte {error.start:,} on; what cannot be read "
            "is replaced"
        )
        return data.decode(encoding, "replace")
