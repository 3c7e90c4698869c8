"""Loading the library, its log, its devices. Loads happen in processes of their own: a process has one library."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from localllm.errors import LoadFailed
from localllm.llama import log
from localllm.llama.library import CpuChoice, _features
from localllm.llama.log import Log
from localllm.llama.runtimes import installed
from localllm.system import libraries

real = pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")

PREPARE = """
import sys
from pathlib import Path
from localllm.errors import LocalLLMError
from localllm.llama import library
from localllm.llama.probes import selftest
from localllm.llama.runtimes import installed
from localllm.llama.library import CpuChoice
choice = selftest.choose(Path(sys.argv[1])).choice
"""


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One self-test for all of these processes."""
    return tmp_path_factory.mktemp("data")


def python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + code, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


@real
def test_the_library_is_loaded_once_and_tells_what_it_is(memory: Path) -> None:
    done = python(
        """
loaded = library.load(choice)
assert library.load(choice) is loaded
build = loaded.build
assert build.package_version in str(build) and build.commit in str(build), build
assert Path(build.library_path).is_file() and len(build.fingerprint) == 32
assert build.features["CPU"]
try:
    library.load(CpuChoice("another"))
except LocalLLMError as error:
    assert error.code == "internal", error
else:
    raise AssertionError
""",
        memory,
    )
    assert (done.stdout, done.stderr) == ("", "")


@real
def test_the_sampler_uses_the_threads_that_compute_the_model_where_these_are_openmps(memory: Path) -> None:
    """A thread of its own would share a core with one of OpenMP's, which spin for a while after every decode."""
    python(
        """
import os
import numpy as np
from localllm.engine.sampling import native
from localllm.engine.sampling.sampler import SamplerParams
loaded = library.load(choice)
assert (loaded.team is not None) == (sys.platform == "linux" and "OPENMP" in loaded.build.features["CPU"]), loaded.team
sampler = native.load(threads=3, team=loaded.team)
rows = [np.random.default_rng(i).normal(0, 3, 5000).astype(np.float32) for i in range(8)]
tasks = lambda: set(os.listdir("/proc/self/task")) if loaded.team is not None else set()
before = tasks()
drawn = [sampler.sample(rows[:n], [SamplerParams(seed=5)] * n) for n in (8, 2, 1, 8)]
assert drawn[0][:2] == drawn[1] and drawn[0][:1] == drawn[2] and drawn[0] == drawn[3]
if loaded.team is not None:
    assert len(tasks() - before) == 2, (before, tasks())
""",
        memory,
    )


@real
def test_only_the_bindings_are_imported_and_the_whole_package_still_can_be(memory: Path) -> None:
    python(
        """
api = library.load(choice).api
assert "llama_cpp" not in sys.modules and "numpy" not in sys.modules and "jinja2" not in sys.modules
import llama_cpp
assert llama_cpp.Llama and llama_cpp.llama_cpp is api
""",
        memory,
    )


@real
def test_devices_have_names_and_memory_and_unknown_names_are_refused(memory: Path) -> None:
    python(
        """
loaded = library.load(choice)
(cpu,) = [device for device in loaded.devices() if device.kind == "cpu"]
assert 0 < cpu.free_bytes < cpu.total_bytes, cpu
assert list(loaded.device_handles([])) == [None]
first, end = loaded.device_handles([cpu.name])
assert first and end is None
try:
    loaded.device_handles(["Vulkan7"])
except LocalLLMError as error:
    assert "'Vulkan7'" in str(error) and cpu.name in str(error) and error.param == "device", error
else:
    raise AssertionError
""",
        memory,
    )


@real
def test_llama_cpps_log_is_kept_and_shown_on_stderr_only_when_asked(memory: Path, tmp_path: Path) -> None:
    code = """
loaded = library.load(choice, verbose=sys.argv[3] == "verbose")
mark = loaded.log.mark()
model = loaded.api.llama_model_load_from_file(sys.argv[2].encode(), loaded.api.llama_model_default_params())
assert not model
assert "magic" in loaded.log.errors_since(mark) or "gguf" in loaded.log.errors_since(mark), loaded.log.lines_since(mark)
assert loaded.log.lines_since(loaded.log.mark()) == []
assert loaded.log.errors_since(loaded.log.mark()) == "llama.cpp gave no reason"
"""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"this is no model")
    quiet, verbose = python(code, memory, path, "quiet"), python(code, memory, path, "verbose")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert verbose.stdout == ""
    assert "llama.cpp: " in verbose.stderr


@real
@pytest.mark.parametrize("kind", ["bogus", "empty", "missing"])
def test_a_plugin_folder_that_does_not_serve_is_an_error_naming_it(memory: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "plugins"
    if kind != "missing":
        folder.mkdir()
    plugin = folder / libraries.shared_library_names("ggml-bogus")[0]
    if kind == "bogus":
        plugin.write_bytes(b"this is no library")
    expected = {
        "bogus": f"the backend {plugin} does not load: ",
        "empty": f"the plugin folder {folder} contains no ggml backend",
        "missing": f"the plugin folder {folder} is not a folder",
    }[kind]
    done = python(
        """
try:
    library.load(choice, plugin_dir=Path(sys.argv[2]))
except LocalLLMError as error:
    assert error.code == "load_failed"
    print(error)
""",
        memory,
        folder,
    )
    assert done.stdout.startswith(expected)
    assert "gave no reason" not in done.stdout


@real
def test_a_choice_that_is_not_there_is_an_error(memory: Path) -> None:
    done = python(
        """
try:
    library.load(CpuChoice("pentium"))
except LocalLLMError as error:
    print(error)
""",
        memory,
    )
    assert "has no CPU backend 'pentium'" in done.stdout


def test_a_missing_library_says_what_to_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    with pytest.raises(LoadFailed, match=r"pip install .*llama-cpp-python==") as caught:
        installed.find()
    assert str(caught.value.details["command"]) in str(caught.value)


@pytest.mark.parametrize(
    ("choice", "label"),
    [
        (CpuChoice("zen4"), "zen4"),
        (CpuChoice(None), "linked-in"),
        (CpuChoice(None, extra_bufts=False), "linked-in, use_extra_bufts=off"),
    ],
)
def test_a_choice_has_a_label_for_people(choice: CpuChoice, label: str) -> None:
    assert choice.label() == label


def test_features_are_read_from_the_system_info_by_backend() -> None:
    text = "CUDA : ARCHS = 500,610 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX512 = 0 | REPACK = 1 | "
    assert _features(text) == {"CUDA": ["ARCHS=500,610", "USE_GRAPHS"], "CPU": ["SSE3", "REPACK"]}
    assert _features("") == {}


def test_the_log_joins_pieces_into_lines_and_drops_progress_dots() -> None:
    lines = Log()
    lines.receive(log.INFO, b"loading ")
    lines.receive(log.CONTINUED, b"tensors\nand more\n")
    for _ in range(3):
        lines.receive(log.CONTINUED, b".")
    lines.receive(log.CONTINUED, b"\n")
    lines.receive(log.ERROR, b"no room \xff")
    lines.receive(log.WARN, None)
    assert lines.lines_since(0) == ["loading tensors", "and more", "no room �"]
    assert lines.errors_since(0) == "no room �"


def test_a_reason_prefers_errors_to_warnings_and_takes_the_last_three() -> None:
    lines = Log()
    lines.receive(log.WARN, b"careful\n")
    assert lines.errors_since(0) == "careful"
    lines.receive(log.ERROR, b"one\ntwo\nthree\nfour\n")
    assert lines.errors_since(0) == "two; three; four"


def test_the_log_is_bounded() -> None:
    lines = Log()
    for number in range(2 * log.NUM_KEPT_LINES):
        lines.receive(log.INFO, b"x" * 10_000 + b"%d\n" % number)
    kept = lines.lines_since(0)
    assert len(kept) == log.NUM_KEPT_LINES
    assert max(map(len, kept)) <= log.MAX_LINE_CHARS
