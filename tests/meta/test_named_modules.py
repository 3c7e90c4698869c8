"""What the code names in a string is there: children to start, modules, resources, paths in comments and documents.

No import checker sees these names, so a module that moves would leave them behind without an error.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "localllm"
SOURCES = ("localllm", "tests", "benchmarks", "native", "models")
NAME = re.compile(r"localllm(?:\.[A-Za-z_]\w*)*\.?")
RUN = re.compile(r"-m (localllm[\w.]*\w)")
FILE = re.compile(
    r"(?<![\w./-])(?:localllm|tests|benchmarks|native|models/demo)/[\w/-]+\.(?:py|md|toml|json|js|spec|cpp)\b"
)
NO_MODULES = {"localllm.key", "localllm.salt", "localllm.desktop", "localllm.app", "localllm.spec"}
NO_MODULES |= {f"localllm.{kind}" for kind in ("conf", "yaml", "service", "socket", "plist", "log")}
"""Keys, salts and files that only look like a module."""
NO_LONGER_THERE = {"benchmarks/LOG.md"}
"""Documents that tell of files as they were."""
CHILD_TIMEOUT_S = 120


class Named(NamedTuple):
    where: str
    name: str


@cache
def texts() -> dict[Path, str]:
    """The repository's files that people write."""
    kinds = {".py", ".md", ".toml", ".spec", ".js", ".cpp", ".txt"}
    found = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    found += [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    return {path: path.read_text("utf-8") for path in found if path.is_file() and path != Path(__file__)}


@cache
def code() -> dict[Path, list[ast.AST]]:
    """All nodes of the files whose code may name something in a string."""
    wanted = re.compile(r"""["']localllm|own_command\(|resources|__file__""")
    return {
        path: list(ast.walk(ast.parse(text)))
        for path, text in texts().items()
        if path.suffix in (".py", ".spec") and wanted.search(text)
    }


@pytest.fixture(scope="module", autouse=True)
def trees_are_freed() -> Iterator[None]:
    yield
    code.cache_clear()
    texts.cache_clear()
    top_level.cache_clear()


def at(path: Path, node: ast.expr) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def calls(function: str) -> Iterator[tuple[Path, ast.Call]]:
    for path, nodes in code().items():
        for node in nodes:
            if isinstance(node, ast.Call) and _last_name(node.func) == function:
                yield path, node


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def strings() -> Iterator[Named]:
    """String and bytes literals that are the name of a module, or of something in one."""
    for path, nodes in code().items():
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if "." in text and NAME.fullmatch(text) and text not in NO_MODULES:
                    yield Named(at(path, node), text.removesuffix("."))


def file_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def is_there(name: str) -> bool:
    """Whether this is a module, or one and a name at its top level; what follows fails where it is used."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = file_of(".".join(parts[:length]))
        if found is not None:
            return length == len(parts) or parts[length] in top_level(found) or ROOT.joinpath(*parts).is_dir()
    return False


@cache
def top_level(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def is_program(module: str) -> bool:
    """Whether `python -m` runs it."""
    found = file_of(module)
    if found is None:
        return False
    if found.name == "__init__.py":
        return found.with_name("__main__.py").is_file()
    return '__name__ == "__main__"' in found.read_text("utf-8")


def children() -> set[str]:
    """What the product starts with `own_command`, by literal or through a name of its own."""
    ours = {name for where, name in strings() if where.startswith("localllm/") and is_program(name)}
    commands = {each.value for _, call in calls("own_command") for each in call.args if isinstance(each, ast.Constant)}
    return ours | {name for name in commands if isinstance(name, str) and name.startswith("localllm")}


def test_every_name_of_a_module_in_a_string_is_one() -> None:
    found = list(strings())
    assert len(found) > 40
    assert [each for each in found if not is_there(each.name)] == []


def test_every_program_that_a_command_names_can_be_run() -> None:
    named = [Named(str(path.relative_to(ROOT)), name) for path, text in texts().items() for name in RUN.findall(text)]
    assert len(named) >= 8
    assert [each for each in named if not is_program(each.name)] == []
    script = tomllib.loads(texts()[ROOT / "pyproject.toml"])["project"]["scripts"]["localllm"]
    assert is_there(script.replace(":", "."))


def test_every_child_starts() -> None:
    """Without input a child ends by itself, with an error of its own or none."""
    started = {
        name: subprocess.Popen(
            [sys.executable, "-P", "-m", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for name in sorted(children())
    }
    assert len(started) >= 10, sorted(started)
    failed = {}
    for name, child in started.items():
        _, errors = child.communicate(timeout=CHILD_TIMEOUT_S)
        if b"No module named" in errors or b"ImportError" in errors or b"cannot be directly executed" in errors:
            failed[name] = errors.decode()
    assert failed == {}


def test_every_resource_that_the_code_reads_is_there() -> None:
    checked, missing = 0, []
    for path, call in calls("files"):
        if len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and "resources" in ast.unparse(call.func):
            checked += 1
            folder = str(call.args[0].value)
            if not is_there(folder) or not _found(resources.files(folder), _parts_behind(path, call)):
                missing.append(at(path, call))
    assert checked >= 6
    assert missing == []


def _parts_behind(path: Path, call: ast.Call) -> list[str]:
    """The literals of `.joinpath(...)` behind this call, up to the first that is none."""
    for join in code()[path]:
        if isinstance(join, ast.Call) and isinstance(join.func, ast.Attribute) and join.func.value is call:
            parts = []
            for argument in join.args:
                if not isinstance(argument, ast.Constant):
                    break
                parts.append(str(argument.value))
            return parts
    return []


def _found(folder: Traversable, parts: list[str]) -> bool:
    place = folder.joinpath(*parts)
    return place.is_dir() or place.is_file()


def test_every_path_beside_a_source_file_is_there() -> None:
    """`Path(__file__).parents[2] / "localllm"`: a file that moves counts its folders anew."""
    checked, missing = 0, []
    for path, nodes in code().items():
        for node in nodes:
            if isinstance(node, ast.BinOp | ast.Attribute | ast.Subscript | ast.Call) and _is_path_of_literals(node):
                checked += 1
                if not eval(ast.unparse(node), {"Path": Path, "__file__": str(path)}).exists():
                    missing.append(at(path, node))
    assert checked > 20
    assert missing == []


def _is_path_of_literals(node: ast.expr) -> bool:
    """Whether this is `Path(__file__)`, a parent of it, or one of these followed by literals."""
    match node:
        case ast.Call(func=ast.Name(id="Path"), args=[ast.Name(id="__file__")]):
            return True
        case (
            ast.Call(func=ast.Attribute(value=value, attr="resolve"), args=[])
            | ast.Attribute(value=value, attr="parent")
        ):
            return _is_path_of_literals(value)
        case ast.Subscript(value=ast.Attribute(attr="parents", value=value), slice=ast.Constant()):
            return _is_path_of_literals(value)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant()):
            return _is_path_of_literals(left)
    return False


def test_a_frozen_program_gets_every_resource() -> None:
    """PyInstaller sees modules; `localllm.spec` lists the folders of the package with other files."""
    spec = next(nodes for path, nodes in code().items() if path.name == "localllm.spec")
    loops = [node for node in spec if isinstance(node, ast.For) and ast.unparse(node.target) == "kind"]
    collected = set(ast.literal_eval(loops[0].iter))
    others = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc", ".md")}
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in others if path.name != "py.typed"}
    assert folders == collected


def test_every_file_that_a_text_names_is_there() -> None:
    named = [
        Named(str(path.relative_to(ROOT)), name)
        for path, text in texts().items()
        if str(path.relative_to(ROOT)) not in NO_LONGER_THERE
        for name in FILE.findall(text)
    ]
    assert len(named) > 60
    assert sorted({each for each in named if not (ROOT / each.name).is_file()}) == []


def test_every_name_of_the_api_is_where_the_package_looks_for_it() -> None:
    """The package imports nothing by itself: each name is looked up in a module that a string names."""
    import localllm

    assert [name for name in localllm.__all__ if not hasattr(localllm, name)] == []


def test_what_code_in_strings_and_documents_imports_is_there() -> None:
    """Programs that a test writes for a child, examples of the documentation."""
    import localllm

    line = re.compile(r"^ *(?:[\w;(. ]+; )?from (localllm[\w.]*) import ([\w ,]+?)(?:;|\\n|$)", re.MULTILINE)
    checked, missing = 0, []
    for path, text in texts().items():
        for module, names in line.findall(text):
            for name in re.findall(r"(\w+)(?: as \w+)?(?:,|$)", names.strip()):
                checked += 1
                if not (is_there(f"{module}.{name}") or (module == "localllm" and name in localllm.__all__)):
                    missing.append(f"{path.relative_to(ROOT)}: {module}.{name}")
    assert checked > 1000
    assert missing == []
