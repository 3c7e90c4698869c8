"""Changes the settings of one model in `config.toml`, atomically and without losing concurrent changes."""

from __future__ import annotations

import contextlib
import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, clipped
from localllm.runtime.effective_settings import LISTS, is_name
from localllm.runtime.toml_table import changed
from localllm.settings import config
from localllm.settings.config import MODELS
from localllm.settings.durations import keep_alive_seconds
from localllm.settings.sections import DECLARED, KEYS
from localllm.settings.values import converted


def check_key(key: str) -> None:
    """Raises `InvalidParameter` for an unknown setting."""
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known settings: {', '.join(KEYS)}"
        raise InvalidParameter(f"unknown setting {clipped(key)!r}; {hint}", param=clipped(key))


def typed_value(key: str, text: str, source: str) -> Any:
    """Converts a typed value to the type it has in the file. Raises `InvalidParameter` that begins with `source`."""
    if key in LISTS:
        try:
            found = msgspec.json.decode(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
        except msgspec.DecodeError as error:
            raise InvalidParameter(f"{key}: {text!r} is not a JSON list ({error})", param=key) from error
        return [int(item) if key == "stop_token_ids" and str(item).isdecimal() else item for item in found]
    if key == "keep_alive":
        keep_alive_seconds(text)
        with contextlib.suppress(ValueError):
            return float(text)
        return text
    value = converted(key, DECLARED[key].type, text, source)
    if value is None:
        raise InvalidParameter(f"{key}={text} has no value; {key}= removes the key", param=key)
    if isinstance(value, float) and math.isnan(value):
        raise InvalidParameter(f"{source}: {text!r} is not a valid {key} (it takes a number)", param=key)
    return value


def check_from_network(key: str, value: Any) -> None:
    """Raises `InvalidParameter` for a value that would let a client name other machines or local files."""
    who = DECLARED[key].setting.who
    is_file = who == "names" and isinstance(value, str) and _is_file(key, value)
    if who == "machine" or is_file:
        what = f"a file as {key}" if is_file else key
        raise InvalidParameter(f"{what} can only be set on the server's machine, with localllm set", param=key)


def change_file(path: Path, name: str, changes: Mapping[str, Any], shown: str) -> bool:
    """Sets keys of the model's section (None removes a key); returns whether the file changed.

    `shown`: the file's name in errors. Raises `InvalidParameter`.
    """
    from localllm.system.files import write_whole

    target = path.resolve()  # users keep such files elsewhere and link to them
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"{shown} cannot be written: {_reason(error)}") from error
    with _locked(target, shown):
        try:
            before = target.read_bytes().decode("utf-8") if target.exists() else ""
            mode = target.stat().st_mode if target.exists() else None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"{shown} cannot be read: {_reason(error)}") from error
        try:
            after = changed(before, MODELS, name, changes)
        except tomllib.TOMLDecodeError as error:
            raise InvalidParameter(f"{shown} cannot be read: {error}; correct it in an editor") from error
        sections = tomllib.loads(after.removeprefix("\ufeff").replace("\r\n", "\n")).get(MODELS, {})
        config.model_sections(sections, Path(shown))
        try:
            if after != before:
                write_whole(target, after.encode("utf-8", "strict"))
                if mode is not None:
                    target.chmod(mode)
        except (OSError, UnicodeEncodeError) as error:
            raise InvalidParameter(f"{shown} cannot be written: {_reason(error)}") from error
    return after != before


@contextlib.contextmanager
def _locked(target: Path, shown: str) -> Iterator[None]:
    """Excludes concurrent changes, so that none is lost."""
    from localllm.registry.disk.locks import try_lock

    try:
        lock = try_lock(target.with_name(f"{target.name}.lock"), exclusive=True)
    except OSError as error:
        raise InvalidParameter(f"{shown} cannot be written: its lock: {_reason(error)}") from error
    if lock is None:
        raise InvalidParameter(f"another process is writing {shown}; try again")
    try:
        yield
    finally:
        lock.release(remove=True)


def _is_file(key: str, value: str) -> bool:
    """Whether the value names a file, which need not exist: of a draft model, or else of a chat template."""
    if key == "draft":
        return value != "auto" and not is_name(value)
    from localllm.registry.making.templates import NAMED

    return value not in NAMED and "{{" not in value and "{%" not in value


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
