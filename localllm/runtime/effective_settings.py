"""The effective settings of one model, with their sources. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.settings.load_settings import LOADING
from localllm.settings.sections import DECLARED, SAMPLING, is_pattern, title

LISTS = tuple(key for key, field in DECLARED.items() if field.kind == "list")


class EffectiveValue(NamedTuple):
    """An effective value and its source."""

    key: str
    value: Any
    source: str
    is_own: bool = False
    """Whether the model's own section sets it, not a pattern."""


def shown(settings: Settings, id: str, model: str) -> list[EffectiveValue]:
    """The model's effective settings: all that affect loading, and any others that have been set."""
    own, effective = settings.sections().of(id), settings.for_model(id)
    rows = []
    for key in (*LOADING, "keep_alive"):
        field = field_of(key)
        source, is_own = settings.source(field) or "default", False
        if key in own and not settings.is_given(field):
            source, is_own = title(own[key].section), own[key].section == id
        rows.append(EffectiveValue(key, getattr(effective, field), source, is_own))
    below = of_manifest(settings, model)
    if rows[0].value is None and "ctx" in below:
        rows[0] = EffectiveValue("ctx", below["ctx"], "the model's manifest")
    for key in ("aliases", "system", *SAMPLING):
        if key in own:
            rows.append(EffectiveValue(key, own[key].value, title(own[key].section), own[key].section == id))
        elif key in below:
            rows.append(EffectiveValue(key, below[key], "the model's manifest"))
    return rows


def field_of(key: str) -> str:
    """The setting for all models that corresponds to this key of a section."""
    return "model_keep_alive_s" if key == "keep_alive" else key


def defaults(settings: Settings, id: str, model: str) -> dict[str, Any]:
    """The effective values without the model's own section; None if the model's file decides."""
    patterns, below = settings.sections().below(id), of_manifest(settings, model)
    found = {key: getattr(settings, field_of(key)) for key in (*LOADING, "keep_alive")}
    found = {key: below.get(key) if value is None else value for key, value in found.items()}
    found |= {key: below.get(key) for key in ("aliases", "system", *SAMPLING)}
    return found | {
        key: each.value for key, each in patterns.items() if key not in found or not settings.is_given(field_of(key))
    }


def section_name(settings: Settings, model: str) -> str:
    """The name of a model's section: its id, or the pattern itself."""
    if is_pattern(model):
        return model
    from localllm.registry.adapters.names import composed
    from localllm.registry.listing import store_of
    from localllm.registry.names.model_names import Demo, parse
    from localllm.registry.resolve import canonical, find, model_id

    if not is_name(model):
        return model_id(Path(model))
    parts = composed(model) if "+" in model else None
    name = parse(model if parts is None else parts[0])
    manifest = None if isinstance(name, Demo) else find(name, store_of(settings.data_dir))
    return str(canonical(name)) if manifest is None else manifest.name


def of_manifest(settings: Settings, model: str) -> dict[str, Any]:
    """The settings in the model's manifest."""
    from localllm.registry.listing import store_of
    from localllm.registry.names.model_names import Demo, parse
    from localllm.registry.resolve import find

    if not is_name(model) or isinstance(name := parse(model), Demo):
        return {}
    manifest = find(name, store_of(settings.data_dir))
    if manifest is None:
        return {}
    own = {"ctx": manifest.ctx, "system": manifest.system, "stop": list(manifest.stop) or None}
    values = {**msgspec.to_builtins(manifest.params), **own}
    return {key: value for key, value in values.items() if value is not None}


def is_name(model: str) -> bool:
    """Whether the text is a model's name, not a path."""
    from localllm.registry.adapters.names import composed
    from localllm.registry.names.model_names import PathName, parse

    parts = composed(model) if "+" in model else None
    try:
        return not isinstance(parse(model if parts is None else parts[0]), PathName)
    except InvalidParameter:
        return False  # perhaps a file; loading it reports what is wrong
