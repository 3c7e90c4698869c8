"""A setting that says MB or kB counts millions or thousands of bytes: in the code, in its help and in its docstring."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import msgspec
import pytest

from localllm.settings.config import Settings
from localllm.settings.load_settings import LoadSettings
from localllm.types import load_options, structures
from tests.meta.test_docs import commands, help_of

PACKAGE = Path(__file__).parents[2] / "localllm"
FACTORS = {"mb": ("10 ** 6", "MB"), "kb": ("1000", "kB"), "gb": ("10 ** 9", "GB")}
SIZED = re.compile(r"_(kb|mb|gb)(?=_per_s$|$)")


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def factors() -> list[tuple[str, str, str]]:
    """Module, name and factor, wherever a name with a unit is multiplied."""
    return [
        (path.relative_to(PACKAGE).as_posix(), name_of(node.left), ast.unparse(node.right))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and SIZED.search(name_of(node.left))
    ]


def test_sizes_with_a_unit_in_their_name_become_bytes_by_its_decimal_factor() -> None:
    found = factors()
    assert {"max_bodies_mb", "max_upload_mb", "kv_ram_mb", "max_download_kb_per_s"} <= {name for _, name, _ in found}
    wrong = [each for each in found if each[2] != FACTORS[SIZED.findall(each[1])[0]][0]]
    assert not wrong


@pytest.mark.parametrize(
    "name", sorted(field.name for field in msgspec.structs.fields(Settings) if SIZED.search(field.name))
)
def test_the_help_of_a_size_names_the_unit_in_its_name(name: str) -> None:
    option, unit = f"--{name.replace('_', '-')}", FACTORS[SIZED.findall(name)[0]][1]
    shown = {found for command in commands() for found in re.findall(rf"{option} +(\S+)", help_of(command))}
    assert shown == {unit}


@pytest.mark.parametrize("of", [Settings, LoadSettings, load_options.LoadOptions, structures.GrammarLimits])
def test_what_describes_a_size_names_no_binary_unit(of: type) -> None:
    assert not re.search(r"\b[KMG]iB\b", inspect.getsource(of))
