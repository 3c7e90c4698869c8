"""Multipart forms: a file in memory and the other fields as JSON, which is parsed like any request.

Knows no endpoint's fields, except that the file's is called `file`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

import msgspec
from msgspec import inspect
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.server.edge.sse import ClientGone
from localllm.server.errors import TooLarge, UnsupportedMediaType
from localllm.server.requests.body import pieces

FILE = "file"
MAX_FIELDS = 100
_MULTIPART = "multipart/form-data"
_ENDS_LIST = "[]"


class Form(NamedTuple):
    """A parsed form."""

    fields: bytes
    """JSON object."""
    file: bytes


class _InMemory(MultiPartParser):
    spool_max_size = 2**40
    """Bodies are counted and bounded in memory; a temporary file would be neither."""


async def read_form(request: Request, kind: type[msgspec.Struct], *, max_file_bytes: int, max_field_bytes: int) -> Form:
    """The file, and the fields as JSON for `kind`: their names may end in `[]`.

    Raises `InvalidParameter`, `TooLarge`, `UnsupportedMediaType`, `ClientGone`.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _MULTIPART:
        raise UnsupportedMediaType(f"the body must be sent as {_MULTIPART}, with the sound as `{FILE}`")
    parser = _InMemory(
        request.headers,
        _bounded(request, max_file_bytes + max_field_bytes, max_file_bytes),
        max_files=1,
        max_fields=MAX_FIELDS,
        max_part_size=max_field_bytes,
    )
    try:
        form = await parser.parse()
    except _Ended as ended:
        raise ended.reason from None
    except MultiPartException as error:
        raise InvalidParameter(f"the form is broken: {error.message}") from None
    try:
        file = form.get(FILE)
        if not isinstance(file, UploadFile):
            raise InvalidParameter(f"{FILE} is missing: send the sound as a file of the form", param=FILE)
        data = await file.read()
    finally:
        await form.close()
    if len(data) > max_file_bytes:
        raise TooLarge(f"{FILE} has {len(data)} bytes; at most {max_file_bytes} are read (max_media_bytes)")
    texts = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    return Form(msgspec.json.encode(_values(texts, kind)), data)


class _Ended(MultiPartException):
    """The body ended early: the parser closes its files for its own errors only."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


async def _bounded(request: Request, most: int, max_file_bytes: int) -> AsyncGenerator[bytes, None]:
    received = 0
    try:
        async for chunk in pieces(request):
            received += len(chunk)
            if received > most:
                raise TooLarge(
                    f"the form is larger than {most} bytes; {FILE} may have {max_file_bytes} (max_media_bytes)"
                )
            yield chunk
    except (LocalLLMError, ClientGone) as error:
        raise _Ended(error) from error


def _values(texts: list[tuple[str, str]], kind: type[msgspec.Struct]) -> dict[str, object]:
    """Numbers and booleans for fields that take no text; lists for repeated fields and names in `[]`."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    takes = {field.encode_name: {*_types(field.type)} for field in info.fields}
    made: dict[str, object] = {}
    for given, text in texts:
        name = given.removesuffix(_ENDS_LIST)
        value = text if inspect.StrType in takes.get(name, {inspect.StrType}) else _decoded(text)
        is_whole = isinstance(value, list | dict)  # written as JSON
        if given != name or (inspect.ListType in takes.get(name, ()) and not is_whole):
            listed = made.setdefault(name, [])
            assert isinstance(listed, list)
            listed.append(value)
        elif text or inspect.StrType in takes.get(name, ()):
            made[name] = value  # an empty number is one that was left out
    return made


def _types(info: inspect.Type) -> list[type[inspect.Type]]:
    if isinstance(info, inspect.Metadata):
        return _types(info.type)
    if isinstance(info, inspect.UnionType):
        return [kind for each in info.types for kind in _types(each)]
    if isinstance(info, inspect.ListType):
        return [inspect.ListType, *_types(info.item_type)]
    if isinstance(info, inspect.LiteralType):
        return [inspect.StrType]
    return [type(info)]


def _decoded(text: str) -> object:
    """As Python's and JavaScript's clients write booleans; a text stays one, and is refused as such."""
    try:
        return msgspec.json.decode(text.strip().lower() if text.strip().lower() in ("true", "false", "null") else text)
    except msgspec.DecodeError:
        return text
