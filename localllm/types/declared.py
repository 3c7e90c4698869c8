"""What is declared of a setting besides its name, type and default: text, unit, range, group, and who may set it.

A setting is one field of a struct: `name: Annotated[type, Setting(...)] = default`. The command line, the environment,
`config.toml`, `localllm set`, the page's form and `docs/settings.md` are made from these fields. Knows no setting.
"""

from __future__ import annotations

import types
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from localllm.types.ranges import check_range

Group = Literal[
    "Address", "Access", "Model", "Sampling", "Single models", "CPU and GPU", "Speed", "Memory", "Pictures and sound",
    "Several models", "Requests", "Structured answers", "Files and batches", "Responses and MCP", "Downloads",
    "Program",
]  # fmt: skip
"""In the order of help pages and of the reference."""
GROUPS: tuple[Group, ...] = get_args(Group)
Who = Literal["clients", "names", "machine", "environment"]
"""`clients`: anyone who may manage models, also over HTTP. `names`: the same, but a client may not name a file.
`machine`: only on the server's machine. `environment`: there too, and not on the command line, where others see it."""
Kind = Literal["boolean", "integer", "number", "text", "list", "choice"]

MAX_COUNT = 2**31 - 1
MAX_BYTES = 2**40
MAX_MB = 10**7
MAX_SECONDS = 10 * 365 * 86400
"""Upper bounds of settings that need no other: far beyond any sensible value, and safe to compute with."""
_UNBOUNDED = (MAX_COUNT, MAX_BYTES, MAX_MB, MAX_SECONDS)


class Setting(msgspec.Struct, frozen=True):
    """One setting's declaration."""

    text: str
    """One line for help pages, which add the default."""
    unit: str = ""
    """The value's name in help pages; choices need none."""
    low: float | None = None
    high: float | None = None
    """The range of numbers, both ends included."""
    default: str = ""
    """The default in words, where the value does not say it."""
    more: str = ""
    """Further sentences for the reference and the page."""
    group: Group = "Program"
    who: Who = "machine"
    affects_speed: bool = True
    """Whether a result of `localllm tune` depends on it (settings for loading only)."""
    several: bool = False
    """Whether its text has several parts, separated by commas. Such an option may be given more than once."""


class Declared(NamedTuple):
    """A field with its `Setting`."""

    name: str
    type: Any
    """Without `Annotated`."""
    value: Any
    """The default."""
    setting: Setting

    @property
    def option(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def kind(self) -> Kind:
        """The kind of value that it takes. `gpu_layers`, a number or a word, is text."""
        only = _only(self.type)
        if get_origin(only) is tuple:
            return "list"
        names: dict[Any, Kind] = {bool: "boolean", int: "integer", float: "number"}
        return "choice" if self.choices else names.get(only, "text")

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be; empty if it is no choice."""
        return choices_of(self.type)

    @property
    def unit(self) -> str:
        """What help pages write for its value."""
        return self.setting.unit or "|".join(self.choices)

    @property
    def is_path(self) -> bool:
        return _only(self.type) is Path

    @property
    def default(self) -> str:
        """The default as help pages write it; empty if there is nothing to say."""
        if self.setting.default or self.value is None or self.value is False or self.value in ("", ()):
            return self.setting.default
        if isinstance(self.value, float):
            return f"{self.value:g}"
        return self.name.replace("_", "-") if self.value is True else str(self.value)

    @property
    def range(self) -> str:
        """`0 to 65535`; empty if it is no number."""
        low, high = self.setting.low, self.setting.high
        return "" if low is None else f"{low} or more" if high in _UNBOUNDED else f"{low} to {high}"

    def check(self, value: Any) -> None:
        """Raises `InvalidParameter` for a number out of range."""
        is_word = isinstance(value, str) and self.kind == "text"
        if self.setting.low is not None and self.setting.high is not None and not is_word:
            check_range(self.name, value, self.setting.low, self.setting.high)


@cache
def declared(struct: type[msgspec.Struct]) -> dict[str, Declared]:
    """The settings among the struct's fields, by name, in their order."""
    found = {}
    for field in msgspec.structs.fields(struct):
        if get_origin(field.type) is Annotated:
            plain, *notes = get_args(field.type)
            for setting in (note for note in notes if isinstance(note, Setting)):
                found[field.name] = Declared(field.name, plain, field.default, setting)
    return found


def check_ranges(struct: msgspec.Struct) -> None:
    """Raises `InvalidParameter` for the first number that is out of its setting's range."""
    for field in _with_ranges(type(struct)):
        field.check(getattr(struct, field.name))


@cache
def _with_ranges(struct: type[msgspec.Struct]) -> tuple[Declared, ...]:
    return tuple(field for field in declared(struct).values() if field.setting.low is not None)


def choices_of(given: Any) -> tuple[str, ...]:
    """The words that a type allows, if it is a choice."""
    only = _only(given)
    return tuple(map(str, get_args(only))) if get_origin(only) is Literal else ()


def _only(given: Any) -> Any:
    """The type without None; `str` for a union of several."""
    is_union = get_origin(given) in (Union, types.UnionType)
    found = [each for each in (get_args(given) if is_union else (given,)) if each is not type(None)]
    return found[0] if len(found) == 1 else str
