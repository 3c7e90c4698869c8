"""Options made from the declarations of settings. A command names the settings that it takes: `@takes("ctx slots")`.

Settings are read when a command is built, not at startup, where `--help` has no time for them. An option that is not
given is None. Knows no command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Context, Exit, Option

if TYPE_CHECKING:
    from localllm.types.declared import Declared

Command = Callable[..., None]
ALL = "*"
"""Stands for every setting that may be given on the command line."""
COMMON = "home verbose"
"""What nearly every command takes."""


class Taken(NamedTuple):
    """The settings that a command takes."""

    names: tuple[str, ...]
    """On its help page."""
    more: tuple[str, ...]
    """Listed by `--help-all` only."""


TAKEN: dict[Command, Taken] = {}


def takes(names: str, more: str = "") -> Callable[[Command], Command]:
    """Give the decorated command options for these settings (names with blanks between), passed on as `**settings`.

    Its help page leaves those in `more` to `--help-all`.
    """

    def mark(command: Command) -> Command:
        TAKEN[command] = Taken(tuple(names.split()), tuple(more.split()))
        return command

    return mark


def as_arguments(given: Mapping[str, Any]) -> list[str]:
    """The given options, as arguments for a child process."""
    arguments: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments.append(f"{option}={value}")
    return arguments


def with_options(command: Command) -> Command:
    """The command with its settings as parameters, from which typer makes options."""
    if command not in TAKEN:
        return command
    names, more = expanded(TAKEN[command])
    table = declarations()
    own = [each for each in _parameters(command) if each.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = [field for name, field in table.items() if name in (*names, *more)]
    made = [_parameter(field) for field in taken]
    joined = {field.name for field in taken if field.setting.several}  # not options of the command's own
    if "n_cpu_moe" in (*names, *more):
        made.append(_CPU_MOE)
    if more:
        made.append(_HELP_ALL)

    def run(**given: Any) -> None:
        given.pop(_HELP_ALL.name, None)
        if given.pop(_CPU_MOE.name, None):
            given["n_cpu_moe"] = "all"
        for name in joined & given.keys():
            given[name] = ",".join(given[name]) if given[name] else None
        command(**given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def expanded(taken: Taken) -> Taken:
    """The names, where `ALL` stands for those that are not named."""
    if ALL not in taken.more:
        return taken
    from localllm.settings.config import SETTINGS

    return taken._replace(
        more=tuple(
            name for name, field in SETTINGS.items() if name not in taken.names and field.setting.who != "environment"
        )
    )


def declarations() -> dict[str, Declared]:
    """Settings and sampling parameters, by group."""
    from localllm.settings.config import SETTINGS
    from localllm.settings.sections import SAMPLING
    from localllm.types.declared import GROUPS

    found = {**SETTINGS, **SAMPLING}
    return dict(sorted(found.items(), key=lambda item: GROUPS.index(item[1].setting.group)))


def _parameters(command: Command) -> Iterable[inspect.Parameter]:
    return inspect.signature(command, eval_str=True).parameters.values()


def _parameter(field: Declared) -> inspect.Parameter:
    kind: Any = {"boolean": bool, "integer": int, "number": float}.get(field.kind, Path if field.is_path else str)
    kind = list[str] if field.setting.several else kind
    option = field.option
    if field.kind == "boolean" and field.value is not False:
        option += f"/--no{option[1:]}"
    shown = f"{field.setting.text} [default: {field.default}]" if field.default else field.setting.text
    unit = None if field.kind == "boolean" else field.unit
    made = Option(option, metavar=unit, help=shown, rich_help_panel=field.setting.group)
    return _keyword(field.name, Annotated[kind | None, made], None)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _show_all(context: Context, value: bool) -> None:
    if value and not context.resilient_parsing:
        from localllm.cli.help_page import Page
        from localllm.cli.shared import report

        command = context.command
        assert isinstance(command, Page)
        command.left_out = frozenset()
        report.write(context.get_help())
        raise Exit


_CPU_MOE = _keyword(
    "cpu_moe",
    Annotated[bool, Option("--cpu-moe", help="The same as --n-cpu-moe all", rich_help_panel="CPU and GPU")],
    False,
)
"""llama.cpp's name."""
_HELP_ALL = _keyword(
    "help_all",
    Annotated[
        bool,
        Option("--help-all", is_eager=True, expose_value=False, callback=_show_all, help="Show all options and exit."),
    ],
    False,
)
