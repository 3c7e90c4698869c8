"""`--schema FILE` and `--json`: what an answer has to be, as it is sent. Knows neither models nor the terminal."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, RequestError
from localllm.types import MAX_SOURCE_BYTES, Delta

PARAM = "response_format"


class DocumentFormat(NamedTuple):
    """`file`: where the schema is from; None: any JSON object will do."""

    response_format: dict[str, Any]
    file: Path | None = None

    def named(self, deltas: Generator[Delta]) -> Generator[Delta]:
        """The same; what is refused of the schema is refused by the name of its file."""
        try:
            yield from deltas
        except RequestError as error:
            if self.file is None or not (error.param or "").startswith(PARAM):
                raise
            raise error.renamed(f"{self.file}: {error.message}", error.param or PARAM) from error


def document_format(schema: Path | None, *, as_json: bool) -> DocumentFormat | None:
    """None where neither was given. Raises `InvalidParameter`, which says what is wrong with the file."""
    if schema is None:
        return DocumentFormat({"type": "json_object"}) if as_json else None
    if as_json:
        raise InvalidParameter("give --schema or --json: a document of a schema is JSON anyway", param="schema")
    if str(schema) == "-":
        raise InvalidParameter("--schema takes a file, since stdin is for the prompt", param="schema")
    wrapped = {"type": "json_schema", "json_schema": {"name": "document", "schema": _read(schema)}}
    return DocumentFormat(wrapped, schema)


def _read(path: Path) -> msgspec.Raw:
    """As it stands in the file: the order of its properties is that of the document's."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read: {error.strerror or error}", param="schema") from error
    if len(data) > MAX_SOURCE_BYTES:
        raise InvalidParameter(f"{path} is longer than {MAX_SOURCE_BYTES} bytes, the most of a schema", param="schema")
    data = data.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with that mark
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON: {error}", param="schema") from error
    if not isinstance(found, dict | bool):
        raise InvalidParameter(f"{path} is JSON, but no JSON Schema: that is an object", param="schema")
    return msgspec.Raw(data)
