"""What is typed plainly (a text, a number, a word of a choice, the path of a file), read without pydantic.

Typer builds a pydantic adapter for each option of a command, given or not: a quarter of a second of a start
(benchmarks/log/interfaces.md#starting). What is not given needs none, nor does a plain value; all else, errors too, is
left to typer. Knows no option.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, get_args

from typer import _click
from typer._coercion import RuntimeParam, build_runtime_param
from typer.core import TyperArgument, TyperOption, _TyperParameter

_PLAIN: Final = {int: re.compile(r"-?\d{1,9}", re.ASCII), float: re.compile(r"-?\d{1,9}(\.\d{1,9})?", re.ASCII)}


class Plainly(_click.core.Command):
    """A command whose options and arguments read their plain values by themselves."""

    def get_params(self, ctx: _click.Context) -> list[_click.core.Parameter]:
        """All of them, `--help` included."""
        params = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperArgument | TyperOption) and param._runtime_param is None:
                param._runtime_param = _Plain(param.type_descriptor.parameter_info, param.type_descriptor.annotation)
        return params


class _Plain(RuntimeParam):
    """A value that only looks right to typer is typer's: words in other case, unreadable paths, numbers such as
    `1_000`."""

    def _coerce_value(self, value: Any, param: _TyperParameter, ctx: _click.Context) -> Any:
        kind: Any = self.annotation
        is_text = isinstance(value, str)
        if type(value) is kind and kind in (str, int, float):  # what is no text is a default
            return value
        if (
            get_args(kind) == (str,)
            and isinstance(value, list | tuple)
            and all(isinstance(each, str) for each in value)
        ):
            return list(value)
        if is_text and value in (param.type_descriptor.choices or ()):
            return value
        if is_text and kind is Path and (os.access(value, os.R_OK) or not os.path.lexists(value)):
            return Path(value)
        plain = _PLAIN.get(kind)
        if plain and is_text and plain.fullmatch(value):
            number, limits = kind(value), param.type_descriptor.parameter_info
            if (limits.min is None or number >= limits.min) and (limits.max is None or number <= limits.max):
                return number
        return build_runtime_param(param.type_descriptor).coerce(value, param, ctx)
