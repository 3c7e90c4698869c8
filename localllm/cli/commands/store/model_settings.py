"""`localllm set`: shows a model's settings and where they come from, and changes them in `config.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.cli.shared import report
from localllm.cli.shared.model_names import is_here, section_name
from localllm.errors import InvalidParameter
from localllm.runtime.changed_settings import change_file, check_key, typed_value
from localllm.runtime.effective_settings import EffectiveValue, shown
from localllm.settings import config
from localllm.settings.config import MODELS, Settings
from localllm.settings.sections import is_pattern, title


def set_model(settings: Settings, model: str, pairs: Sequence[str], *, as_json: bool) -> int:
    """Apply the given changes, then show the settings. Raises `InvalidParameter`."""
    model = settings.sections().model_named(model)
    name = section_name(settings, model)
    path = config.config_file(settings.home)
    changes = dict(_change(pair) for pair in pairs)
    if changes:
        change_file(path, name, changes, str(path))
        if not is_pattern(name) and not is_here(model, settings):
            report.say(f"localllm: {name} is not on this machine yet; the settings apply once it is")
    rows = [] if is_pattern(name) else shown(settings, name, model)
    if is_pattern(name):
        own = next((each for each in config.model_sections(_tables(path), path) if each.name == name), None)
        rows = [EffectiveValue(key, value, str(path)) for key, value in ({} if own is None else own.values).items()]
    if as_json:
        values = {row.key: {"value": row.value, "source": row.source} for row in rows}
        report.write_json(msgspec.json.encode({"model": name, "file": str(path), "settings": values}))
        return report.OK
    if not rows:
        report.say(f"localllm: no settings in {title(name)} of {path}")
    texts = [(row.key, _text(row.value), row.source) for row in rows]
    widths = [max((len(text[column]) for text in texts), default=0) for column in (0, 1)]
    report.write(*(f"{key:{widths[0]}}  {value:{widths[1]}}  {source}" for key, value, source in texts))
    return report.OK


def own_rows(settings: Settings, id: str) -> list[tuple[str, str]]:
    """For `show`: the model's settings in `config.toml`."""
    own = settings.sections().of(id)
    return [(f"set {key}", f"{_text(each.value)}  {title(each.section)}") for key, each in own.items()]


def _change(pair: str) -> tuple[str, Any]:
    """A key and its new value in the file; None removes it. Raises `InvalidParameter`."""
    key, equals, text = pair.partition("=")
    key = key.strip().replace("-", "_")
    if not equals:
        raise InvalidParameter(f"{pair!r} is not KEY=VALUE, such as ctx=32768; KEY= removes a key", param="pairs")
    check_key(key)
    if key in ("chat_template", "mmproj") and text and Path(text).is_file():
        return key, str(Path(text).absolute())
    return key, None if text == "" else typed_value(key, text, "localllm set")


def _tables(path: Path) -> Any:
    from localllm.settings.values import read_toml

    return read_toml(path).get(MODELS, {})


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value).replace("\n", "\\n")
