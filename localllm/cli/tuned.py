"""What tunings there are, and forgetting them: `localllm tune --list` and `--forget`, and what other commands show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from localllm.cli import report
from localllm.errors import ModelNotFound
from localllm.settings.config import Settings
from localllm.tuning import results as tuned
from localllm.tuning.results import Kept, Tunings


def list_tunings(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """What was found for a model, or for all. Raises `ModelNotFound` for a name that nobody knows."""
    found = _found(settings, model)
    if as_json:
        report.write_json(msgspec.json.encode([_as_object(each) for each in found]))
        return report.OK
    rows = [
        (tuning.model, tuning.story(), tuning.place.backend, _set(tuning.base))
        for each in found
        for tuning in each.tunings
    ]
    report.write_table(("MODEL", "TUNED", "BACKEND", "WITH"), rows)
    for each in found:
        if each.damage:
            report.say(f"localllm: {tuned.damaged(each)}")
    return report.OK


def forget(settings: Settings, model: str | None) -> int:
    """Returns 0 though nothing was known. Raises `ModelNotFound` for a name that nobody knows."""
    count = sum(map(tuned.forget, _found(settings, model)))
    whose = "every model is" if model is None else f"{model} is"
    report.say(f"localllm: {whose} loaded as by default" + ("" if count else "; there was nothing to forget"))
    return report.OK


def as_object(settings: Settings, path: Path) -> list[Any]:
    """For `show --json`: the same as `rows_for`."""
    shown: list[Any] = msgspec.to_builtins(Tunings(settings.data_dir).kept(path).tunings)
    return shown


def rows_for(settings: Settings, path: Path) -> list[tuple[str, str]]:
    """For `show`: what was found for the model in this file."""
    kept = Tunings(settings.data_dir).kept(path)
    rows = [("tuned", f"{tuning.story()}  ({tuning.place.backend})") for tuning in kept.tunings]
    return [*rows, ("tuned", tuned.damaged(kept))] if kept.damage else rows


def summary(settings: Settings) -> list[str]:
    """For `doctor`: which models are tuned, and what is damaged."""
    found = list(Tunings(settings.data_dir).every())
    lines = [f"{tuning.model}: {tuning.story()}" for each in found for tuning in each.tunings]
    return lines + [tuned.damaged(each) for each in found if each.damage]


def _set(base: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in base.items())


def _as_object(kept: Kept) -> dict[str, Any]:
    return {"file": str(kept.path), "damage": kept.damage, "tunings": msgspec.to_builtins(kept.tunings)}


def _found(settings: Settings, model: str | None) -> list[Kept]:
    """Of a model that is here by its content, of one that is not by its name. Raises `ModelNotFound`."""
    from localllm.registry.names import parse
    from localllm.registry.resolve import canonical, resolve

    tunings = Tunings(settings.data_dir)
    every = list(tunings.every())
    if model is None:
        return every
    name = settings.sections().model_named(model)
    try:
        file = resolve(name, settings.data_dir)
    except ModelNotFound:
        names = {name, str(canonical(parse(name)))}
        found = [each for each in every if any(tuning.model in names for tuning in each.tunings)]
        if not found:
            raise
        return found
    try:
        path = tunings.file_of(file.path)
    finally:
        file.release()
    return [each for each in every if each.path == path]
