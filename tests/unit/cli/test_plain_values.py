"""Values typed on the command line: the short way reads what typer's pydantic adapters read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from typer import Argument, Option
from typer._click.exceptions import ClickException
from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo

from localllm.cli.help_page import Page

GIVEN: list[dict[str, Any]] = []


def _command(
    model: str,
    prompt: Annotated[list[str] | None, Argument()] = None,
    slots: int | None = None,
    port: Annotated[int, Option(min=0, max=65535)] = 8080,
    temperature: float | None = None,
    name: Annotated[list[str] | None, Option()] = None,
    quiet: bool = False,
    how: Literal["copy", "hardlink"] | None = None,
    file: Path | None = None,
    top: int = 7,
    share: float = 0.5,
) -> None:
    GIVEN.append(locals())


def _read(cls: type[TyperCommand], arguments: list[str]) -> dict[str, Any] | str:
    GIVEN.clear()
    command = get_command_from_info(
        CommandInfo(name="try", callback=_command, cls=cls), pretty_exceptions_short=True, rich_markup_mode=None
    )
    try:
        command.main(arguments, standalone_mode=False)
    except ClickException as error:
        return error.format_message()
    return GIVEN[0]


TEXTS = st.one_of(
    st.from_regex(r"\A[-+]?[0-9_]{0,12}(\.[0-9]{0,3})?(e[0-9])?\Z"),
    st.sampled_from(["", "nan", "inf", " 4", "4.0", "٤", "0x4", "copy", "Copy", "cop", ".", "/", "no/such", __file__]),
)

OPTIONS = ["slots", "port", "temperature", "name", "how", "file"]


@settings(max_examples=40)
@given(TEXTS, st.sampled_from(OPTIONS), st.lists(st.text(max_size=4), max_size=2))
def test_every_value_is_read_as_typer_reads_it(value: str, option: str, prompt: list[str]) -> None:
    arguments = [f"--{option}={value}", "--", "demo", *prompt]
    assert repr(_read(Page, arguments)) == repr(_read(TyperCommand, arguments))


def test_plain_values_import_no_pydantic() -> None:
    code = (
        "import sys; from localllm.cli import app; from localllm.cli.commands import serve\n"
        "serve.serve_model = lambda _settings, models, **_: print(*models) or 0\n"
        "sys.argv[1:] = ['serve', 'demo', '--slots=2', '--port', '0', '--ready=json']; app.run_app()\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["demo", "False"], done.stderr
