"""Other llama.cpp under the same bindings: a wheel's, and the package's own taken in as a folder."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from localllm.errors import LoadFailed
from localllm.llama import building, installed, runtimes, selftest, selftest_child
from localllm.llama.library import CpuChoice


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def test_the_wheels_library_gives_the_recorded_tokens(data: Path) -> None:
    outcome = selftest.choose(data, runtime="wheel")
    assert outcome.choice.runtime.name == "wheel"
    assert outcome.trial.result == "ok"
    assert outcome.choice.label().startswith("wheel: ")


def test_a_function_that_a_library_lacks_is_an_error_when_it_is_called_and_not_before(data: Path) -> None:
    code = f"""
from pathlib import Path
from localllm.errors import LoadFailed
from localllm.llama import library, selftest
api = library.load(selftest.choose(Path({str(data)!r}), runtime="wheel").choice).api
try:
    api.llama_model_quantize(b"", b"", None)
except LoadFailed as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "llama_model_quantize" in done.stdout


def test_a_build_with_every_cpus_code_is_used_before_a_wheel(data: Path) -> None:
    if not installed.find().variants:
        pytest.skip("the installed llama.cpp is a plain build")
    assert selftest.choose(data).choice.runtime == runtimes.PACKAGE


def test_what_was_chosen_is_used(data: Path) -> None:
    runtimes.choose("wheel", data)
    try:
        assert selftest.choose(data).choice.runtime.name == "wheel"
    finally:
        runtimes.choose("auto", data)


def test_libraries_from_elsewhere_are_tested_taken_in_and_used(tmp_path: Path) -> None:
    files = installed.find()
    source = tmp_path / "source"
    source.mkdir()
    for path in (*files.library_dir.iterdir(), *files.variants.values()):
        (source / path.name).symlink_to(path)
    made = building.add(source, tmp_path / "data", name="mine", check=_check)
    outcome = selftest.choose(tmp_path / "data", runtime="mine")
    assert outcome.choice.runtime == made
    assert outcome.trial.result == "ok"


def _check(runtime: runtimes.Runtime) -> None:
    selftest.examine(runtime)


def test_a_library_that_is_no_llama_is_refused_with_what_it_did(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "libllama.so").write_bytes(b"\x7fELF of nothing")
    with pytest.raises(LoadFailed):
        building.add(source, tmp_path / "data", name="bad", check=_check)
    assert all(each.runtime.name != "bad" for each in runtimes.listed(tmp_path / "data"))


def test_structs_with_a_field_more_are_noticed() -> None:
    class Context(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int) for name in selftest_child.CONTEXT]

    shifted = Context(*[0, *[0] * (len(selftest_child.CONTEXT) - 1)])
    api = SimpleNamespace(llama_context_default_params=lambda: shifted, llama_model_default_params=lambda: None)
    with pytest.raises(LoadFailed, match="n_ctx"):
        selftest_child.check_layout(api)


def test_the_label_names_the_runtime_only_where_it_is_not_the_packages_own() -> None:
    assert CpuChoice("zen4").label() == "zen4"
    assert CpuChoice(None, False, runtimes.Runtime("mine", "x")).label() == "mine: linked-in, use_extra_bufts=off"
