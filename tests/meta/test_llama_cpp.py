"""What localllm knows of one llama.cpp build is listed, tested and on the page, and one constant names that build."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from localllm.llama.fact_kinds import KINDS, THENS
from localllm.llama.facts import FACTS
from localllm.types import upstream
from localllm.types.libraries.wheels import WHEELS
from tests.meta.llama_cpp_facts import Finding, Module, findings, modules, top_level_names
from tests.meta.llama_cpp_page import PAGE, page
from tests.models import families

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
NO_FACTS = {
    "localllm.engine.sampling.native:_Params": "a struct of our own library",
    "localllm.engine.sampling.native:_Result": "a struct of our own library",
    "localllm.system.memory:_windows_memory": "a struct of Windows",
    "localllm.system.files:_lock_region": "a struct of Windows",
    "localllm.registry.making.templates:NAMED": "our own templates",
    "localllm.registry.making.templates:OF_ARCHITECTURE": "our own templates; a new architecture has none",
    "localllm.registry.making.templates:_CHATS_BY_DEFAULT": "how vendors name their models",
    "localllm.llama.runtimes.archives:_LIBRARY": "names of files",
    "localllm.llama.backends:_STEM": "names of devices, as users write them",
    "localllm.llama.backends:_MISSING": "messages of the system's loader",
    "localllm.llama.runtimes.build_faults:_fault": "messages of compilers",
    "localllm.llama.runtimes.build_targets:_CAPABILITY": "output of NVIDIA's tool",
    "localllm.llama.runtimes.building:NAME": "names of runtimes",
    "localllm.llama.runtimes.building:_STEP": "output of ninja",
    "localllm.llama.runtimes.installed:_package_version": "the bindings' source",
    "localllm.llama.spread:Spread": "patterns of users",
    "localllm.llama.tokens.text_cuts:find_delimiters": "verified for each vocabulary",
}
"""What looks like a fact of llama.cpp, and what it is."""


@cache
def looked_at() -> tuple[list[Finding], set[str]]:
    """What looks like a fact in any module, and all places; parsed once."""
    facts: list[Finding] = []
    places: set[str] = set()
    for module in modules():
        facts += findings(module)
        places |= {f"{module.name}:{name}" for name in top_level_names(module)}
    return facts, places


def found() -> list[Finding]:
    return looked_at()[0]


def test_whoever_knows_a_fact_of_llama_cpp_is_listed() -> None:
    listed = {place for fact in FACTS for place in fact.places}
    assert [each for each in found() if each.place not in listed | NO_FACTS.keys()] == []
    assert NO_FACTS.keys() <= {each.place for each in found()}, "what is gone needs no excuse"
    assert not NO_FACTS.keys() & listed


def test_every_shape_of_a_fact_is_recognized() -> None:
    """Else a pattern that no longer matches anything would go unnoticed."""
    shapes = {
        "a mangled name": "NAMES = {'a': ('_Z10llama_funcP13llama_context', '?llama_func@@YAX')}",
        "the layout of a struct": "class A(ctypes.Structure):\n    pass",
        "a table of pointers": "def f(a):\n    slot = ctypes.c_void_p.from_address(a + 8)\n    slot.value = 1",
        "signatures of functions": "S = {'ggml_free': (None, [])}",
        "a number of an enum": "def f(a):\n    return a.backend_dev_type(0) == 1",
        "numbers of an enum": "A = 1\n'LLAMA_SPLIT_MODE_LAYER'",
        "the name of a node or function": "A = b'result_norm'",
        "text of llama.cpp's log": "A = re.compile('assigned to device')",
        "an environment variable of llama.cpp": "def f():\n    os.environ['GGML_NO_BACKTRACE'] = '1'",
        "an option of llama.cpp's build": "A = '-DGGML_NATIVE=OFF'",
    }
    for why, code in shapes.items():
        assert [each.why for each in findings(Module("localllm.llama.model", ast.parse(code)))][:1] == [why]
    for code in ("A = frozenset({'llama', 'qwen3'})", "def f(info):\n    return info.architecture == 'gemma3'"):
        (finding,) = findings(Module("localllm.server.app", ast.parse(code)))
        assert finding.why == "names of architectures"
        assert not list(findings(Module("localllm.gguf.rules.memory", ast.parse(code))))


def test_every_place_that_is_listed_exists() -> None:
    _, known = looked_at()
    assert [place for fact in FACTS for place in fact.places if place not in known] == []


def test_every_test_that_is_listed_exists() -> None:
    known = {
        f"{path.name}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert [test for fact in FACTS for test in fact.tests if test not in known] == []


def test_every_fact_says_who_knows_it_which_test_fails_and_what_then_happens() -> None:
    for fact in FACTS:
        assert fact.places, fact.what
        assert fact.tests, fact.what
        assert fact.source, fact.what
        assert fact.kind in KINDS, fact.what
        assert fact.then in THENS, fact.what
    assert {fact.kind for fact in FACTS} == KINDS.keys()


def test_the_page_shows_all_of_it() -> None:
    assert PAGE.read_text("utf-8") == page(), "`python -m tests.meta.llama_cpp_page` writes it"


def test_the_pins_are_those_of_the_build_that_is_known() -> None:
    assert re.findall(rf'"{upstream.PACKAGE}(.*?)"', PYPROJECT) == [f"=={upstream.PACKAGE_VERSION}"]
    assert set(re.findall(rf'"{upstream.WHEEL_PACKAGE}(==.*?)"', PYPROJECT)) == {f"=={upstream.WHEEL_VERSION}"}
    pinned = {f"{wheel.package}=={wheel.version}" for wheel in WHEELS if wheel.libraries}
    assert set(re.findall(r'"(cyllama.*?)"', PYPROJECT)) == pinned


def test_the_models_of_the_tests_are_written_for_that_build() -> None:
    """Keys and tensors of each family were read in its source: another build means another look."""
    assert families.COMMIT == upstream.COMMIT


def test_no_one_else_names_a_commit_of_llama_cpp() -> None:
    named = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{9}\b")
    for path in sorted((ROOT / "localllm").rglob("*.py")):
        text = path.read_text("utf-8")
        if path.name != "upstream.py" and ("llama.cpp" in text or "ggml" in text):
            assert not named.findall(text), f"{path} names a commit; `types.upstream.COMMIT` does"
