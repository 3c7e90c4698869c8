"""Help pages are written for users: in words, with defaults, and short."""

from __future__ import annotations

import re

import pytest
from typer.core import TyperOption

from localllm.cli.group import COMMANDS, HABITS, OnDemand
from localllm.cli.options.settings import TAKEN, declarations, expanded
from tests.meta.test_docs import help_of, page_of

OF_THE_TYPE_SYSTEM = re.compile(
    r"<\w[^>]*>|[{}]|\[default: (default|None|True|False|\W*)\]|\[required\]|\d<=?x|x[<>]=?\d"
    r"|\b(str|int|float|bool|PosixPath|NoneType|Literal|Optional|tuple|dict)\b|\b(list|type)\["
)
BUILT = OnDemand()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_page_is_free_of_the_type_systems_words(command: str) -> None:
    for page in (page_of(*command.split(), "--help"), help_of(*command.split())):
        found = OF_THE_TYPE_SYSTEM.search(page)
        assert found is None, page[max(0, found.start() - 80) : found.end() + 20]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_is_and_what_it_takes(command: str) -> None:
    for option in BUILT[command].params:
        assert option.help or command == "launch", option.name
        if isinstance(option, TyperOption) and not option.is_flag:
            assert option.metavar, option.name


def test_the_page_of_serve_has_what_most_people_need_in_groups_with_defaults() -> None:
    page = page_of("serve", "--help")
    assert 15 <= len(re.findall(r"^  --", page, re.MULTILINE)) <= 22
    for line in (
        "Address:",
        "  --port N ",
        "[default: 11435]",
        "CPU and GPU:",
        "  --gpu-layers auto|N|all ",
        "--help-all",
    ):
        assert line in page
    assert "--stream-interval-ms" not in page
    every = " ".join(help_of("serve").split())
    assert "--stream-interval-ms MS Shortest time between parts of a stream [default: 33]" in every


@pytest.mark.parametrize("command", COMMANDS)
def test_no_page_is_longer_than_a_screen_or_two(command: str) -> None:
    assert page_of(command, "--help").count("\n") <= 60


@pytest.mark.parametrize("command", [name for name, function in COMMANDS.items() if function in TAKEN])
def test_a_command_takes_settings_that_exist_and_each_once(command: str) -> None:
    names, more = expanded(TAKEN[COMMANDS[command]])
    assert {*names, *more} <= {*declarations(), "*"}
    assert len({*names, *more}) == len((*names, *more))


def test_words_of_habit_are_commands_and_the_short_help_names_all() -> None:
    for word, command in HABITS.items():
        assert word not in COMMANDS
        assert page_of(word, "--help").splitlines()[2:] == page_of(command, "--help").splitlines()[2:]
    short = page_of("--help")
    assert all(re.search(rf"\b{command}\b", short) for command in COMMANDS)
    assert short.count("\n") <= 45
