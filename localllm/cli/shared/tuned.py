"""Stored tunings: `localllm tune --list` and `--forget`, and the rows of other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from localllm.cli.shared import report
from localllm.errors import ModelNotFound
from localllm.planning import tuned
from localllm.planning.tuned import TuningFile, Tunings
from localllm.settings.config import Settings


def list_tunings(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """List the tunings of one model, or of all. Raises `ModelNotFound` for an unknown name."""
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
    """Forget the tunings of one model, or of all; returns 0 even without any. Raises `ModelNotFound` if unknown."""
    count = sum(map(tuned.forget, _found(settings, model)))
    subject = "every model" if model is None else model
    report.say(f"localllm: {subject} is loaded with the defaults" + ("" if count else "; nothing was tuned"))
    return report.OK


def as_object(settings: Settings, path: Path) -> list[Any]:
    """For `show --json`: the content of `rows_for`."""
    shown: list[Any] = msgspec.to_builtins(Tunings(settings.data_dir).kept(path).tunings)
    return shown


def rows_for(settings: Settings, path: Path) -> list[tuple[str, str]]:
    """For `show`: the tunings of the model in this file."""
    kept = Tunings(settings.data_dir).kept(path)
    rows = [("tuned", f"{tuning.story()}  ({tuning.place.backend})") for tuning in kept.tunings]
    return [*rows, ("tuned", tuned.damaged(kept))] if kept.damage else rows


def summary(settings: Settings) -> list[str]:
    """For `doctor`: the tuned models, and damaged records."""
    found = list(Tunings(settings.data_dir).every())
    lines = [f"{tuning.model}: {tuning.story()}" for each in found for tuning in each.tunings]
    return lines + [tuned.damaged(each) for each in found if each.damage]


def _set(base: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in base.items())


def _as_object(kept: TuningFile) -> dict[str, Any]:
    return {"file": str(kept.path), "damage": kept.damage, "tunings": msgspec.to_builtins(kept.tunings)}


def _found(settings: Settings, model: str | None) -> list[TuningFile]:
    """By content for a model on this machine, else by name. Raises `ModelNotFound`."""
    from localllm.registry.resolve import among, resolve

    tunings = Tunings(settings.data_dir)
    every = list(tunings.every())
    if model is None:
        return every
    name = settings.sections().model_named(model)
    try:
        file = resolve(name, settings.data_dir)
    except ModelNotFound:
        id = among({tuning.model for each in every for tuning in each.tunings}, name)
        found = [each for each in every if any(tuning.model == id for tuning in each.tunings)]
        if not found:
            raise
        return found
    try:
        path = tunings.file_of(file.path)
    finally:
        file.release()
    return [each for each in every if each.path == path]
