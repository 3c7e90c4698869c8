"""Advice is true: each command, option and variable that any string of the package names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from localllm.cli import app as command_line
from localllm.cli.group import COMMANDS, OnDemand
from localllm.settings.config import ENV_PREFIX, Settings
from tests.each import each

PACKAGE = Path(__file__).parents[2] / "localllm"

NO_COMMANDS = {
    "conversations",
    *("again", "and", "answers", "asks", "at", "calls", "can", "cannot", "carries", "chooses", "did", "does", "ended"),
    *("for", "searches", "works"),
    *("has", "holds", "in", "is", "itself", "keeps", "key", "knows", "makes", "of", "offers", "on", "put"),
    *("raises", "says", "sent", "server", "takes", "that", "to", "uses", "was", "what", "with", "without"),
}
"""What may follow `localllm` in prose; a verb that is no command is one that somebody forgot to write or renamed."""
OTHERS_OPTIONS = {
    "launch": "of the agents",
    "cli/launching/process.py": "of the agents",
    "system/programs.py": "of a frozen program's children",
    "llama/runtimes/in_packages.py": "of pip",
    "llama/runtimes/installed.py": "of pip and cmake",
    "llama/runtimes/building.py": "of pip and cmake",
    "llama/runtimes/wheel_files.py": "of pip",
    "llama/runtimes/build_targets.py": "of nvidia-smi",
    "worker": "of the worker's own process",
}
PLACEHOLDERS = {"LOCALLLM_X_Y", "--x-y"}
"""Of any setting, in the words about all of them."""

LLAMA_SERVERS = {"--props"}
"""Options of llama-server that are spoken of."""
NO_SETTINGS = {"LOCALLLM_API_KEY", "LOCALLLM_REGISTRY_LOGINS"}
"""Set by launch for an agent to read; read by `registry/logins/credentials.py`."""
WITHOUT_OPTIONS = ("server/mounting.py", "settings/", "window/")
"""What they say is read where there is no command line, or one without these options, or the help of an option."""


class Text(NamedTuple):
    """A string of the package; what is put into it is `{}`."""

    place: str
    words: str
    is_said: bool = True
    """Not a docstring, nor a name alone."""


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for kind in ("*.py", "*.js") for path in PACKAGE.rglob(kind))


@cache
def texts_of(module: str) -> tuple[Text, ...]:
    """Read when a test asks, as every process of a test run imports this file; once for all of them."""
    return tuple(_texts_of(module))


def _texts_of(module: str) -> Iterator[Text]:
    source = (PACKAGE / module).read_text("utf-8")
    if module.endswith(".js"):
        for number, line in enumerate(source.splitlines(), 1):
            yield Text(f"{module}:{number}", line)
        return
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            pieces = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            yield Text(f"{module}:{node.lineno}", "".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            is_said = id(node) not in docstrings and " " in node.value
            yield Text(f"{module}:{node.lineno}", node.value, is_said)


PROGRAM = str(command_line.app.info.name)
BUILT = OnDemand()


@cache
def options_of(command: str) -> frozenset[str]:
    params = BUILT[command].params
    return frozenset({"--help", *(name for each in params for name in (*each.opts, *each.secondary_opts))})


@cache
def actions_of(command: str) -> frozenset[str]:
    """The words that its first argument may be, where it is one of a few."""
    first = BUILT[command].params[0] if BUILT[command].params else None
    choices = str(getattr(first, "metavar", None) or "").split("|")
    return frozenset(choices) if len(choices) > 1 else frozenset()


@cache
def every_option() -> frozenset[str]:
    return frozenset({"--version"}).union(*(options_of(command) for command in COMMANDS))


def faults(text: Text) -> Iterator[str]:
    """What it advises and does not exist."""
    if PROGRAM not in text.words and "--" not in text.words:
        return  # most of them: a search is cheaper than the expressions below
    for said in re.finditer(rf"(?<![\w./-]){PROGRAM} ([a-z]+)\b(?![=:])([^;:,()`\n]*)", text.words):
        command, rest = said[1], said[2]
        if command not in COMMANDS:
            if command not in NO_COMMANDS:
                yield f"there is no command {command}"
            continue
        for option in re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest):
            if option not in options_of(command):
                yield f"localllm {command} has no {option}"
        action = re.match(r" ([a-z]+)\b", rest)
        if action and actions_of(command) and action[1] not in actions_of(command):
            yield f"localllm {command} has no {action[1]}"
    if not text.place.startswith(tuple(OTHERS_OPTIONS)) and ".js:" not in text.place:
        for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)\b(?!-?[-{>])", text.words):
            if option not in every_option() | PLACEHOLDERS | LLAMA_SERVERS:
                yield f"no command has {option}"


@each("module", MODULES)
def test_each_command_and_option_that_a_string_names_exists(module: str) -> None:
    found = [f"{text.place}: {fault}" for text in texts_of(module) for fault in faults(text)]
    assert not found, "\n".join(found)


def test_each_variable_that_a_string_names_is_of_a_setting() -> None:
    settings = {ENV_PREFIX + field.name.upper() for field in msgspec.structs.fields(Settings)}
    for text in (text for module in MODULES for text in texts_of(module)):
        for name in re.findall(rf"\b{ENV_PREFIX}[A-Z][A-Z_]+\b", text.words):
            assert name in settings | PLACEHOLDERS | NO_SETTINGS, f"{text.place}: nobody reads {name}"
            option = f"--{name.removeprefix(ENV_PREFIX).lower().replace('_', '-').replace('api-keys', 'api-key-file')}"
            if text.is_said and option in every_option() and not text.place.startswith(WITHOUT_OPTIONS):
                assert option in text.words, f"{text.place}: {option} sets it, too"


def test_sizes_are_told_in_one_kind_of_units() -> None:
    """Decimal ones, as disks and hubs have them. Regular expressions and `llama.facts` hold what llama.cpp says."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == PACKAGE / "llama" / "facts.py" or "iB" not in (source := path.read_text("utf-8")):
            continue
        tree = ast.parse(source)
        unsaid = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
                unsaid |= {id(node) for node in ast.walk(call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unsaid:
                assert not re.search(r"[KMGT]iB", node.value), f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("localllm import --list shows them", "localllm import has no --list"),
        ("see `localllm kv drop`", "localllm kv has no drop"),
        ("localllm fetch gets it", "there is no command fetch"),
        ("start it with --slot 3", "no command has --slot"),
    ],
)
def test_wrong_advice_is_noticed(words: str, fault: str) -> None:
    assert fault in tuple(faults(Text("cli/x.py:1", words)))


@pytest.mark.parametrize(
    "words", ["localllm kv list says which", "localllm rm {}; localllm gc", "localllm was installed"]
)
def test_right_advice_and_prose_are_let_through(words: str) -> None:
    assert not tuple(faults(Text("cli/x.py:1", words)))
