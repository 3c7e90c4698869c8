"""Finds code that looks as if it knew a fact of one llama.cpp build, each by the shape such facts have.

Every finding is a place: module and top-level name. Over-approximates: what is no fact is named in
`test_llama_cpp.NO_FACTS`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gguf import MODEL_ARCH_NAMES

PACKAGE = Path(__file__).parents[2] / "localllm"
DOOR = ("localllm.llama.", "localllm.gguf.rules.")
"""Packages that may name architectures."""
OUTSIDE = frozenset({"localllm.llama.fact_kinds", "localllm.llama.facts", "localllm.types.upstream"})
"""They are the lists."""
ARCHITECTURES = frozenset(MODEL_ARCH_NAMES.values())

_MANGLED = re.compile(r"_Z\d+\w+|\?\w+@@\w+")
_NODE_OR_FUNCTION = re.compile(rb"ggml_\w+|result_\w+|l_out\S*")
_FUNCTION = re.compile(r"(?:ggml|llama)_\w+")
_ENUM = re.compile(r"\b(?:LLAMA|GGML|RPC)_[A-Z0-9_]+|\benum (?:ggml|llama)_\w+")
_VARIABLE = re.compile(r"(?:GGML|LLAMA)_[A-Z0-9_]+")
_OPTION = re.compile(r"-D(?:GGML|LLAMA)_[A-Z0-9_]+=")
_POINTER = re.compile(r"(?:ctypes\.)?(?:c_void_p|_P|_POINTER)")


class Module(NamedTuple):
    name: str
    tree: ast.Module


class Finding(NamedTuple):
    """`place` is as in `llama.fact_kinds.Fact.places`."""

    place: str
    why: str


def modules() -> Iterator[Module]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield Module(name, ast.parse(path.read_text("utf-8")))


def top_level_names(module: Module) -> set[str]:
    return {name for statement in module.tree.body for name in _names(statement)}


def findings(module: Module) -> Iterator[Finding]:
    """What looks like a fact in this module."""
    if module.name in OUTSIDE:
        return
    body = module.tree.body
    for number, statement in enumerate(body):
        if isinstance(statement, ast.Import | ast.ImportFrom) or not (names := _names(statement)):
            continue
        for why in _reasons(module, statement, _docstring(body, number)):
            yield Finding(f"{module.name}:{names[0]}", why)


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _docstring(body: list[ast.stmt], number: int) -> str:
    """The text below an assignment."""
    following = body[number + 1] if number + 1 < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value)
    return ""


def _reasons(module: Module, statement: ast.stmt, below: str) -> Iterator[str]:
    is_llama, is_door = module.name.startswith(DOOR[0]), module.name.startswith(DOOR)
    if isinstance(statement, ast.Assign | ast.AnnAssign) and _ENUM.search(below):
        yield "numbers of an enum"
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MANGLED.fullmatch(node.value):
            yield "a mangled name"
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "ctypes.Structure" for base in node.bases):
            yield "the layout of a struct"
        if _is_pointer_table(node):
            yield "a table of pointers"
        if isinstance(node, ast.Dict) and any(map(_is_function_name, node.keys)):
            yield "signatures of functions"
        if isinstance(node, ast.Compare) and _is_number_of_type(node):
            yield "a number of an enum"
        if not is_door and _names_architectures(node):
            yield "names of architectures"
        if is_llama and _is_name_in_library(node):
            yield "the name of a node or function"
        if is_llama and _reads_text(node):
            yield "text of llama.cpp's log"
        if _sets_variable(node):
            yield "an environment variable of llama.cpp"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _OPTION.search(node.value):
            yield "an option of llama.cpp's build"


def _is_pointer_table(node: ast.AST) -> bool:
    """An array of pointers at an address, or a pointer to pointers."""
    if not isinstance(node, ast.Call):
        return False
    function = ast.unparse(node.func)
    if function.endswith(".from_address"):
        return bool(re.match(rf"\(?{_POINTER.pattern}\b", function))
    return function.endswith("POINTER") and bool(node.args) and bool(_POINTER.fullmatch(ast.unparse(node.args[0])))


def _is_function_name(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str) and bool(_FUNCTION.fullmatch(key.value))


def _is_name_in_library(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bytes):
        return False
    return _NODE_OR_FUNCTION.fullmatch(node.value) is not None


def _is_number_of_type(node: ast.Compare) -> bool:
    """`...type(...) == 1`."""
    return (
        isinstance(node.left, ast.Call)
        and ast.unparse(node.left.func).endswith("type")
        and any(isinstance(each, ast.Constant) and isinstance(each.value, int) for each in node.comparators)
    )


def _names_architectures(node: ast.AST) -> bool:
    """Two or more in a collection, or a comparison of an architecture with a text."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        is_about = any(ast.unparse(side).split(".")[-1] == "architecture" for side in sides)
        return is_about and any(isinstance(side, ast.Constant) and side.value in ARCHITECTURES for side in sides)
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        members: list[ast.expr | None] = [*node.elts]
    elif isinstance(node, ast.Dict):
        members = [*node.keys, *node.values]
    else:
        return False
    texts = {each.value for each in members if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return len(texts & ARCHITECTURES) > 1


def _reads_text(node: ast.AST) -> bool:
    """A regular expression, or a search for a text in a line."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("re.compile", "re.search", "re.match", "re.findall", "re.fullmatch")
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.In):
        return False
    where = ast.unparse(node.comparators[0])
    is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    return is_text and where in ("line", "text", "reason", "words", "output")


def _sets_variable(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "os.environ"
        and isinstance(node.slice, ast.Constant)
        and bool(_VARIABLE.fullmatch(str(node.slice.value)))
    )
