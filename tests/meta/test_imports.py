"""The house keeps its shape: who imports whom, where llama_cpp may appear, where the system is asked for its name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[2] / "localllm"
BASE = {"errors", "types", "settings", "osdep", "printable", "programs", "windows_names", "__init__", "tuning.results"}

# Room -> what it may import besides itself. An entry names a room, or one module of a room.
ALLOWED: dict[str, set[str]] = {
    "__init__": {"errors", "types", "settings.config", "cancel", "llm", "client", "server.mounting"},
    "__main__": {"cli"},
    "errors": set(),
    "types": {"errors"},
    "settings": {"errors", "types", "osdep", "rpc.endpoints"},
    "wire": {"types"},
    "osdep": {"cgroups"},
    "cgroups": set(),
    "compiled": set(),
    "printable": set(),
    "programs": set(),
    "windows_names": set(),
    "rpc": {"errors", "osdep", "programs", "types"},
    "tuning.results": {"__init__", "errors", "osdep", "registry.disk.files", "types"},
    "gguf": {"errors", "types"},
    "prediction": BASE | {"supervisor.plan", "supervisor.speed"},
    "registry": BASE | {"gguf"},
    "registry.assembling": BASE | {"gguf", "quantization"},
    "quantization": {"errors", "osdep", "programs"},
    "offers": BASE,
    "offers.machine": BASE | {"llama.diagnosis", "programs"},
    "offers.rating": BASE
    | {"prediction", "registry.sources.headers", "supervisor.contexts", "supervisor.drafting", "supervisor.memory_fit"},
    "offers.asking": BASE | {"runtime.threads", "registry.pull", "registry.sources.hub", "supervisor.memory_fit"},
    "own_settings": BASE | {"registry"},
    "bench": BASE | {"client"},
    "launch": {"errors", "osdep"},
    "mcp": BASE | {"cancel", "client"},
    "chat": {"errors", "types"},
    "grammar": {"errors", "types"},
    "daemons": set(),
    "kvdisk": {"errors", "types", "osdep", "windows_names"},
    "engine": {"compiled", "errors", "types", "daemons", "kvdisk"},
    "llama": BASE | {"rpc", "compiled", "engine.backend", "gguf", "quantization.protocol", "prediction.speeds"},
    "llama.doctor": BASE | {"compiled", "engine.sampling.native", "llama"},
    "worker": BASE,
    "worker.process": BASE | {"compiled", "engine", "llama", "chat"},
    "worker.loading": BASE | {"engine", "llama", "chat"},
    "worker.attention": BASE | {"llama"},
    "worker.heads": BASE | {"gguf", "llama"},
    "worker.drafting": BASE | {"gguf", "llama"},
    "worker.cpu_clocks": BASE | {"engine"},
    "worker.identity": BASE | {"kvdisk", "gguf"},
    "worker.keeping": BASE | {"engine", "llama", "kvdisk"},
    "worker.turn_ends": BASE | {"chat"},
    "worker.turns": BASE | {"daemons"},
    "worker.slots": BASE | {"engine", "kvdisk"},
    "worker.prepare": BASE | {"engine", "chat"},
    "worker.prompts": BASE | {"chat", "kvdisk.prefix"},
    "worker.answered": BASE | {"engine"},
    "worker.cache_miss": BASE | {"chat"},
    "worker.remembered": BASE | {"engine", "chat"},
    "worker.sequences": BASE | {"engine"},
    "worker.shapes": BASE | {"chat"},
    "worker.rendering": BASE | {"daemons", "chat"},
    "worker.prepare_texts": BASE | {"engine.embedding.texts"},
    "worker.template_child": BASE | {"chat"},
    "worker.template_check": BASE | {"chat.request"},
    "worker.grammar_trial": BASE | {"grammar"},
    "worker.grammars": BASE | {"daemons", "engine", "grammar.literals"},
    "supervisor": BASE | {"gguf", "worker.handle", "worker.messages", "worker.command"},
    "supervisor.speed": BASE | {"prediction.speeds"},
    "tuning": BASE | {"runtime.finding", "supervisor"},
    "tuning.workers": BASE | {"bench.prompts", "supervisor", "worker.command", "worker.messages", "worker.siblings"},
    "runtime": BASE | {"supervisor", "registry", "gguf", "chat", "worker.template_check"},
    "cancel": set(),
    "llm": BASE | {"cancel", "runtime"},
    "llm.models": BASE | {"cancel", "llm", "registry", "gguf", "supervisor.memory_fit"},
    "server": BASE | {"mcp", "wire", "runtime"},
    "server.manage.offers": BASE
    | {"offers", "prediction", "registry.catalog", "supervisor.memory_fit", "supervisor.placing", "wire"},
    "server.manage.settings": BASE | {"own_settings", "wire"},
    "server.ollama.models": BASE | {"registry.modelfile", "runtime"},
    "server.state": BASE | {"offers.asking", "mcp", "wire", "runtime"},
    "client": BASE | {"cancel", "wire"},
    "cli": BASE | {"client", "llama.diagnosis", "quantization.protocol"},
    "window": BASE | {"client"},
    "cli.app_window": BASE | {"window"},
    "cli.processes": BASE | {"client", "wire"},
    "cli.mcp": BASE | {"client", "mcp"},
    "cli.mcp_tools": BASE | {"mcp"},
    "cli.pull": BASE | {"client", "prediction", "registry.remote", "supervisor.memory_fit"},
    "cli.speed_words": {"prediction.speeds"},
    "cli.quantize": BASE | {"client", "quantization"},
    "cli.kv": BASE | {"kvdisk"},
    "cli.rpc_worker": BASE | {"rpc"},
    "cli.run": BASE | {"client", "llama.gains"},
    "cli.runtimes": BASE
    | {"llama.build_targets", "llama.building", "llama.builds", "llama.installed", "llama.runtimes", "llama.selftest"},
    "cli.create": BASE | {"client", "registry.manifest", "worker.template_check"},
    "cli.devices": BASE | {"client", "offers.machine"},
    "cli.doctor": BASE | {"client", "llama.diagnosis", "offers.machine"},
    "cli.fit": BASE
    | {"client", "prediction", "registry.drafts", "registry.sources.headers", "offers.rating"}
    | {"supervisor.drafting", "supervisor.memory_fit", "supervisor.plan"},
    "cli.model_settings": BASE | {"own_settings"},
    "cli.formats": BASE | {"worker.template_child"},
    "cli.tune": BASE | {"tuning"},
    "cli.serving": BASE | {"client"},
    "cli.model_names": BASE | {"own_settings.showing", "registry.names"},
    "cli.bench": BASE | {"client", "llama.diagnosis", "bench"},
    "cli.launch": BASE | {"client", "launch"},
    "cli.launch_server": BASE | {"client", "launch", "registry.names", "supervisor.plan"},
    "cli.serve": BASE | {"client", "server"},
}
LAZILY: dict[str, set[str]] = {"cli": {"server", "registry", "gguf"}}
"""What may be imported inside functions only."""


class Import(NamedTuple):
    importer: str
    imported: str
    lazy: bool


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


@cache
def local_imports(path: Path, *, annotations: bool = True) -> tuple[Import, ...]:
    """`annotations`: also what stands below `if TYPE_CHECKING`."""
    return tuple(_local_imports(path, annotations=annotations))


def _local_imports(path: Path, *, annotations: bool) -> Iterator[Import]:
    for node, lazy in _statements(tree_of(path).body, annotations=annotations):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a line points"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            if name == "localllm" or name.startswith("localllm."):
                yield Import(name_of(path), name.removeprefix("localllm").removeprefix(".") or "__init__", lazy)


def _statements(body: Sequence[ast.AST], *, annotations: bool, lazy: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All of them, at any depth, and whether they stand in a function."""
    for node in body:
        yield node, lazy
        if not annotations and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            deeper = getattr(node, field, ())
            yield from _statements(deeper, annotations=annotations, lazy=lazy or is_function)


def within(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def is_allowed(edge: Import) -> bool:
    room = edge.importer.split(".")[0]
    allowed = ALLOWED.get(edge.importer, ALLOWED[room])
    if edge.lazy:
        allowed = allowed | LAZILY.get(room, set())
    target = edge.imported
    if target.startswith("__") or ("." not in target and target not in ALLOWED):  # `from localllm import __version__`
        return "__init__" in allowed
    return within(target, room) or any(within(target, one) for one in allowed)


def test_imports_run_one_way() -> None:
    edges = [edge for path in modules() for edge in local_imports(path)]
    assert len(edges) > 50
    assert [edge for edge in edges if not is_allowed(edge)] == []


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
        for node in ast.walk(tree_of(path)):
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


def test_every_branch_on_the_operating_system_lives_in_osdep() -> None:
    forbidden = {("sys", "platform"), ("os", "name"), ("platform", "system")}
    for path in modules():
        if name_of(path) == "osdep":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in forbidden, f"{path}:{node.lineno}"


def test_every_child_of_ours_is_started_by_one_function() -> None:
    """A frozen program has no `python -m`: what starts one elsewhere works everywhere but there."""
    for path in modules():
        if name_of(path) == "programs":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("sys", "executable"), f"{path}:{node.lineno}"


DIALECTS = {"openai", "responses", "anthropic", "ollama", "llamacpp", "lmstudio"}
"""Of the server's rooms. TEI's is written over that of embeddings, with which it shares `/rerank`."""


def test_no_dialect_of_the_server_knows_another() -> None:
    edges = [edge for path in modules() for edge in local_imports(path)]
    for edge in edges:
        importer, imported = edge.importer.split(".")[:2], edge.imported.split(".")[:2]
        if importer[0] == imported[0] == "server" and {importer[-1], imported[-1]} <= DIALECTS:
            assert importer == imported, edge


def test_modules_say_what_they_are_and_stay_small() -> None:
    for path in modules():
        text = path.read_text("utf-8")
        docstring = ast.get_docstring(tree_of(path))
        assert docstring, f"{path} has no docstring"
        assert docstring.count("\n") < 36, f"{path}: the docstring is longer than a picture needs"
        # What depends on the system stands in one file on purpose.
        most = 600 if name_of(path) == "osdep" else 400
        assert text.count("\n") <= most, f"{path} is hard to read in one go"
