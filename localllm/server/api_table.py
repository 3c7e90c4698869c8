"""`API.md`: every endpoint, and of every field whether it is honoured, refused by name or ignored, and why.

Written from what requests are decoded with: `python -m localllm.server.api_table > localllm/API.md`. A test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from localllm.server.app import routes
from localllm.server.common.sampling import SamplingFields
from localllm.server.common.structures import StructureFields
from localllm.server.embeddings.requests import WorkFields
from localllm.server.fields import Fates, fates_of, honoured
from localllm.server.llamacpp.completion_requests import AnswerFields as CompletionFields
from localllm.server.ollama.fields import AnswerFields, CommonFields
from localllm.server.openai.requests import CommonRequest
from localllm.server.operations import OPERATIONS, Operation

_SHARED: dict[type[msgspec.Struct], str] = {
    SamplingFields: "Sampling, scheduling and caching",
    StructureFields: "Structure",
    CommonRequest: "Both of OpenAI's",
    WorkFields: "Texts to embed or rank",
    CommonFields: "Ollama's, of every model",
    AnswerFields: "Ollama's answers",
    CompletionFields: "llama-server's completions",
}
"""Fields of several requests, which are listed once."""
MAX_PLACES = 2
"""That are named of a declaration which holds in several."""
_TITLES = {
    "app": "This document's machine-readable form",
    "watch": "Watching",
}
"""Of what is no package of its own; a package says itself what it is."""
_INTRODUCTION = """\
# Every endpoint and field

Written by `python -m localllm.server.api_table`, and compared with what is served by a test.

- **Honoured** fields are listed with their endpoint; groups of them that several share, in italics, once at the end.
- **Refused** fields would change the answer, and nothing here does what they ask for: an error names them (400). `null`
  and the values behind a name ask for nothing, and are fine.
- **Ignored** fields have no effect here, for the reason given.
- Any other field is ignored as well. The header `x-localllm-ignored` names it; with `--strict` it is an error.
- `x-localllm-placement` says why fewer of a model's layers are on GPUs than there would be if it were alone there.

`/openapi.json` has the types.
"""


def document() -> str:
    """The whole page."""
    by_room: dict[str, list[Operation]] = {}
    rooms = {route.path.replace(":path", ""): _room(route.endpoint.__module__) for route in routes()}
    for operation in OPERATIONS:
        by_room.setdefault(rooms[operation.path], []).append(operation)
    sections = [_section(_title(room), operations) for room, operations in by_room.items()]
    return "\n".join([_INTRODUCTION, *sections, _shared()])


def _room(module: str) -> str:
    return module.removeprefix("localllm.server.").partition(".")[0]


def _title(room: str) -> str:
    doc = sys.modules[f"localllm.server.{room}"].__doc__ or ""
    return _TITLES.get(room) or doc.strip().partition("\n")[0].partition(":")[0].rstrip(".")


def _section(title: str, operations: list[Operation]) -> str:
    told: dict[Any, str] = {}
    lines = [f"## {title}", "", "| endpoint | what it does | honoured |", "|---|---|---|"]
    for operation in operations:
        query = "?" + "&".join(f"{one.name}=" for one in operation.query) if operation.query else ""
        kind = operation.request
        fields = "" if kind is None else told.get(kind) or ", ".join(_own(kind))
        told.setdefault(kind, f"as `{operation.path}`")
        lines.append(f"| `{operation.method.upper()} {operation.path}{query}` | {operation.summary} | {fields} |")
    lines += [*_fates(operations), ""]
    return "\n".join(lines)


def _own(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Its honoured fields but for those that are shared, which are named as a group."""
    groups = [base for base in _SHARED if issubclass(kind, base)]
    # Of a group within another, the larger one says it.
    groups = [one for one in groups if not any(one is not two and issubclass(two, one) for two in groups)]
    shared = {name for group in groups for name in group.__struct_encode_fields__}
    yield from (_field(kind, name) for name in honoured(kind) if name not in shared)
    yield from (f"*{_SHARED[group]}*" for group in groups)


def _field(kind: type[msgspec.Struct], name: str) -> str:
    """With the fields of the objects in it."""
    within: dict[str, None] = {}
    for nested in _nested(kind).get(name, ()):
        within |= dict.fromkeys(honoured(nested))
    return f"`{name}`" + (f" ({', '.join(f'`{each}`' for each in within)})" if within else "")


def _nested(kind: type[msgspec.Struct]) -> dict[str, list[type[msgspec.Struct]]]:
    """Field -> the Structs that its value is, or is made of."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: [*_structs(field.type)] for field in info.fields}


def _structs(info: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(info, inspect.Metadata):
        yield from _structs(info.type)
    elif isinstance(info, inspect.StructType):
        yield info.cls
    elif isinstance(info, inspect.UnionType):
        for each in info.types:
            yield from _structs(each)
    elif isinstance(info, inspect.ListType):
        yield from _structs(info.item_type)


class _Row(NamedTuple):
    """A field that is not honoured; `within` are the objects in which it stands."""

    fate: str
    why: str
    within: tuple[str, ...]
    name: str


def _fates(operations: list[Operation]) -> Iterator[str]:
    """A table of what is not honoured: fields that differ in their names alone are one row."""
    asked = {operation.path: operation.request for operation in operations if operation.request is not None}
    paths: dict[_Row, list[str]] = {}
    for path, kind in asked.items():
        for row in _rows(kind):
            paths.setdefault(row, []).append(f"`{path}`")
    names: dict[tuple[str, str, str, str], list[str]] = {}
    for row, of in paths.items():
        where = "" if len(of) == len(asked) else f" of {', '.join(of)}"
        within = ", ".join(f"`{path}`" for path in row.within)
        names.setdefault((row.fate, row.why, f" in {within}" if within else "", where), []).append(row.name)
    if names:
        yield from ("", "| field | | why |", "|---|---|---|")
    for (fate, why, within, where), fields in sorted(names.items(), key=lambda row: (row[0][0], row[0][2], row[1])):
        yield f"| {', '.join(fields)}{within}{where} | {fate} | {why} |"


def _rows(kind: type[msgspec.Struct]) -> Iterator[_Row]:
    """Of a request and of the objects in it; those of one declaration once, with the places where it stands."""
    places: list[tuple[Fates, list[str]]] = []
    level = [("", kind)]
    while level:
        for path, each in level:
            fates = fates_of(each)
            known = next((paths for one, paths in places if one is fates), None)
            if known is None:
                places.append((fates, [path]))
            elif len(known) < MAX_PLACES and not any(path.endswith(f".{other}") for other in known):
                known.append(path)
        level = [
            (f"{path}.{name}".lstrip("."), inner)
            for path, each in level
            for name, all in _nested(each).items()
            for inner in dict.fromkeys(all)
        ]
    for fates, paths in places:
        within = tuple(filter(None, paths))
        for name, refused in fates.refused.items():
            fine = ", ".join(f"`{msgspec.json.encode(value).decode()}`" for value in refused.neutral)
            yield _Row("refused", refused.why, within, f"`{name}`" + (f" ({fine})" if fine else ""))
        for name, why in fates.ignored.items():
            yield _Row("ignored", why, within, f"`{name}`")


def _shared() -> str:
    lines = ["## Shared fields", "", "| group | honoured |", "|---|---|"]
    for group, name in _SHARED.items():
        lines.append(f"| {name} | {', '.join(_group(group))} |")
    return "\n".join([*lines, ""])


def _group(group: type[msgspec.Struct]) -> Iterator[str]:
    inner = [base for base in _SHARED if base is not group and issubclass(group, base)]
    known = {name for base in inner for name in base.__struct_encode_fields__}
    yield from (_field(group, name) for name in honoured(group) if name not in known)
    yield from (f"*{_SHARED[base]}*" for base in inner if not any(b is not base and issubclass(b, base) for b in inner))


if __name__ == "__main__":
    sys.stdout.write(document())
