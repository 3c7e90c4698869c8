"""Other llama.cpp under the same bindings: a wheel's, and the package's own taken in as a folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from localllm import LLM
from localllm.errors import LoadFailed
from localllm.gguf.architectures import needs
from localllm.llama import bindings
from localllm.llama.lacking import QUANTIZE
from localllm.llama.library import CpuChoice
from localllm.llama.probes import selftest
from localllm.llama.runtimes import building, found, installed
from localllm.types import TokenLogprob, upstream
from localllm.types.libraries import builds
from tests.models.maker import write_llama

needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("gcc") is None, reason="it compiles backends with gcc"
)


ROUNDING = 0.1
"""More than the demo model's log-probabilities differ between CPU backends."""


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
from localllm.llama import library
from localllm.llama.probes import selftest
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
    assert selftest.choose(data).choice.runtime == found.PACKAGE


def test_what_was_chosen_is_used(data: Path) -> None:
    found.choose("wheel", data)
    try:
        assert selftest.choose(data).choice.runtime.name == "wheel"
    finally:
        found.choose("auto", data)


def test_libraries_from_elsewhere_are_tested_taken_in_and_used(tmp_path: Path) -> None:
    source = _libraries(tmp_path / "source")
    made = building.add(source, tmp_path / "data", name="mine", check=_check)
    outcome = selftest.choose(tmp_path / "data", runtime="mine")
    assert outcome.choice.runtime == made
    assert outcome.trial.result == "ok"


def _check(runtime: found.Runtime) -> str:
    return selftest.examine(runtime).trial.build


def test_a_library_that_is_no_llama_is_refused_with_what_it_did(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "libllama.so").write_bytes(b"\x7fELF of nothing")
    with pytest.raises(LoadFailed):
        building.add(source, tmp_path / "data", name="bad", check=_check)
    assert all(each.runtime.name != "bad" for each in found.listed(tmp_path / "data"))


@needs_compiler
def test_a_backend_whose_driver_is_missing_is_kept_and_says_so_wherever_it_is_looked_at(tmp_path: Path) -> None:
    # As a build for GPUs is on a machine without one: linked with a library that comes with the driver alone.
    home, source = tmp_path / "home", _libraries(tmp_path / "source")
    driver = _compiled(tmp_path / "libcuda.so.1", "int cuInit(void) { return 0; }")
    _compiled(source / "libggml-cuda.so", "int cuInit(void); int used(void) { return cuInit(); }", str(driver))
    driver.unlink()
    made = building.add(source, home, name="mine", kind="cuda", check=_check)

    outcome = selftest.choose(home, runtime="mine")
    assert outcome.trial.result == "ok", "it computes on the CPU all the same"
    (words,) = outcome.trial.absent
    assert words == "libggml-cuda.so does not load: libcuda.so.1 is missing, a part of NVIDIA's driver"
    assert words in selftest.describe(outcome.trial)
    assert selftest.known(home, made) is not None
    for command in (["runtime", "list"], ["runtime", "test", "mine"], ["doctor", "--runtime", "mine"]):
        done = subprocess.run(
            [sys.executable, "-m", "localllm", *command, "--home", str(home)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "libcuda.so.1 is missing" in " ".join((done.stdout + done.stderr).split()), command
    wished = f"""
from pathlib import Path
from localllm.errors import LoadFailed
from localllm.llama.runtimes.requested import Wishes
wishes = Wishes(devices=("cuda0",))
try:
    wishes.load(wishes.choose(Path({str(home)!r})), verbose=False)
except LoadFailed as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", wished], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"device: {words}"


@needs_compiler
def test_a_backend_that_was_built_for_another_ggml_is_refused(tmp_path: Path) -> None:
    source = _libraries(tmp_path / "source")
    code = "int ggml_function_of_next_year(void); int used(void) { return ggml_function_of_next_year(); }"
    _compiled(source / "libggml-cuda.so", code)
    with pytest.raises(LoadFailed, match="ggml_function_of_next_year"):
        building.add(source, tmp_path / "home", name="mine", check=_check)


@needs_compiler
def test_a_library_that_is_linked_with_a_missing_driver_names_it_and_costs_no_other(tmp_path: Path) -> None:
    """As wheels whose backend for GPUs is no file that could be left out."""
    source = tmp_path / "source"
    source.mkdir()
    driver = _compiled(tmp_path / "libcuda.so.1", "int cuInit(void) { return 0; }")
    _compiled(source / "libllama.so", "int cuInit(void); int used(void) { return cuInit(); }", str(driver))
    driver.unlink()
    with pytest.raises(LoadFailed) as failed:
        building.add(source, tmp_path / "home", name="mine", check=_check)
    assert "libcuda.so.1 is missing, a part of NVIDIA's driver" in failed.value.message
    assert "pip install" not in failed.value.message, "nothing is wrong with the package"
    assert str(tmp_path) not in failed.value.public

    building.add(source, tmp_path / "home", name="mine", check=lambda _: "")  # the driver was there then
    assert selftest.choose(tmp_path / "home").choice.runtime == found.PACKAGE


def _libraries(folder: Path) -> Path:
    """The package's own, as links."""
    files = installed.find()
    folder.mkdir()
    for path in (*files.library_dir.iterdir(), *files.variants.values()):
        (folder / path.name).symlink_to(path)
    return folder


def _compiled(path: Path, code: str, *linked_with: str) -> Path:
    """`gcc` without -Wl,-z,defs: what is undefined is looked for when it is loaded."""
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *linked_with, "-o", str(path)]
    subprocess.run([*command, f"-Wl,-soname,{path.name}"], input=code.encode(), check=True)
    return path


@pytest.mark.parametrize(
    ("version", "ggml", "commit", "build"),
    [
        (b"0.5.0-dev", "0.25.3", "0c1e570-dirty", "0.5.0"),
        (b"0.5.0-dev", "0.25.3", "unknown", "0.5.0"),
        (b"0.6.0-dev", "0.26.0", "unknown", "0.6.0"),
        (b"0.5.0-dev", "0.25.3", "1234567", None),
        (b"0.5.0-dev", "0.25.4", "0c1e570", None),
        (b"0.9.0", "0.30.0", "unknown", None),
    ],
)
def test_a_build_is_known_by_its_versions_and_commit(version: bytes, ggml: str, commit: str, build: str | None) -> None:
    found = bindings.recognize(SimpleNamespace(llama_version=lambda: version), ggml, commit)
    assert (None if found is None else found.version) == build


def test_structs_with_a_field_more_are_noticed_and_resembled_ones_found(data: Path) -> None:
    """What the library says of itself is not believed: the package's is read as a build with one field more."""
    code = f"""
from pathlib import Path
from localllm.errors import LoadFailed
from localllm.llama import bindings, library
from localllm.llama.probes import selftest
from localllm.types import upstream
from localllm.types.libraries import builds
choice = selftest.choose(Path({str(data)!r}), runtime="package").choice
bindings.recognize = lambda *_: builds.named("0.6.0")
try:
    library.load(choice)
except LoadFailed as error:
    print(error.message)
bindings.recognize = lambda *_: None
try:
    library.load(choice)
except LoadFailed as error:
    print(error.message)
import msgspec
loaded = library.load(msgspec.structs.replace(choice, runtime=found.Runtime("package", unverified=True)))
print(loaded.known.version)
""".replace("found.Runtime", "library.Runtime")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shifted, unknown, version = done.stdout.splitlines()
    assert (
        shifted
        == "this llama.cpp is not the 0.6 (b11549) that it says it is: abort_callback_data is 4311810304, not None"
    )
    assert re.fullmatch(
        r"this llama\.cpp is version 0\.5\.0 \(ggml 0\.25\.3, commit [\w-]+\), which this localllm does not know; it "
        r"knows 0\.4 .*; `localllm runtime list` shows runtimes, and `localllm runtime install FILE "
        r"--unverified` tries one anyway",
        unknown,
    )
    assert version == "0.5.0"


def test_the_label_names_the_runtime_only_where_it_is_not_the_packages_own() -> None:
    assert CpuChoice("zen4").label() == "zen4"
    assert CpuChoice(None, False, found.Runtime("mine", "x")).label() == "mine: linked-in, use_extra_bufts=off"


def test_a_model_is_loaded_by_the_runtime_that_knows_its_architecture(data: Path, tmp_path: Path) -> None:
    (row,) = [each for each in found.listed(data) if each.runtime.name == "wheel"]
    if not row.knows("k2-horizon"):
        pytest.skip("the installed wheel is older than the pinned one")
    path = write_llama(tmp_path / "k2.gguf", architecture="k2-horizon")
    code = f"""
import sys
from pathlib import Path
from localllm.errors import LoadFailed
from localllm.llama.model import LlamaModel
from localllm.llama.runtimes.requested import Wishes
wishes = Wishes(runtime=sys.argv[1], architecture="k2-horizon")
library = wishes.load(wishes.choose(Path({str(data)!r})), verbose=False)
try:
    model = LlamaModel(library, Path({str(path)!r}), gpu_layers=0, devices=(), must_offload=False)
    print(library.choice.runtime.name, model.dimensions)
except LoadFailed as error:
    print(error.public)
"""
    answers = [
        subprocess.run([sys.executable, "-c", code, runtime], capture_output=True, text=True, check=True).stdout.strip()
        for runtime in ("auto", "package")
    ]
    assert answers == [
        "wheel 64",
        "the model cannot be loaded: its architecture is unknown to the llama.cpp in use (0.5 (0c1e57098), package); "
        + str(needs("k2-horizon", builds.named("0.5.0"))),
    ]


def test_texts_are_the_same_with_one_runtime_and_part_at_ties_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was measured of the demo model's log-probabilities, with instructions from AVX2 to AMX: at most 0.06."""

    def answers(runtime: str, **sampling: Any) -> list[tuple[TokenLogprob, ...]]:
        monkeypatch.setenv("LOCALLLM_RUNTIME", runtime)
        with LLM("demo", slots=1, ctx=256, threads=1) as llm:
            given = {"max_tokens": 48, "logprobs": 5, **sampling}
            return [llm.complete(prompt, **given).logprobs for prompt in ("Once upon a time", "Dear Sir", "1 2 3 4")]

    drawn = [answers("package", temperature=0.8, seed=7) for _ in range(2)]
    assert drawn[0] == drawn[1]
    for ours, others in zip(answers("package", temperature=0), answers("wheel", temperature=0), strict=True):
        for one, other in zip(ours, others, strict=False):
            if one.token != other.token:
                best, second = sorted((logprob for _, logprob in one.top), reverse=True)[:2]
                assert best - second < 2 * ROUNDING, "a tie"
                break
            assert one.logprob == pytest.approx(other.logprob, abs=ROUNDING)


def test_quantizing_takes_a_runtime_that_can(data: Path) -> None:
    found.choose("wheel", data)
    try:
        assert selftest.choose(data).trial.lacks == (QUANTIZE,)
        assert selftest.choose_quantizing(data).choice.runtime == found.PACKAGE
    finally:
        found.choose("auto", data)


def test_auto_tries_a_runtime_last_whose_devices_were_no_faster_than_the_cpu(tmp_path: Path) -> None:
    """Unless layers have to be on a GPU: then it is the one that has them."""
    folder, own = found.folder_of(tmp_path) / "vulkan", installed.find()
    folder.mkdir(parents=True)
    for path in (*own.library_dir.iterdir(), *own.variants.values()):
        (folder / path.name).symlink_to(path)
    manifest = found.Manifest(origin="added", package_version=upstream.PACKAGE_VERSION, kind="vulkan")
    (folder / found.MANIFEST).write_bytes(msgspec.json.encode(manifest))
    assert found.usable(tmp_path)[0].name == "vulkan"
    found.put_last("vulkan", tmp_path, is_last=True)
    assert found.usable(tmp_path)[-1].name == "vulkan"
    assert selftest.choose(tmp_path).choice.runtime.name != "vulkan"
    assert selftest.choose(tmp_path, gpus=True).choice.runtime.name == "vulkan"
    found.put_last("vulkan", tmp_path, is_last=False)
    assert found.usable(tmp_path)[0].name == "vulkan"
