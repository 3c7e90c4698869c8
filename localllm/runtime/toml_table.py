"""Changes one section of a TOML file with tomlkit, which keeps comments, order and spelling of all the rest.

Knows nothing of what the section means. tomlkit is imported only here and when needed: it takes 50 ms.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from localllm.errors import InvalidParameter

if TYPE_CHECKING:
    from tomlkit.items import AbstractTable

_BOM = "\ufeff"


def changed(text: str, group: str, name: str, changes: Mapping[str, Any]) -> str:
    """The text with these keys of `[group.name]` set. None removes a key; an empty section is removed as well.

    Raises `tomllib.TOMLDecodeError`, and `InvalidParameter` if the section is written in a form that cannot be edited.
    """
    from tomlkit.exceptions import TOMLKitError

    bom, newline = text[: text.startswith(_BOM)], "\r\n" if "\r\n" in text else "\n"
    bare = text.removeprefix(_BOM).replace("\r\n", "\n")
    wanted = _merged(tomllib.loads(bare), group, name, changes)
    try:
        done = bare if wanted is None else _changed(bare, group, name, changes)
        is_done = wanted is not None and _merged(tomllib.loads(done), group, name, {}) == wanted
    except (ValueError, TOMLKitError):  # the section exists in another form, and now twice
        is_done = False
    if not is_done:
        header = header_of(group, name)
        raise InvalidParameter(
            f"the file defines {header} in a form that cannot be edited automatically; write it as a section "
            f"that starts with the line {header}, or edit it by hand"
        )
    return text if done == bare else bom + done.replace("\n", newline)


def header_of(group: str, name: str) -> str:
    """The header line of a section."""
    import tomlkit

    return tomlkit.dumps({group: {name: {}}}).strip()


def _changed(text: str, group: str, name: str, changes: Mapping[str, Any]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    section = document.get(group, {}).get(name)
    if section is not None:
        _change(section, changes)
        if not section and not any(item.as_string().strip() for _, item in section.value.body):
            del document[group][name]
            rest = document.as_string().rstrip("\n")  # without the empty line before the section
            return rest and rest + "\n"
        return document.as_string()
    new = {key: value for key, value in changes.items() if value is not None}
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return text + gap + tomlkit.dumps({group: {name: new}}) if new else text


def _change(section: AbstractTable, changes: Mapping[str, Any]) -> None:
    """Adds new keys below the last one: what follows it is about the next section."""
    below = []
    body = section.value.body
    while body and body[-1][0] is None:
        below.append(body.pop())
    for key, value in changes.items():
        if value is not None:
            section[key] = value
        elif key in section:
            section.remove(key)
    body.extend(reversed(below))


def _merged(tables: dict[str, Any], group: str, name: str, changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content of a file with the changes made, without empty sections; None if there is no place for them."""
    sections = tables.get(group, {})
    if not isinstance(sections, dict) or not isinstance(sections.get(name, {}), dict):
        return None
    values = {**sections.get(name, {}), **changes}
    kept = {key: list(each) if isinstance(each, tuple) else each for key, each in values.items() if each is not None}
    return {**tables, group: {key: each for key, each in {**sections, name: kept}.items() if each != {}}}
