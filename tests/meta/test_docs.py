"""README and documentation cannot lie: commands, options, endpoints and links exist, and none is left out."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest

from localllm.cli.app import run_app
from localllm.docs.pages import anchor, pages
from tests.each import each

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GENERATED = {"fields", "settings"}
TEXTS = {"README": README} | {topic: page.text for topic, page in pages().items() if topic not in GENERATED}
ALL = "\n".join(TEXTS.values())
FOREIGN = {"--no-cache-dir", "--only-binary", "--name"}
"""Options of pip, and a placeholder."""


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
    """Names listed under `Commands:` in `localllm --help-all`."""
    listing = page_of("--help-all").split("Commands:")[1]
    return re.findall(r"^  (\S+)", listing, re.MULTILINE)


def command_lines(text: str) -> list[str]:
    """Those of shell blocks, and those within a sentence."""
    blocks = re.findall(r"```(?:sh|powershell)\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    parts = [part.strip() for line in lines for part in re.split(r"&&|\||; ", line)]
    parts = [re.sub(r"^(?:[A-Z_]+=\S* )+", "", part) for part in parts]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [part for part in [*parts, *re.findall(r"`([^`\n]+)`", prose)] if re.match(r"localllm [a-z]", part)]


def test_every_command_is_shown() -> None:
    shown = {shlex.split(line, comments=True)[1] for line in command_lines(ALL)}
    assert set(commands()) <= shown


@each("topic", TEXTS)
def test_each_command_line_is_understood(topic: str) -> None:
    for line in command_lines(TEXTS[topic]):
        _, command, *words = shlex.split(line, comments=True)
        if "--" in words:  # an agent's own
            words = words[: words.index("--")]
        text = help_of(command)
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", text), f"{topic}: `localllm {command}` has no {option}"


def test_options_named_in_the_text_exist() -> None:
    known = " ".join(help_of(command) for command in commands())
    for option in set(re.findall(r"`(--[a-z-]+)[ `=]", ALL)) - FOREIGN:
        assert re.search(rf"{option}\b", known), f"no command has {option}"


def test_every_endpoint_is_listed_and_no_other() -> None:
    from localllm.server.described.endpoints import OPERATIONS

    listed = set(re.findall(r"`(GET|POST|DELETE) (/[\w/{}.-]*)`", ALL))
    assert listed == {(operation.method.upper(), operation.path) for operation in OPERATIONS}


def test_every_setting_has_an_option_of_its_name_somewhere() -> None:
    import msgspec

    from localllm.settings.config import Settings

    known = " ".join(help_of(command) for command in commands())
    for field in msgspec.structs.fields(Settings):
        if field.name not in ("api_keys", "otel_headers"):  # secrets have no place in a process list
            assert f"--{field.name.replace('_', '-')}" in known, f"no command has an option for {field.name}"


def test_the_first_command_compiles_no_library_and_the_second_as_the_doctor_advises() -> None:
    from localllm.llama.runtimes.installed import FAST_INSTALL_FLAGS

    first, second = (block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "CMAKE_ARGS" in block)
    assert first.startswith(
        'CMAKE_ARGS=-DLLAMA_BUILD=OFF pip install --no-cache-dir ".[wheel]"'
    )  # else pip keeps one without a library
    assert re.findall(r'CMAKE_ARGS="(.*)"', second) == [FAST_INSTALL_FLAGS]


def links() -> list[tuple[str, Path, str]]:
    """Page, file and anchor of every link that is no address."""
    found = []
    for topic, text in TEXTS.items():
        folder = ROOT if topic == "README" else ROOT / "localllm" / "docs"
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if "://" not in target:
                path, _, fragment = target.partition("#")
                own = ROOT / "README.md" if topic == "README" else folder / f"{topic}.md"
                found.append((topic, folder / path if path else own, fragment))
    return found


@each("topic, path, fragment", links())
def test_what_is_linked_exists(topic: str, path: Path, fragment: str) -> None:
    assert path.exists(), f"{topic} links to {path}"
    if fragment:
        headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert fragment in map(anchor, headings), f"{topic} links to {path}#{fragment}"


def test_the_readme_stays_a_page() -> None:
    assert len(README.encode()) <= 11_000
    assert README.count("\n") <= 250


def test_the_architecture_page_names_tests_that_exist_and_stays_short() -> None:
    page = (ROOT / "localllm" / "ARCHITECTURE.md").read_text("utf-8")
    assert page.count("\n") <= 150
    for pattern in re.findall(r"`(tests/[\w/*]+\.py)`", page):
        assert list(ROOT.glob(pattern)), pattern


def test_every_entry_of_the_log_that_a_docstring_names_exists() -> None:
    named = 0
    for folder in ("localllm", "tests", "benchmarks", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            for page, fragment in re.findall(r"(benchmarks/log/\w+\.md)(?:#([\w-]+))?", text):
                named += 1
                entries = re.findall(r"^## (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
                assert not fragment or fragment in map(anchor, entries), f"{path}: {page}#{fragment}"
            assert path == Path(__file__) or not re.search(r"LOG\.md[,)]|LOG\.md, \"", text), f"{path} names no entry"
    assert named > 15


def test_the_index_of_the_log_lists_every_entry() -> None:
    index = (ROOT / "benchmarks" / "LOG.md").read_text("utf-8")
    for path in (ROOT / "benchmarks" / "log").glob("*.md"):
        for entry in re.findall(r"^## (.+)$", path.read_text("utf-8"), re.MULTILINE):
            assert f"[{entry}](log/{path.name}#{anchor(entry)})" in index


ROOMS = sorted(path for path in (ROOT / "localllm").rglob("__init__.py"))


@each("path", ROOMS)
def test_a_room_says_where_to_begin(path: Path) -> None:
    sign = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    begin = re.search(r"[Bb]egin\s+with\s+`([\w./]+)`", sign)
    assert begin, "its docstring names no module to begin with"
    assert any((path.parent / f"{begin[1]}{ending}").exists() for ending in ("", ".py")), begin[1]
