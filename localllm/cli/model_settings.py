"""`localllm set`: shows a model's settings and where they come from, and changes them in `config.toml`."""

from __future__ import annotations

import contextlib
import difflib
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.cli import report
from localllm.cli.model_names import is_here, is_name, section_name
from localllm.cli.toml_table import changed
from localllm.errors import InvalidParameter
from localllm.settings import config
from localllm.settings.config import MODELS, Settings
from localllm.settings.load_settings import LOADING
from localllm.settings.sections import KEYS, SAMPLING, is_pattern, title
from localllm.settings.values import converted

LISTS = ("aliases", "stop", "stop_token_ids", "dry_sequence_breakers")


class Shown(NamedTuple):
    """A setting that applies to a model, and where it comes from."""

    key: str
    value: Any
    source: str


def set_model(settings: Settings, model: str, pairs: Sequence[str], *, as_json: bool) -> int:
    """Apply the given changes, then show the settings. Raises `InvalidParameter`."""
    model = settings.sections().model_named(model)
    name = section_name(settings, model)
    path = config.config_file(settings.home)
    changes = dict(_change(pair) for pair in pairs)
    if changes:
        _change_file(path, name, changes)
        if not is_pattern(name) and not is_here(model, settings):
            report.say(f"localllm: {name} is not on this machine yet; the settings apply once it is")
    rows = [] if is_pattern(name) else shown(settings, name, model)
    if is_pattern(name):
        own = next((each for each in config.model_sections(_tables(path), path) if each.name == name), None)
        rows = [Shown(key, value, str(path)) for key, value in ({} if own is None else own.values).items()]
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


def shown(settings: Settings, id: str, model: str) -> list[Shown]:
    """Every setting that can differ per model, with its value for this one."""
    own, effective = settings.sections().of(id), settings.for_model(id)
    rows = []
    for key in (*LOADING, "keep_alive"):
        field = "model_keep_alive_s" if key == "keep_alive" else key
        source = settings.source(field) or "default"
        if key in own and not settings.is_given(field):
            source = title(own[key].section)
        rows.append(Shown(key, getattr(effective, field), source))
    manifest = _manifest_values(settings, model)
    if rows[0].value is None and "ctx" in manifest:
        rows[0] = Shown("ctx", manifest["ctx"], "the model's manifest")
    for key in ("aliases", "system", *SAMPLING):
        if key in own:
            rows.append(Shown(key, own[key].value, title(own[key].section)))
        elif key in manifest:
            rows.append(Shown(key, manifest[key], "the model's manifest"))
    return rows


def own_rows(settings: Settings, id: str) -> list[tuple[str, str]]:
    """For `show`: the model's settings in `config.toml`."""
    own = settings.sections().of(id)
    return [(f"set {key}", f"{_text(each.value)}  {title(each.section)}") for key, each in own.items()]


def _manifest_values(settings: Settings, model: str) -> dict[str, Any]:
    from localllm.registry.listing import store_of
    from localllm.registry.names import Demo, parse
    from localllm.registry.resolve import find

    if not is_name(model) or isinstance(name := parse(model), Demo):
        return {}
    manifest = find(name, store_of(settings.data_dir))
    if manifest is None:
        return {}
    own = {"ctx": manifest.ctx, "system": manifest.system, "stop": list(manifest.stop) or None}
    values = {**msgspec.to_builtins(manifest.params), **own}
    return {key: value for key, value in values.items() if value is not None}


def _change(pair: str) -> tuple[str, Any]:
    """A key and its new value in the file; None removes it. Raises `InvalidParameter`."""
    key, equals, text = pair.partition("=")
    key = key.strip().replace("-", "_")
    if not equals:
        raise InvalidParameter(f"{pair!r} is not KEY=VALUE, such as ctx=32768; KEY= removes a key", param="pairs")
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known settings: {', '.join(KEYS)}"
        raise InvalidParameter(f"unknown setting {key!r}; {hint}", param=key)
    return key, None if text == "" else _value(key, text)


def _value(key: str, text: str) -> Any:
    if key in LISTS:
        try:
            found = msgspec.json.decode(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
        except msgspec.DecodeError as error:
            raise InvalidParameter(f"{key}: {text!r} is not a JSON list ({error})", param=key) from error
        return [int(item) if key == "stop_token_ids" and str(item).isdecimal() else item for item in found]
    if key == "keep_alive":
        with contextlib.suppress(ValueError):
            return float(text)
        return text
    if key == "chat_template" and Path(text).is_file():
        return str(Path(text).absolute())
    kind = {**SAMPLING, **config.kinds(), "system": str}[key]
    value = converted(key, kind, text, "localllm set")
    if value is None:
        raise InvalidParameter(f"{key}={text} has no value; {key}= removes the key", param=key)
    return value


def _change_file(path: Path, name: str, changes: dict[str, Any]) -> None:
    from localllm.registry.disk.files import write_whole

    target = path.resolve()  # the file may be a link into a dotfiles repository
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        try:
            before = target.read_bytes().decode("utf-8") if target.exists() else ""
            mode = target.stat().st_mode if target.exists() else None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"{path} cannot be read: {error}") from error
        after = changed(before, (MODELS, name), changes)
        config.model_sections(tomllib.loads(after.replace("\r\n", "\n")).get(MODELS, {}), path)
        try:
            if after != before:
                write_whole(target, after.encode("utf-8", "strict"))
                if mode is not None:
                    target.chmod(mode)
        except (OSError, UnicodeEncodeError) as error:
            raise InvalidParameter(f"{path} cannot be written: {error}") from error


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Concurrent commands do not lose each other's changes."""
    from localllm.registry.disk.locks import try_lock

    lock = try_lock(target.with_name(f"{target.name}.lock"), exclusive=True)
    if lock is None:
        raise InvalidParameter(f"another command is writing {target}; try again")
    try:
        yield
    finally:
        lock.release(remove=True)


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
