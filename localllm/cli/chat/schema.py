"""`--schema FILE` and `--json`: the response format of a request. Knows neither models nor the terminal."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, RequestError
from localllm.system import files
from localllm.types import MAX_SOURCE_BYTES, Delta

PARAM = "response_format"


class DocumentFormat(NamedTuple):
    """`file`: the file of the schema; None: any JSON object."""

    response_format: dict[str, Any]
    file: Path | None = None

    def blaming_file(self, deltas: Generator[Delta]) -> Generator[Delta]:
        """The same deltas; errors about the schema name its file."""
        try:
            yield from deltas
        except RequestError as error:
            if self.file is None or not (error.param or "").startswith(PARAM):
                raise
            raise error.renamed(f"{self.file}: {error.message}", error.param or PARAM) from error


def document_format(schema: Path | None, *, as_json: bool) -> DocumentFormat | None:
    """None if neither option was given. Raises `InvalidParameter` if the file is unusable."""
    if schema is None:
        return DocumentFormat({"type": "json_object"}) if as_json else None
    if as_json:
        raise InvalidParameter("--schema and --json cannot be combined: --schema implies JSON", param="schema")
    if str(schema) == "-":
        raise InvalidParameter("--schema takes a file; stdin is for the prompt", param="schema")
    wrapped = {"type": "json_schema", "json_schema": {"name": "document", "schema": _read(schema)}}
    return DocumentFormat(wrapped, schema)


def _read(path: Path) -> msgspec.Raw:
    """The schema verbatim: the order of its properties is the order in the document."""
    data = files.bounded_bytes(path, MAX_SOURCE_BYTES, param="schema")
    data = data.removeprefix(b"\xef\xbb\xbf")  # the byte order mark of some editors
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"{path} is not JSON: {error}", param="schema") from error
    if not isinstance(found, dict | bool):
        raise InvalidParameter(f"{path} is not a JSON Schema: it has to be an object", param="schema")
    return msgspec.Raw(data)
