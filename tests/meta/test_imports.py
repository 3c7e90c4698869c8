"""The house keeps its shape: floors, where llama_cpp may appear, where the system is asked for its name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[2] / "localllm"

FLOORS = (
    "cli",
    "llm server tuning",
    "runtime",
    "documents supervisor",
    "worker",
    "bench llama mcp registry window",
    "client engine planning",
    "batches chat gguf grammar kvdisk launch measuring rpc settings",
    "docs system types",
    "errors",
)
"""Top first. A package imports from floors below its own, and from itself. ARCHITECTURE.md shows the same list."""
WALLS = {
    "bench client launch llm mcp server window": "engine llama supervisor worker",
    "cli": "engine supervisor",
    "llama": "chat grammar kvdisk settings",
    "registry": "engine",
    "supervisor": "chat engine grammar kvdisk llama registry",
    "worker": "client launch registry settings",
}
"""Packages that may not import some of those below them: faces see no inside of a process, a worker no store."""
EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(importing module, imported module): the reason why this import may go up or through a wall."""
DOORS = {
    ("documents", "worker"): {"worker.framing", "worker.limited_child"},
    ("supervisor", "worker"): {"worker.command", "worker.handle", "worker.messages"},
    ("tuning", "worker"): {"worker.command", "worker.messages", "worker.siblings"},
    ("runtime", "worker"): {"worker.prompts.template_check"},
    ("cli", "worker"): {"worker.prompts.template_check", "worker.prompts.template_child"},
    ("cli", "llama"): {
        "llama.runtimes",
        "llama.probes.device_trials",
        "llama.probes.selftest",
        "llama.probes.selftest_memory",
    },
}
"""All that a package may import of another: what of a worker is its parent's side, what of llama/ loads no library."""
SPECULATION = {
    "gguf": ("draft_heads", "gguf.rules: assistants dflash draft_heads eagle nextn target_states"),
    "planning": ("draft_plan", "planning: assistants draft_plan nextn_heads"),
    "llama": ("making", "llama.drafts: *"),
    "engine.speculation": ("drafts guesser proposals proposers", "engine.speculation: *"),
    "worker.drafts": ("available guess_sources", "worker.drafts: *"),
}
"""What the header says of guesses, what they cost, what makes them, who is asked, who loads them. For each owner the
modules that others may import, and its modules about guesses."""
MAX_MODULES = 25
"""In one folder, without `__init__`; with more a newcomer does not find his room."""


class Import(NamedTuple):
    importer: str
    imported: str


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"] or ["__init__"]
    return ".".join(parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Parsed once for all tests of this file."""
    return ast.parse(path.read_text("utf-8"))


@pytest.fixture(scope="module", autouse=True)
def trees_are_freed() -> Iterator[None]:
    yield
    tree_of.cache_clear()
    attributes.cache_clear()


@cache
def local_imports(path: Path, *, annotations: bool = True) -> tuple[Import, ...]:
    """At any depth, in functions, too. `annotations`: also what stands below `if TYPE_CHECKING`."""
    return tuple(_local_imports(path, annotations=annotations))


def _local_imports(path: Path, *, annotations: bool) -> Iterator[Import]:
    for node in _statements(tree_of(path).body, annotations=annotations):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a line points"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            if name == "localllm" or name.startswith("localllm."):
                yield Import(name_of(path), name.removeprefix("localllm").removeprefix(".") or "__init__")


def _statements(body: Sequence[ast.AST], *, annotations: bool) -> Iterator[ast.AST]:
    for node in body:
        yield node
        if not annotations and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from _statements(getattr(node, field, ()), annotations=annotations)


class Attribute(NamedTuple):
    pair: tuple[str, str]
    line: int


@cache
def attributes(path: Path) -> list[Attribute]:
    """What the module writes as NAME.NAME."""
    return [
        Attribute((node.value.id, node.attr), node.lineno)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]


def package_of(module: str) -> str:
    return module.partition(".")[0]


def within(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def _listed(table: dict[str, str]) -> dict[str, set[str]]:
    return {package: set(names.split()) for packages, names in table.items() for package in packages.split()}


def why_not(edge: Import) -> str | None:
    """The rule that this import breaks."""
    importer, imported = package_of(edge.importer), package_of(edge.imported)
    floor_of = {package: floor for floor, row in enumerate(FLOORS) for package in row.split()}
    if importer == imported or imported not in floor_of or importer in ("__init__", "__main__"):
        return None  # of itself; `from localllm import __version__`; the package's own lazy exports
    if (edge.importer, edge.imported) in EXCEPTIONS:
        return None
    if importer not in floor_of:
        return f"{importer} stands on no floor"
    if floor_of[imported] <= floor_of[importer]:
        return f"{imported} is not below {importer}"
    if imported in _listed(WALLS).get(importer, set()) and (importer, imported) not in DOORS:
        return f"there is a wall between {importer} and {imported}"
    doors = DOORS.get((importer, imported))
    if doors is not None and not any(within(edge.imported, door) for door in doors):
        return f"no door of {imported} for {importer}"
    return None


def test_imports_go_down() -> None:
    edges = [edge for path in modules() for edge in local_imports(path)]
    assert len(edges) > 50
    assert [(edge, reason) for edge in edges if (reason := why_not(edge)) is not None] == []


def test_an_import_that_goes_up_is_found() -> None:
    assert why_not(Import("registry.pull", "server.app")) == "server is not below registry"
    assert why_not(Import("registry.pull", "llama.model")) == "llama is not below registry"
    assert why_not(Import("server.app", "engine.engine")) == "there is a wall between server and engine"
    assert why_not(Import("supervisor.session", "worker.process")) == "no door of worker for supervisor"
    assert why_not(Import("registry.pull", "registry.names.parse")) is None


def test_exceptions_are_few_and_needed() -> None:
    edges = {(edge.importer, edge.imported) for path in modules() for edge in local_imports(path)}
    assert len(EXCEPTIONS) <= 15
    assert set(EXCEPTIONS) <= edges
    used = [
        (importer, imported, door)
        for (importer, imported), doors in DOORS.items()
        for door in doors
        if not any(package_of(one) == importer and within(other, door) for one, other in edges)
    ]
    assert used == []


def test_the_architecture_page_shows_these_floors() -> None:
    page = (PACKAGE / "ARCHITECTURE.md").read_text("utf-8")
    section = page.split("## Floors", 1)[1].split("```", 2)[1]
    shown = [set(line.split("#")[0].split()) for line in section.strip().splitlines()]
    assert shown == [set(row.split()) for row in FLOORS]


def guarded_by(owner: str) -> tuple[set[str], set[str]]:
    """The modules about guesses, and those of them that others may import."""
    entrances, inside = SPECULATION[owner]
    room, _, listed = inside.partition(": ")
    found = {name for name in map(name_of, modules()) if name.startswith(room + ".")}
    return found if listed == "*" else {f"{room}.{name}" for name in listed.split()}, {
        f"{room}.{name}" for name in entrances.split()
    }


@pytest.mark.parametrize("owner", SPECULATION)
def test_others_reach_what_guesses_through_one_door_of_each_room(owner: str) -> None:
    """And every door is used: tokens are guessed by code in five rooms, where a shortcut is easily taken."""
    inside, entrances = guarded_by(owner)
    assert entrances <= inside <= {name_of(path) for path in modules()}
    from_outside = {
        (edge.importer, module)
        for path in modules()
        for edge in local_imports(path)
        for module in inside
        if within(edge.imported, module) and not within(edge.importer, owner)
    }
    assert {(importer, module) for importer, module in from_outside if module not in entrances} == set()
    assert {module for _, module in from_outside} == entrances


def test_no_folder_is_too_full() -> None:
    counts = Counter(path.parent for path in modules() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, and so do those for annotations within the command line."""
    assert _circles(annotations=False) == []
    in_cli = [circle for circle in _circles(annotations=True) if any(one.startswith("cli.") for one in circle)]
    assert in_cli == []


def _circles(*, annotations: bool) -> list[set[str]]:
    """Groups of modules each of which imports every other, directly or through others."""
    names = {name_of(path) for path in modules()}
    imported: dict[str, set[str]] = {}
    for path in modules():
        targets = {edge.imported for edge in local_imports(path, annotations=annotations)}
        imported[name_of(path)] = {found for target in targets if (found := _module_of(target, names)) is not None}
    reached = {name: _reached(name, imported) for name in names}
    circles = [{other for other in reached[name] if name in reached[other]} for name in sorted(names)]
    return [circle for place, circle in enumerate(circles) if len(circle) > 1 and circle not in circles[:place]]


def _module_of(target: str, names: set[str]) -> str | None:
    """The module that `from package.module import name` loads."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target or None


def _reached(name: str, imported: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = set(imported[name])
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending |= imported[one]
    return found


def test_only_the_llama_folder_imports_llama_cpp() -> None:
    for path in modules():
        if name_of(path).split(".")[0] == "llama":
            continue
        for node in _statements(tree_of(path).body, annotations=True):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("llama_cpp") for alias in node.names), path
            elif isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("llama_cpp"), path


@pytest.mark.parametrize(
    "module", ["localllm.server.app", "localllm.cli", "localllm.cli.app", "localllm.runtime.runtime"]
)
def test_the_crash_boundary_no_llama_cpp_in_http_or_cli(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(name.split('.')[0] == 'llama_cpp' for name in sys.modules))"
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, localllm; print(*[name for name in sys.modules if name.startswith('localllm.')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip() == ""


def test_every_branch_on_the_operating_system_lives_in_one_room() -> None:
    forbidden = {("sys", "platform"), ("os", "name"), ("platform", "system")}
    for path in modules():
        if not within(name_of(path), "system"):
            assert [each for each in attributes(path) if each.pair in forbidden] == [], path


def test_every_child_of_ours_is_started_by_one_function() -> None:
    """A frozen program has no `python -m`: what starts one elsewhere works everywhere but there."""
    for path in modules():
        if name_of(path) != "system.programs":
            assert [each for each in attributes(path) if each.pair == ("sys", "executable")] == [], path


DIALECTS = {"openai", "responses", "anthropic", "ollama", "llamacpp", "lmstudio"}
"""Of the server's rooms. TEI's is written over that of embeddings, with which it shares `/rerank`."""


def test_no_dialect_of_the_server_knows_another() -> None:
    edges = [edge for path in modules() for edge in local_imports(path)]
    for edge in edges:
        importer, imported = edge.importer.split(".")[:3], edge.imported.split(".")[:3]
        if importer[:2] == imported[:2] == ["server", "apis"] and {importer[-1], imported[-1]} <= DIALECTS:
            assert importer == imported, edge


def test_modules_say_what_they_are_and_stay_small() -> None:
    for path in modules():
        text = path.read_text("utf-8")
        docstring = ast.get_docstring(tree_of(path))
        assert docstring, f"{path} has no docstring"
        assert docstring.count("\n") < 36, f"{path}: the docstring is longer than a picture needs"
        assert text.count("\n") <= 400, f"{path} is hard to read in one go"
