"""`localllm import`: lists models of other programs on this disk, or imports them without copying.

Knows nothing of how they are found or verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from localllm.cli.render.bars import Bar
from localllm.cli.render.units import size
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound
from localllm.settings.config import Settings

ForeignModel = Any
"""`registry.foreign.foreign_model.ForeignModel`; the registry is imported when the command runs."""
Tool = Literal["ollama", "huggingface", "lmstudio", "llama.cpp"]
How = Literal["auto", "reference", "hardlink", "reflink", "copy"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model in the output of `--json`."""

    program: str
    name: str
    """Its name in that program."""
    imported_as: str
    size_bytes: int
    quant: str | None
    num_parameters: int | None
    state: Literal["found", "imported", "here already", "unusable", "failed"]
    reason: str | None
    """Why it is unusable, or what failed."""
    notices: tuple[str, ...]
    paths: tuple[str, ...]


def import_models(
    settings: Settings,
    wanted: Sequence[str] = (),
    *,
    list_only: bool = False,
    tool: Tool | None = None,
    name: str | None = None,
    how: How = "auto",
    as_json: bool = False,
) -> int:
    """Import everything that is found, or only `wanted`: files, folders, or listed names.

    A failed one does not stop the others. Raises `InvalidParameter` and `ModelNotFound`.
    """
    from localllm.registry.listing import store_of

    models = _find(wanted, tool)
    if name is not None and len(models) != 1 and not list_only:
        raise InvalidParameter(f"--name needs exactly one model, not {len(models)}", param="name")
    store = store_of(settings.data_dir)
    if list_only:
        rows = [_row(model, name, "found") if not model.problem else _row(model, name, "unusable") for model in models]
    else:
        rows = [_import(model, store, name, how) for model in models]
    if as_json:
        report.write_json(msgspec.json.encode(rows))
    else:
        _show(rows, list_only=list_only)
    failed = any(row.state == "failed" or (row.state == "unusable" and wanted) for row in rows)
    return report.MODEL_OR_BACKEND if failed and not list_only else report.OK


def _find(wanted: Sequence[str], tool: Tool | None) -> list[ForeignModel]:
    """The selected models. Raises `ModelNotFound` for anything that is neither a path nor a known name."""
    from localllm.registry.adopt import find_foreign
    from localllm.registry.foreign.foreign_model import Root
    from localllm.registry.foreign.roots import default_roots

    paths = [text for text in wanted if Path(text).expanduser().exists()]
    names = set(wanted) - set(paths)
    roots = [Root("folder", Path(text).expanduser().absolute()) for text in paths]
    found = list(find_foreign(roots, skipped=_say_skipped))
    if names or not wanted:
        others = find_foreign([root for root in default_roots() if tool in (None, root.tool)], skipped=_say_skipped)
        found += [model for model in others if not names or names & {model.name, model.suggested_name}]
    for text in names:
        if not any(text in (model.name, model.suggested_name) for model in found):
            raise ModelNotFound(
                f"{text!r} is neither a file nor a model of another program; localllm import lists what there is",
                param="model",
            )
    return found


def _say_skipped(text: str) -> None:
    report.say(f"localllm: {text}")


def _import(model: ForeignModel, store: Any, name: str | None, how: How) -> Row:
    from localllm.registry.adopt import adopt, is_adopted

    if model.problem is not None:
        return _row(model, name, "unusable")
    done = 0

    def count(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        bar.show("verifying", done, model.size_bytes)

    try:
        if is_adopted(model, store, name):
            return _row(model, name, "here already")
        with Bar(model.name) as bar:
            manifest = adopt(model, store, name=name, how=how, on_bytes=count)
    except LocalLLMError as error:
        return msgspec.structs.replace(_row(model, name, "failed"), reason=error.message)
    return msgspec.structs.replace(_row(model, name, "imported"), imported_as=manifest.name)


def _row(
    model: ForeignModel, name: str | None, state: Literal["found", "imported", "here already", "unusable", "failed"]
) -> Row:
    return Row(
        program=model.tool,
        name=model.name,
        imported_as=name or model.suggested_name,
        size_bytes=model.size_bytes,
        quant=model.quant,
        num_parameters=model.num_parameters,
        state=state,
        reason=model.problem,
        notices=model.notices,
        paths=tuple(str(file.path) for file in model.files),
    )


def _show(rows: Sequence[Row], *, list_only: bool) -> None:
    if not rows:
        report.say("localllm: no models of other programs found; name a file or folder to search")
        return
    cells = [(row.program, row.name, size(row.size_bytes), row.quant or "", _outcome(row)) for row in rows]
    report.write_table(("PROGRAM", "MODEL", "SIZE", "QUANT", "AS" if list_only else "RESULT"), cells)
    for row in rows:
        for notice in row.notices if row.state == "imported" else ():
            report.say(f"localllm: {row.imported_as}: {notice}")
    if list_only and any(row.state == "found" for row in rows):
        report.say("localllm: localllm import --all imports them without copying; name models to import only those")


def _outcome(row: Row) -> str:
    if row.reason is not None:
        return f"{'unusable' if row.state == 'unusable' else 'failed'}: {row.reason}"
    return row.imported_as if row.state == "found" else f"{row.state}, as {row.imported_as}"
