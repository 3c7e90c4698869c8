"""A command's help page: arguments and options in groups, in words. Knows no command and no setting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperOption

from localllm.cli.plain_values import Plainly

if TYPE_CHECKING:
    from typer import _click

OWN = "Options"
"""The group of options that are no settings."""


class Page(Plainly, TyperCommand):
    """A command with such a page; a group is an option's `rich_help_panel`."""

    left_out: frozenset[str] = frozenset()
    """Options that only `--help-all` lists."""

    def collect_usage_pieces(self, ctx: _click.Context) -> list[str]:
        """`[OPTIONS] MODEL [PROMPT]`."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        names = [_name(each) if each.required else f"[{_name(each)}]" for each in arguments]
        return [self.options_metavar or "", *names]

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        """All arguments, then the groups of options in the order of their first option."""
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {OWN: []}
        for param in self.get_params(ctx):
            if isinstance(param, TyperArgument):
                arguments.append((_name(param), _described(param)))
            elif isinstance(param, TyperOption) and param.name not in self.left_out:
                groups.setdefault(param.rich_help_panel or OWN, []).append((_names(param), _described(param)))
        for title, rows in {"Arguments": arguments, **groups}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _name(argument: TyperArgument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _names(option: TyperOption) -> str:
    """`-f, --file FILE`."""
    names = ", ".join(sorted(option.opts, key=len)) + "".join(f" / {each}" for each in option.secondary_opts)
    return names if option.is_flag else f"{names} {option.metavar or ''}".rstrip()


def _described(param: TyperArgument | TyperOption) -> str:
    default = _default(param)
    return f"{param.help or ''} [default: {default}]".lstrip() if default else param.help or ""


def _default(param: TyperArgument | TyperOption) -> str:
    """The default in words; empty if it says nothing."""
    value: Any = param.default
    if not param.show_default or value is None or value is False:
        return ""
    if isinstance(param, TyperOption) and param.is_flag:
        return param.opts[0].removeprefix("--")
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int | str | Path) else ""
