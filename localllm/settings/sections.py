"""Settings for single models in `config.toml`: `[models."qwen3:0.6b"]`, or a pattern such as `[models."qwen3:*"]`.

If several sections match a model, each key is taken from the most specific one: its own id, then the longest pattern.
Knows neither the other settings nor how a model is loaded.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.settings import routes
from localllm.settings.durations import keep_alive_seconds
from localllm.settings.load_settings import LOADING, LoadSettings
from localllm.settings.routes import Route
from localllm.settings.values import converted
from localllm.system.loop_turns import LoopTurn
from localllm.types import ModelDefaults, SamplingParams
from localllm.types.declared import Declared, Setting, declared

logger = logging.getLogger("localllm")

own = partial(Setting, group="Single models", who="clients")


class OwnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that only single models have. Their values in a file are checked here, not by these types."""

    keep_alive: Annotated[
        str,
        own(
            "How long it stays loaded without requests",
            "TIME",
            more="Seconds, or a time such as 5m; -1: until it is unloaded.",
            default="model_keep_alive_s",
        ),
    ] = ""
    aliases: Annotated[tuple[str, ...], own("Further names under which it answers", "NAMES")] = ()
    system: Annotated[str, own("System message of chats that have none", "TEXT")] = ""
    base: Annotated[
        str,
        own(
            "The model that this name is under LoRA adapters",
            "MODEL",
            who="machine",
            more="Such a section has `adapters` and nothing else but `aliases`.",
        ),
    ] = ""
    adapters: Annotated[
        tuple[str, ...],
        own("Its adapters, each NAME[:SCALE][:FIRST-LAST] of those of `base`", "NAMES", who="machine"),
    ] = ()


_NOT_SET = ("logprobs", "prompt_logprobs", "logit_bias")
"""Sampling fields that only a request may set."""
SAMPLING: Mapping[str, Declared] = {
    name: field for name, field in declared(SamplingParams).items() if name not in _NOT_SET
}
"""Sampling parameters."""
DECLARED: Mapping[str, Declared] = {
    **{name: declared(LoadSettings)[name] for name in LOADING},
    **declared(OwnSettings),
    **SAMPLING,
}
"""All settings of models, by key."""
KEYS = tuple(DECLARED)

Check = Callable[[Mapping[str, Any]], object]
"""Checks that these settings in `LOADING` are compatible; raises `InvalidParameter`."""


class Section(NamedTuple):
    """A section of the file."""

    name: str
    """An id or a pattern."""
    values: Mapping[str, Any]
    route: Route | None = None
    """What the name leads to, if it is no model's."""

    @property
    def is_pattern(self) -> bool:
        return is_pattern(self.name)


class NamedVariant(NamedTuple):
    """A name that a section makes, of a model under adapters."""

    base: str
    adapters: tuple[str, ...]
    """Each NAME or NAME:SCALE."""


class SectionValue(NamedTuple):
    """A value, and the section that sets it."""

    value: Any
    section: str


def is_pattern(name: str) -> bool:
    """Whether a section's name stands for several models."""
    return "*" in name or "?" in name


def title(name: str) -> str:
    """A section's title as in the file."""
    return f"[models.{msgspec.json.encode(name).decode()}]"


def parse(tables: Any, where: str, check: Check) -> tuple[Section, ...]:
    """Parses the table `models` of a file. Raises `InvalidParameter` that names the file, the section and the key."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidParameter(f'{where}: models contains sections such as [models."qwen3:0.6b"]', param="models")
    found = tuple(_section(name, table, where, check) for name, table in tables.items())
    routes.check_circles([section.route for section in found if section.route is not None], where)
    owners: dict[str, str] = {}
    for section in found:
        for alias in section.values.get("aliases", ()):
            if alias in owners:
                raise InvalidParameter(
                    f"{where}: {alias!r} is an alias in {title(owners[alias])} and in {title(section.name)}; "
                    "leave it in one of them",
                    param="aliases",
                )
            owners[alias] = section.name
    made = {section.name for section in found if "base" in section.values}
    for section in found:
        if section.values.get("base", "").partition("+")[0] in made:
            raise InvalidParameter(
                f"{where}, {title(section.name)}: base must be a model, not another name under adapters", param="base"
            )
    return found


def _section(name: str, table: Mapping[str, Any], where: str, check: Check) -> Section:
    if routes.is_route(table):
        return Section(name, {}, routes.parse(name, table, f"{where}, {title(name)}"))
    return Section(name, _values(name, table, where, check))


def _values(name: str, table: Mapping[str, Any], where: str, check: Check) -> dict[str, Any]:
    source = f"{where}, {title(name)}"
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(KEYS)}"
            raise InvalidParameter(f"{source} has an unknown key {key!r}; {hint}", param=key)
        values[key] = _value(name, key, value, source)
    _check_variant(name, values, source)
    try:
        check({key: value for key, value in values.items() if key in LOADING})
        sampling_of(values)
    except InvalidParameter as error:
        raise InvalidParameter(f"{source}: {error.message}", param=error.param) from error
    return values


def _check_variant(name: str, values: Mapping[str, Any], source: str) -> None:
    """Raises `InvalidParameter` for a section that makes no name of a model under adapters, although it begins to."""
    if "base" not in values and "adapters" not in values:
        return
    problem = None
    if is_pattern(name):
        problem = "a pattern cannot be a model under adapters", "base"
    elif not values.get("base", "").strip() or values["base"] == name:
        problem = "base names the model that is under these adapters", "base"
    elif not values.get("adapters"):
        problem = 'adapters names adapters of the base, such as adapters = ["style:0.8"]', "adapters"
    elif others := [key for key in values if key not in ("base", "adapters", "aliases")]:
        problem = f"a model under adapters has its base's {others[0]}; set it in {title(values['base'])}", others[0]
    if problem is not None:
        raise InvalidParameter(f"{source}: {problem[0]}", param=problem[1])


def _value(name: str, key: str, value: Any, source: str) -> Any:
    if key == "keep_alive":
        try:
            return keep_alive_seconds(converted(key, float | str, value, source))
        except InvalidParameter as error:
            raise InvalidParameter(f"{source}: {error.message}", param=key) from error
    if key == "adapters":
        return tuple(converted(key, list[str], value, source))
    if key != "aliases":
        return converted(key, DECLARED[key].type, value, source)
    aliases = converted(key, list[str], value, source)
    if is_pattern(name):
        raise InvalidParameter(f"{source}: a pattern has no aliases; give them to one model", param=key)
    for alias in aliases:
        if not alias.strip() or is_pattern(alias) or alias == name:
            raise InvalidParameter(f"{source}: {alias!r} is not a valid alias of the model (aliases)", param=key)
    return tuple(aliases)


def sampling_of(values: Mapping[str, Any]) -> SamplingParams:
    """The sampling parameters among them. Raises `InvalidParameter`."""
    return SamplingParams(**{key: value for key, value in values.items() if key in SAMPLING})


class Sections:
    """All sections of a file, reread when it has changed: changes while a server runs apply to its next loads."""

    def __init__(
        self,
        found: Sequence[Section] = (),
        path: Path | None = None,
        read: Callable[[], Sequence[Section]] = tuple,
    ) -> None:
        self._path = path
        self._read = read
        self._stamp = _stamp(path)
        self._turn = LoopTurn()
        self._use(found)

    def _use(self, found: Sequence[Section]) -> None:
        # The most specific last, so that its values win.
        self._found = sorted(found, key=lambda section: (not section.is_pattern, len(section.name)))
        self._aliases = {alias: section.name for section in found for alias in section.values.get("aliases", ())}
        self._routes = {section.name: section.route for section in found if section.route is not None}
        self._variants = {
            section.name: NamedVariant(section.values["base"], section.values["adapters"])
            for section in found
            if "base" in section.values
        }

    def __bool__(self) -> bool:
        return bool(self._found)

    def of(self, id: str) -> dict[str, SectionValue]:
        """The settings of the model with this id, by key."""
        self._refresh()
        fitting = [section for section in self._found if _fits(section, id)]
        return {key: SectionValue(value, section.name) for section in fitting for key, value in section.values.items()}

    def below(self, id: str) -> dict[str, SectionValue]:
        """The model's settings that come from patterns."""
        self._refresh()
        fitting = [section for section in self._found if section.is_pattern and _fits(section, id)]
        return {key: SectionValue(value, section.name) for section in fitting for key, value in section.values.items()}

    def model_named(self, name: str) -> str:
        """The id of the model with this alias; any other name is returned unchanged."""
        self._refresh()
        return self._aliases.get(name, name)

    def routes(self) -> dict[str, Route]:
        """The names that lead to models, by name."""
        self._refresh()
        return self._routes

    def variants(self) -> dict[str, NamedVariant]:
        """The names that sections make, of models under adapters."""
        self._refresh()
        return self._variants

    def defaults(self, id: str, below: ModelDefaults) -> ModelDefaults:
        """Defaults for requests: the settings for the model, which override the model's own.

        Raises `InvalidParameter`.
        """
        own = self.of(id)
        sampling = {key: found.value for key, found in own.items() if key in SAMPLING}
        system = own["system"].value if "system" in own else below.system
        if not sampling and system == below.system:
            return below
        params = msgspec.structs.replace(below.params, **sampling)
        return msgspec.structs.replace(below, params=params, system=system)

    def _refresh(self) -> None:
        if self._path is None or not self._turn.is_new() or (stamp := _stamp(self._path)) == self._stamp:
            return
        self._stamp = stamp
        try:
            self._use(self._read())
        except LocalLLMError as error:
            fields = {"reason": error.message, "effect": "the previous settings stay in force"}
            logger.error("models_not_reloaded", extra={"fields": fields})


def _fits(section: Section, id: str) -> bool:
    return section.name == id or (section.is_pattern and fnmatchcase(id, section.name.replace("[", "[[]")))


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    try:
        status = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)


NO_SECTIONS = Sections()
