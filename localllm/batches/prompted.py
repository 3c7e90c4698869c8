"""Requests made of plain lines or the rows of a CSV file and one prompt: `Translate: {text}`.

Knows nothing of the lines' meaning. A name in braces stands for a column; a line of plain text has one, `text`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import msgspec

from localllm.batches.lines import BatchLine, digest_of
from localllm.errors import InvalidParameter

TEXT = "text"
_FIELD = re.compile(r"\{([^{}]*)\}")


class Prompt(NamedTuple):
    """What is asked of every line."""

    template: str
    system: str | None
    fields: Mapping[str, Any]
    """More of each request's body."""

    def check(self, columns: Sequence[str]) -> None:
        """Raises `InvalidParameter` for a name that is no column, or a template without any."""
        names = _FIELD.findall(self.template)
        for name in names:
            if name not in columns:
                raise InvalidParameter(
                    f"the prompt names {{{name}}}, but the columns are {', '.join(columns)}", param="prompt"
                )
        if not names:
            example = f"{{{columns[0]}}}"
            raise InvalidParameter(f"the prompt says nowhere what differs: put {example} into it", param="prompt")

    def body(self, row: Mapping[str, str]) -> bytes:
        """The request for a row."""
        asked = _FIELD.sub(lambda match: row[match[1]], self.template)
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return msgspec.json.encode({"messages": [*system, {"role": "user", "content": asked}], **self.fields})


def text_lines(file: TextIO, prompt: Prompt) -> Iterator[BatchLine]:
    """A request for each line that is not blank. Raises `InvalidParameter`."""
    prompt.check((TEXT,))
    for number, line in enumerate(file, 1):
        if line.strip():
            yield _request(number, prompt, {TEXT: line.strip()})


def csv_lines(file: TextIO, prompt: Prompt) -> Iterator[BatchLine]:
    """A request for each row behind the header. Raises `InvalidParameter`."""
    rows = csv.DictReader(file)
    if not rows.fieldnames:
        raise InvalidParameter("the CSV file is empty; its first line names the columns", param="file")
    prompt.check(rows.fieldnames)
    for number, row in enumerate(_counted(rows), 1):
        request = _request(number, prompt, {name: row.get(name) or "" for name in rows.fieldnames})
        if None in row:
            request = request._replace(problem=f"row {number} has more values than there are columns")
        yield request


def _counted(rows: csv.DictReader[str]) -> Iterator[Mapping[str | None, str]]:
    try:
        yield from rows
    except csv.Error as error:
        raise InvalidParameter(f"line {rows.line_num} of the CSV file: {error}", param="file") from error


def _request(number: int, prompt: Prompt, row: Mapping[str, str]) -> BatchLine:
    body = prompt.body(row)
    return BatchLine(number, f"line-{number}", "/v1/chat/completions", body, digest_of(body))


def text_of(raw: bytes, name: str) -> io.StringIO:
    """The text of a file in UTF-8. Raises `InvalidParameter`."""
    try:
        return io.StringIO(raw.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{name} is not in UTF-8 (byte {error.start:,})", param="file") from error
