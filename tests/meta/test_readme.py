"""The README cannot lie: its commands and options exist, and it leaves no command out."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

from localllm.cli.app import run_app
from tests.each import each

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def help_of(*command: str) -> str:
    """With all options."""
    page = page_of(*command, "--help")
    return page_of(*command, "--help-all") if "--help-all" in page else page


@cache
def page_of(*command: str) -> str:
    """Printed by this process: one for each command took ten seconds in every file that asks."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        patch.setattr(sys, "argv", ["localllm", *command])
        patch.setenv("COLUMNS", "80")
        assert run_app() == 0
    return said.getvalue()


def commands() -> list[str]:
    """Names listed under `Commands:` in `localllm --help`."""
    listing = help_of().split("Commands:")[1]
    return re.findall(r"^  (\S+)", listing, re.MULTILINE)


def shell_lines() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [part.strip() for line in lines for part in re.split(r"&&|\|", line) if part.strip().startswith("localllm ")]


def test_the_readme_shows_every_command() -> None:
    shown = {shlex.split(line, comments=True)[1] for line in shell_lines()}
    assert set(commands()) <= shown


@each("line", shell_lines())
def test_each_command_line_of_the_readme_is_understood(line: str) -> None:
    _, command, *words = shlex.split(line, comments=True)
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    text = help_of(command)
    for option in options:
        assert re.search(rf"{option}\b", text), f"`localllm {command}` has no {option}"


def test_options_named_in_the_text_exist() -> None:
    known = " ".join(help_of(command) for command in commands())
    for option in re.findall(r"`(--[a-z-]+)[ `=]", README):
        if option not in ("--name", "--no-cache-dir", "--only-binary"):  # the last two are pip's
            assert re.search(rf"{option}\b", known), f"no command has {option}"


def test_the_readme_lists_every_endpoint_and_no_other() -> None:
    from localllm.server.described.endpoints import OPERATIONS

    listed = set(re.findall(r"`(GET|POST|DELETE) (/[\w/{}.-]*)`", README))
    assert listed == {(operation.method.upper(), operation.path) for operation in OPERATIONS}


def test_every_setting_has_an_option_of_its_name_somewhere() -> None:
    import msgspec

    from localllm.settings.config import Settings

    known = " ".join(help_of(command) for command in commands())
    for field in msgspec.structs.fields(Settings):
        if field.name != "api_keys":  # a secret has no place in a process list
            assert f"--{field.name.replace('_', '-')}" in known, f"no command has an option for {field.name}"


def test_the_first_command_compiles_no_library_and_the_second_as_the_doctor_advises() -> None:
    from localllm.llama.runtimes.installed import FAST_INSTALL_FLAGS

    first, second = (block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "CMAKE_ARGS" in block)
    assert first.startswith(
        'CMAKE_ARGS=-DLLAMA_BUILD=OFF pip install --no-cache-dir ".[wheel]"'
    )  # else pip keeps one without a library
    assert re.findall(r'CMAKE_ARGS="(.*)"', second) == [FAST_INSTALL_FLAGS]


def test_what_the_readme_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_architecture_page_names_tests_that_exist_and_stays_short() -> None:
    page = (ROOT / "localllm" / "ARCHITECTURE.md").read_text("utf-8")
    assert page.count("\n") <= 170
    for pattern in re.findall(r"`(tests/[\w/*]+\.py)`", page):
        assert list(ROOT.glob(pattern)), pattern
