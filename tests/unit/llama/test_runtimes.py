"""Which llama.cpp there are: what is looked at are files, so files are all that these tests need."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import DiskFull, InvalidParameter, LoadFailed
from localllm.llama import backends
from localllm.llama.runtimes import (
    archives,
    build_targets,
    building,
    gains,
    in_packages,
    installed,
    wheel_files,
    wheel_index,
)
from localllm.llama.runtimes import found as runtimes
from localllm.llama.runtimes.found import AUTO, Manifest, Runtime, RuntimeRow
from localllm.system import cpu, libraries, machine
from localllm.types import upstream
from localllm.types.libraries.wheels import WHEELS, File, Wheel

LIBRARY = libraries.shared_library_names("llama")[0]
CPU = libraries.shared_library_names("ggml-cpu-zen9")[0]


def _nothing_against(_: Runtime) -> str:
    return upstream.LLAMA_VERSION


def _libraries(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / LIBRARY).write_bytes(b"llama")
    (folder / CPU).write_bytes(b"cpu")
    (folder / "README.md").write_text("no library")
    return folder


def _add(tmp_path: Path, name: str = "mine") -> Runtime:
    return building.add(_libraries(tmp_path / f"source-{name}"), tmp_path / "data", name=name, check=_nothing_against)


def test_a_folder_of_libraries_becomes_a_runtime_with_its_variants(tmp_path: Path) -> None:
    made = _add(tmp_path)
    assert made in runtimes.usable(tmp_path / "data")
    files = installed.find(made.library)
    assert files.is_foreign
    assert list(files.variants) == ["zen9"]
    assert not (Path(made.library).parent / "README.md").exists()


def test_archives_are_taken_in_with_their_links_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "release.tar.gz", "w:gz") as tar:
        for name, content in ((f"build/bin/{LIBRARY}.0.5", b"llama"), ("../../evil.so", b"flat")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"build/bin/{LIBRARY}")
        link.type, link.linkname = tarfile.SYMTYPE, f"{LIBRARY}.0.5"
        tar.addfile(link)
    made = building.add(tmp_path / "release.tar.gz", tmp_path / "data", check=_nothing_against)
    assert made.name == "release"
    assert Path(made.library).read_bytes() == b"llama"
    assert not (tmp_path / "evil.so").exists()
    assert (Path(made.library).parent / "evil.so").exists()


def _zip_of(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {LIBRARY: b"llama", **entries}.items():
            archive.writestr(name, content)
    return path


def test_links_in_a_zip_are_followed_as_in_a_tar(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "release.zip", "w") as archive:
        link = zipfile.ZipInfo(f"lib/{LIBRARY}")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, f"{LIBRARY}.0")
        archive.writestr(f"lib/{LIBRARY}.0", b"llama")
        outside = zipfile.ZipInfo("lib/libevil.so")
        outside.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(outside, "/etc/passwd")
    made = building.add(tmp_path / "release.zip", tmp_path / "data", check=_nothing_against)
    assert Path(made.library).read_bytes() == b"llama"
    assert not (Path(made.library).parent / "libevil.so").exists()


@pytest.mark.parametrize(
    "name", ["../../evil.so", "/evil.so", "..\\..\\evil.so", "C:\\evil.so", "a/../../../evil.so", "\\\\host\\evil.so"]
)
def test_no_name_in_an_archive_leads_out_of_its_folder(tmp_path: Path, name: str) -> None:
    made = building.add(_zip_of(tmp_path / "x.zip", **{name: b"evil"}), tmp_path / "data", check=_nothing_against)
    folder = Path(made.library).parent
    assert sorted(path.name for path in folder.iterdir()) == sorted(["evil.so", LIBRARY, runtimes.MANIFEST])
    assert list(tmp_path.rglob("evil.so")) == [folder / "evil.so"]


@pytest.mark.parametrize("name", ["nul.so", "a:b.so", ".hidden.so", "x.so.", "é.so", "-rf.so", "x.so/", "x\n.so"])
def test_what_is_called_as_no_library_is_stays_out(tmp_path: Path, name: str) -> None:
    made = building.add(_zip_of(tmp_path / "x.zip", **{name: b"evil"}), tmp_path / "data", check=_nothing_against)
    assert {path.name for path in Path(made.library).parent.iterdir()} == {LIBRARY, runtimes.MANIFEST}


def _tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", LIBRARY, "libother.so"])
def test_no_link_in_a_tar_brings_in_a_file_of_this_machine(tmp_path: Path, kind: bytes, target: str) -> None:
    link = tarfile.TarInfo(LIBRARY)
    link.type, link.linkname = kind, target
    back = tarfile.TarInfo("libother.so")
    back.type, back.linkname = kind, LIBRARY
    path = _tar_of(tmp_path / "x.tar.gz", (link, b""), (back, b""))
    with pytest.raises(LoadFailed, match="no libllama"):
        building.add(path, tmp_path / "data", check=_nothing_against)


def test_an_archive_that_unpacks_to_more_than_libraries_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 2**20)
    bomb = _zip_of(tmp_path / "bomb.zip", **{"libbomb.so": bytes(2**22)})
    with pytest.raises(LoadFailed, match="larger than"):
        building.add(bomb, tmp_path / "data", check=_nothing_against)
    in_tar = _tar_of(tmp_path / "bomb.tar.gz", (tarfile.TarInfo("README"), bytes(2**22)))
    with pytest.raises(LoadFailed, match="more than"):
        building.add(in_tar, tmp_path / "data", name="bomb", check=_nothing_against)
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    many = _zip_of(tmp_path / "many.zip", **{f"file{number}": b"" for number in range(3)})
    with pytest.raises(LoadFailed, match="more than"):
        building.add(many, tmp_path / "data", check=_nothing_against)
    assert list(runtimes.folder_of(tmp_path / "data").iterdir()) == []


def test_a_tar_header_of_an_absurd_size_takes_no_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 2**33
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(2**16))
    with pytest.raises(LoadFailed, match="absurd"):
        building.add(tmp_path / "bomb.tar.gz", tmp_path / "data", check=_nothing_against)


@given(st.sampled_from(["zip", "tar.gz", "tar.xz", "tar"]), st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_a_damaged_archive_is_an_error_of_ours_or_none(form: str, at: int, byte: int, is_cut: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _libraries(folder / "source")
        made = shutil.make_archive(
            str(folder / "made"), {"tar.gz": "gztar", "tar.xz": "xztar"}.get(form, form), folder / "source"
        )
        content = bytearray(Path(made).read_bytes())
        at %= len(content)
        content[at] ^= byte
        Path(made).write_bytes(content[:at] if is_cut else content)
        try:
            building.add(Path(made), folder / "data", name="made", check=_nothing_against)
            expected = ["made"]
        except LoadFailed:
            expected = []
        kept = runtimes.folder_of(folder / "data")
        assert [path.name for path in kept.glob("*")] == expected, "what is refused leaves nothing"


@pytest.mark.parametrize(
    ("mark", "at", "byte"),
    [
        (b"PK\5\6", 17, 1),  # where the directory begins, which all other places count from: negative then
        (b"PK\1\2", 10, 12),  # bzip2 instead of deflate
    ],
)
def test_a_zip_that_lies_about_its_content_is_an_error_of_ours(tmp_path: Path, mark: bytes, at: int, byte: int) -> None:
    made = Path(shutil.make_archive(str(tmp_path / "made"), "zip", _libraries(tmp_path / "source")))
    content = bytearray(made.read_bytes())
    content[content.rindex(mark) + at] = byte
    made.write_bytes(content)
    with pytest.raises(LoadFailed):
        building.add(made, tmp_path / "data", name="made", check=_nothing_against)
    assert list(runtimes.folder_of(tmp_path / "data").iterdir()) == []


def test_a_damaged_bz2_is_an_error_of_ours(tmp_path: Path) -> None:
    made = Path(shutil.make_archive(str(tmp_path / "made"), "bztar", _libraries(tmp_path / "source")))
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 255
    made.write_bytes(content)
    with pytest.raises(LoadFailed):
        building.add(made, tmp_path / "data", name="made", check=_nothing_against)


def test_what_fails_its_check_leaves_nothing(tmp_path: Path) -> None:
    def refuse(_: Runtime) -> str:
        raise LoadFailed("computes wrongly")

    with pytest.raises(LoadFailed, match="computes wrongly"):
        building.add(_libraries(tmp_path / "source"), tmp_path / "data", name="bad", check=refuse)
    assert list(runtimes.folder_of(tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_what_is_no_archive_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thing.zip"
    path.write_bytes(content)
    with pytest.raises(LoadFailed, match=r"thing\.zip is not an archive"):
        building.add(path, tmp_path / "data", check=_nothing_against)


def test_an_archive_without_a_libllama_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr(CPU, b"cpu")
    with pytest.raises(LoadFailed, match="no libllama"):
        building.add(tmp_path / "other.zip", tmp_path / "data", check=_nothing_against)


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    _add(tmp_path)
    with pytest.raises(InvalidParameter, match="already"):
        building.add(tmp_path / "source-mine", tmp_path / "data", name="mine", check=_nothing_against)


@pytest.mark.parametrize("name", ["auto", "package", "wheel", "", "..", "a/b", "Ä", "x" * 41, ".hidden"])
def test_no_name_leaves_its_folder_or_means_two_things(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidParameter):
        building.check_name(name)
    with pytest.raises(InvalidParameter):
        building.remove(name, tmp_path)


def test_one_of_another_version_is_listed_and_not_used(tmp_path: Path) -> None:
    made = _add(tmp_path)
    manifest = Path(made.library).parent / runtimes.MANIFEST
    manifest.write_bytes(msgspec.json.encode(Manifest(origin="built", package_version="0.3.1")))
    (listed,) = [each for each in runtimes.listed(tmp_path / "data") if each.runtime == made]
    assert "0.3.1" in listed.why_not
    assert made not in runtimes.usable(tmp_path / "data")
    with pytest.raises(LoadFailed, match=r"0\.3\.1"):
        runtimes.named("mine", tmp_path / "data")
    known = Manifest(origin="added", package_version="?", build="0.6.0", unverified=True)
    manifest.write_bytes(msgspec.json.encode(known))
    (listed,) = [each for each in runtimes.listed(tmp_path / "data") if each.runtime.name == "mine"]
    assert (listed.llama_cpp, listed.runtime.unverified) == ("like 0.6 (b11549), unverified", True)


@pytest.mark.parametrize("content", [b"{", b"[]", b"x" * 100_000])
def test_a_damaged_manifest_hides_no_other_runtime(tmp_path: Path, content: bytes) -> None:
    made, other = _add(tmp_path), _add(tmp_path, "other")
    (Path(made.library).parent / runtimes.MANIFEST).write_bytes(content)
    assert [each for each in runtimes.usable(tmp_path / "data") if each.name in ("mine", "other")] == [other]


def test_what_was_chosen_is_kept_until_it_is_taken_back(tmp_path: Path) -> None:
    made = _add(tmp_path)
    data = tmp_path / "data"
    assert runtimes.chosen(data) is None
    runtimes.choose(made.name, data)
    assert runtimes.chosen(data) == "mine"
    with pytest.raises(LoadFailed, match="no runtime 'yours'"):
        runtimes.choose("yours", data)
    runtimes.choose(AUTO, data)
    assert runtimes.chosen(data) is None


def _stub_pip(tmp_path: Path, body: str) -> tuple[str, str]:
    path = tmp_path / "pip.py"
    path.write_text(
        f"import os, sys, zipfile\nfolder = sys.argv[sys.argv.index('--wheel-dir') + 1]\n"
        f"print('[1/2] Building CXX object'); print('[2/2] Linking')\n{body}\n"
    )
    return sys.executable, str(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of files as on Linux")
def test_a_wheel_is_asked_for_by_version_and_hash_and_only_its_llama_cpp_is_kept(tmp_path: Path) -> None:
    folder = "cyllama_vulkan.libs"
    inside = [
        "cyllama/llama/llama_cpp.abi3.so", "cyllama/sd/stable_diffusion.abi3.so", f"{folder}/libmtmd-a07492fb.so.0.7.0",
        f"{folder}/libllama-af9aab63.so.0.7.0", f"{folder}/libggml-2f623e0b.so.0.27.0",
        f"{folder}/libggml-base-82914aef.so.0.27.0", f"{folder}/libggml-cpu-0786c92d.so",
        f"{folder}/libggml-vulkan-4062e2a6.so", f"{folder}/libgomp-a34b3233.so.1.0.0",
    ]  # fmt: skip
    pip = tmp_path / "pip.py"
    pip.write_text(
        "import sys, zipfile\nfrom pathlib import Path\n"
        "folder, wanted = (sys.argv[sys.argv.index(option) + 1] for option in ('--dest', '--requirement'))\n"
        f"Path({str(tmp_path)!r}, 'wanted').write_text(Path(wanted).read_text())\n"
        "with zipfile.ZipFile(folder + '/made.whl', 'w') as wheel:\n"
        f"    for name in {inside!r}:\n        wheel.writestr(name, name)"
    )
    wheel = wheel_files.named("vulkan-0.7")
    assert wheel is not None
    made = building.add_wheel(wheel, tmp_path / "data", check=lambda _: "0.7.0", pip=(sys.executable, str(pip)))
    digest = wheel.files["linux-x86_64"].sha256
    assert wheel_files.named("vulkan") is wheel, "the newest of its kind"
    assert (tmp_path / "wanted").read_text() == f"cyllama-vulkan==0.7.0 --hash=sha256:{digest}\n"
    files = installed.find(made.library)
    kept = {path.name for path in files.library_dir.iterdir()}
    assert kept == {*(Path(name).name for name in inside[2:]), runtimes.MANIFEST}
    assert [libraries.stem_of(path) for path in files.core] == ["llama", "ggml", "ggml-base", "ggml-cpu"]
    assert (list(files.variants), files.has_all_variants) == (["cpu"], False)
    assert backends.brings(made, ("vulkan",))
    (listed,) = [each for each in runtimes.listed(tmp_path / "data") if each.runtime == made]
    assert (listed.origin, listed.kind, listed.version, listed.why_not) == ("wheel", "vulkan", "0.7.0", "")
    assert listed.llama_cpp == "0.7 (620d222)"


def test_a_download_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    pip = tmp_path / "pip.py"
    pip.write_text("import sys; print('WARNING: old'); print('ERROR: no matching distribution'); sys.exit(1)")
    wheel = wheel_files.offered()[0]
    with pytest.raises(LoadFailed, match=rf"{wheel.package} {wheel.version}: ERROR: no matching distribution"):
        building.add_wheel(wheel, tmp_path, check=_nothing_against, pip=(sys.executable, str(pip)))
    assert [path.name for path in runtimes.folder_of(tmp_path).iterdir()] == []
    with pytest.raises(InvalidParameter, match=r"there is no wheel-7; there are the wheels .*wheel-2026\.10"):
        building.add(Path("wheel-7"), tmp_path, check=_nothing_against)


@pytest.mark.parametrize(
    ("target", "url", "sha256", "words"),
    [
        ("cuda12", "http://example.org/whl/cu124", "", "begin with https"),
        ("cuda12", "file:///whl/cu124", "", "begin with https"),
        ("cuda12", "https://me:secret@example.org/whl/cu124", "", "netrc"),
        ("cuda12", "https://example.org/whl/cu124", "abc", "64 hexadecimal digits"),
        ("sycl", "https://example.org/whl/sycl", "", "no 'sycl'"),
    ],
)
def test_an_index_that_cannot_be_trusted_is_refused(target: str, url: str, sha256: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as refused:
        wheel_index.index_of(target, url, sha256)
    assert "secret" not in str(refused.value)


def test_damaged_records_of_hashes_are_no_reason_to_trust_a_file(tmp_path: Path) -> None:
    index = wheel_index.index_of("vulkan", "https://example.org/whl/vulkan/", "")
    assert (index.kind, index.runtime_name) == ("vulkan", "vulkan-0.5")
    file = tmp_path / "a.whl"
    file.write_bytes(b"first")
    wheel_index.remember(file, wheel_index.check_first(file, index, tmp_path), index, tmp_path)
    record = runtimes.folder_of(tmp_path) / wheel_index.FIRST_SEEN
    assert list(msgspec.json.decode(record.read_bytes())) == ["https://example.org/whl/vulkan/a.whl"]
    record.write_bytes(b"{")
    with pytest.raises(LoadFailed, match="cannot be read"):
        wheel_index.check_first(file, index, tmp_path)


def test_a_build_is_told_how_far_it_is_and_what_to_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)  # a machine with glslc
    pip = _stub_pip(
        tmp_path,
        f"with zipfile.ZipFile(folder + '/made.whl', 'w') as wheel:\n"
        f"    wheel.writestr('llama_cpp/lib/{LIBRARY}', os.environ['CMAKE_ARGS'] + ' '.join(sys.argv))",
    )
    steps: list[tuple[int, int]] = []
    made = building.build(
        "vulkan", tmp_path / "data", check=_nothing_against, on_progress=lambda *step: steps.append(step), pip=pip
    )
    told = Path(made.library).read_text()
    assert steps == [(1, 2), (2, 2)]
    assert "-DGGML_VULKAN=ON" in told
    assert f"llama-cpp-python=={upstream.PACKAGE_VERSION}" in told
    (listed,) = [each for each in runtimes.listed(tmp_path / "data") if each.runtime == made]
    assert (listed.origin, listed.kind) == ("built", "vulkan")


def test_one_backend_alone_is_compiled_where_the_libraries_for_it_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_folder = _libraries(tmp_path / "base")
    base_library = libraries.shared_library_names("ggml-base")[0]
    (base_folder / base_library).write_bytes(b"base")
    plugin = libraries.shared_library_names("ggml-rpc")[0]
    pip = _stub_pip(
        tmp_path,
        "build = next(word for word in sys.argv if 'build-dir=' in word).rpartition('build-dir=')[2]\n"
        f"os.makedirs(build + '/bin'); open(build + '/bin/{plugin}', 'w').write(' '.join(sys.argv))",
    )
    base = Runtime("base", str(base_folder / LIBRARY))
    made = building.build("rpc", tmp_path / "data", base=base, check=_nothing_against, pip=pip)
    folder = Path(made.library).parent
    assert {path.name for path in folder.iterdir()} == {LIBRARY, CPU, base_library, plugin, runtimes.MANIFEST}
    assert "build.targets=ggml-rpc" in (folder / plugin).read_text()
    assert backends.brings(made, ("rpc",))
    assert not backends.brings(made, ("rpc", "vulkan"))
    assert not backends.brings(base, ("rpc",))
    # Of the runtimes that are here, one with ggml in a library of its own is the base; one with a backend is none.
    monkeypatch.setattr(runtimes, "listed", lambda _: [_listed(made, "rpc"), _listed(base, "cpu")])
    assert building.base_in(tmp_path / "data") == base
    (base_folder / base_library).unlink()
    assert building.base_in(tmp_path / "data") is None


def _listed(runtime: Runtime, kind: str) -> runtimes.RuntimeRow:
    return runtimes.RuntimeRow(runtime=runtime, origin="built", version=upstream.PACKAGE_VERSION, kind=kind)


def test_backends_are_known_by_the_names_of_their_devices(tmp_path: Path) -> None:
    assert backends.needed(("Vulkan0", "cuda1", "CPU", "rpc:10.0.0.2:50052"), rpc=False) == ("cuda", "rpc", "vulkan")
    assert backends.needed(None, rpc=True) == ("rpc",)
    (tmp_path / libraries.shared_library_names("ggml-hip")[0]).write_bytes(b"")
    assert backends.missing(("rocm", "rpc"), tmp_path) == ("rpc",)


def test_a_name_that_is_taken_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    _add(tmp_path)
    with pytest.raises(InvalidParameter, match="already"):
        building.build("cpu", tmp_path / "data", name="mine", check=_nothing_against, pip=("no-such-program",))


def test_a_build_that_fails_tells_the_compilers_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)  # a machine with glslc
    pip = _stub_pip(tmp_path, "print('error: glslc not found'); sys.exit(1)")
    with pytest.raises(LoadFailed, match="glslc not found"):
        building.build("vulkan", tmp_path / "data", check=_nothing_against, pip=pip)
    assert list(runtimes.folder_of(tmp_path / "data").iterdir()) == []


CMAKE_WITHOUT_CUBLAS = """
CMake Error at vendor/llama.cpp/ggml/src/ggml-cuda/CMakeLists.txt:178 (target_link_libraries):
  Target "ggml-cuda" links to:

    CUDA::cublas

  but the target was not found.  Possible reasons include:

    * There is a typo in the target name.

-- Generating done (0.2s)
CMake Generate step failed.  Build files cannot be regenerated correctly.
"""


@pytest.mark.parametrize(
    ("output", "cause", "remedy"),
    [
        (CMAKE_WITHOUT_CUBLAS, "cuBLAS", "CMAKE_LIBRARY_PATH"),
        ("ggml-cuda/common.cuh:45:10: fatal error: cublas_v2.h: No such file or directory", "cuBLAS", "CPATH"),
        ("    CUDA::cuda_driver\n", "driver", "-DGGML_CUDA_NO_VMM=ON"),
        (
            "#error -- unsupported GNU version! gcc versions later than 15 are not supported!",
            "gcc versions later than 15",
            "CMAKE_CUDA_HOST_COMPILER",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_52'", "compute_52", "CMAKE_CUDA_ARCHITECTURES"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "memory", "CMAKE_BUILD_PARALLEL_LEVEL=1"),
        ("/tmp/x.s: fatal error: No space left on device", "disk", "--home"),
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", "C++ compiler", "apt install"),
        ("  Could NOT find Vulkan (missing: Vulkan_INCLUDE_DIR)", "Vulkan", "libvulkan-dev"),
    ],
)
def test_a_part_of_a_toolkit_that_is_missing_is_named_with_its_remedy_and_without_pages_of_cmake(
    tmp_path: Path, output: str, cause: str, remedy: str
) -> None:
    pip = _stub_pip(tmp_path, f"print({output!r}); print('and then\\n' * 100); sys.exit(1)")
    with pytest.raises(LoadFailed) as failed:
        building.build("rpc", tmp_path / "data", check=_nothing_against, pip=pip)
    message = failed.value.message
    assert cause in message
    assert remedy in message
    assert "and then" not in message
    assert "\n" not in message


def _fake_tool(folder: Path, name: str, prints: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{prints}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="it writes a tool in the shell's language")
@pytest.mark.parametrize(
    ("listed", "given", "wanted"),
    [
        ("9.0\n8.6\n9.0", "", "-DCMAKE_CUDA_ARCHITECTURES=86;90"),
        ("12.0", "-DCMAKE_CUDA_ARCHITECTURES=80", ""),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver", "", ""),
    ],
)
def test_a_cuda_build_is_for_the_gpus_of_this_machine_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, given: str, wanted: str
) -> None:
    _fake_tool(tmp_path / "bin", "nvcc", "")
    _fake_tool(tmp_path / "bin", "nvidia-smi", listed)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CMAKE_ARGS", given)
    pip = _stub_pip(
        tmp_path,
        "with zipfile.ZipFile(folder + '/made.whl', 'w') as wheel:\n"
        f"    wheel.writestr('llama_cpp/lib/{LIBRARY}', os.environ['CMAKE_ARGS'])",
    )
    made = building.build("cuda", tmp_path / "data", check=_nothing_against, pip=pip)
    flags = [flag for flag in Path(made.library).read_text().split() if "ARCHITECTURES" in flag]
    assert flags == list(filter(None, [wanted, given]))


def test_a_build_for_no_gpu_in_particular_says_what_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "CMAKE_CUDA_ARCHITECTURES" in build_targets.note("cuda", "")
    assert build_targets.note("cuda", "-DCMAKE_CUDA_ARCHITECTURES=80") == ""
    assert build_targets.note("vulkan", "") == ""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("libcuda.so.1: cannot open shared object file: No such file or directory", "NVIDIA's driver"),
        ("libcublas.so.13: cannot open shared object file: No such file or directory", "LD_LIBRARY_PATH"),
        ("dlopen(x, 0x2): Library not loaded: @rpath/libvulkan.1.dylib", "Vulkan's loader"),
        ("llama.cpp gave no reason", "driver of its device"),
        ("", "driver of its device"),
    ],
)
def test_a_backend_that_does_not_load_names_the_missing_library(reason: str, words: str) -> None:
    stem = "vulkan" if "vulkan" in reason else "cuda"
    known = backends.not_loaded(Path(f"/x/libggml-{stem}.so"), reason)
    assert known is not None
    assert words in str(known)


@pytest.mark.parametrize(
    "reason",
    [
        "/x/libggml-cuda.so: undefined symbol: ggml_new",
        "/x/libggml-cuda.so: invalid ELF header",
        "/x/libggml-cuda.so: cannot open shared object file: Permission denied",
    ],
)
def test_a_backend_that_is_broken_is_not_taken_for_one_without_its_driver(reason: str) -> None:
    assert backends.not_loaded(Path("/x/libggml-cuda.so"), reason) is None


@pytest.mark.parametrize(
    ("file", "registered", "is_linked_in"),
    [
        ("libggml-vulkan.so", "Vulkan", True),
        ("libggml-hip.so", "ROCm", True),
        ("libggml-metal.so", "MTL", True),
        ("libggml-blas.so", "BLAS", True),
        ("libggml-cuda-7c0b4d3a.so", "Vulkan", False),
    ],
)
def test_a_backend_that_a_library_is_linked_with_is_known_by_its_registered_name(
    file: str, registered: str, is_linked_in: bool
) -> None:
    class Registry:
        """Compares as ggml does."""

        def backend_reg_by_name(self, name: bytes) -> int | None:
            return 1 if name.decode().lower() == registered.lower() else None

    registry: Any = Registry()
    assert backends.is_linked_in(registry, Path(file)) is is_linked_in


def test_a_build_does_not_begin_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "WANTED_BYTES", 2**60)
    with pytest.raises(DiskFull, match="are free"):
        building.build("cpu", tmp_path / "data", check=_nothing_against, pip=("no-such-program",))


AVX512 = "model name\t: X\nflags\t\t: fpu avx2 avx512f avx512_vnni"


@pytest.mark.skipif(not machine.builds_cpu_variants(), reason="there is nothing to gain where no variants are built")
def test_a_gain_is_told_once_and_only_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Runtime("wheel", str(_libraries(tmp_path / "wheel") / LIBRARY))
    (tmp_path / "wheel" / CPU).unlink()
    monkeypatch.setattr(runtimes, "usable", lambda _: [plain])
    found = gains.gain(tmp_path, AVX512)
    assert found is not None
    assert "AVX-512" in gains.sentence(found)
    assert gains.gain(tmp_path, "flags : fpu avx2") is None
    monkeypatch.setattr(cpu, "cpu_model", lambda: AVX512)
    assert gains.advice_once(tmp_path) is not None
    assert gains.advice_once(tmp_path) is None
    (tmp_path / "wheel" / CPU).write_bytes(b"cpu")
    assert gains.gain(tmp_path, AVX512) is None


def test_a_gpu_that_no_runtime_uses_is_told_once_with_what_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = tmp_path / "root" / "sys" / "class" / "drm" / "renderD128" / "device" / "vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("0x1002\n")
    assert machine.gpu_maker(tmp_path / "root") == "AMD"
    (tmp_path / "root" / "proc" / "driver" / "nvidia" / "gpus" / "0").mkdir(parents=True)
    assert machine.gpu_maker(tmp_path / "root") == "NVIDIA", "the likeliest fastest one"
    plain = RuntimeRow(
        runtime=Runtime("wheel", str(_libraries(tmp_path / "wheel") / LIBRARY)), origin="wheel", version="1"
    )
    monkeypatch.setattr(runtimes, "listed", lambda _: [plain])
    monkeypatch.setattr(machine, "gpu_maker", lambda: "AMD")
    told = gains.advice_once(tmp_path)
    assert told is not None
    assert re.search(r"a GPU of AMD, which .* does not use: `localllm runtime (install|build) vulkan`", told)
    assert gains.advice_once(tmp_path) is None
    assert gains.gpu_advice(tmp_path) == told, "doctor says it whenever it is asked"
    monkeypatch.setattr(runtimes, "listed", lambda _: [plain, msgspec.structs.replace(plain, kind="vulkan")])
    assert gains.gpu_advice(tmp_path) is None


def test_a_wheel_for_gpus_that_pip_installed_is_a_runtime_if_its_files_are_the_pinned_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the others, since who installs it wants GPUs; until none of its devices is of use."""
    libs = tmp_path / "site" / "gpu_pack.libs"
    libs.mkdir(parents=True)
    about = tmp_path / "site" / "gpu_pack-1.2.dist-info"
    about.mkdir()
    (libs / LIBRARY).write_bytes(b"a library")
    pins = {LIBRARY: File(9, hashlib.sha256(b"a library").hexdigest())}
    wheel = Wheel("gpu-1.2", "gpu-pack", "1.2", "0.7.0", "vulkan", {}, "somebody", libraries=pins)
    monkeypatch.setattr(in_packages, "WHEELS", (*WHEELS, wheel))
    monkeypatch.setattr(in_packages, "_places", lambda: [tmp_path / "site"])

    def listed() -> RuntimeRow:
        return next(each for each in runtimes.listed(tmp_path) if each.runtime.name == "vulkan-wheel")

    found = listed()
    assert (found.kind, found.build, found.version, found.why_not) == ("vulkan", "0.7.0", "1.2", "")
    assert runtimes.usable(tmp_path)[0] == found.runtime
    runtimes.put_last("vulkan-wheel", tmp_path, is_last=True)
    assert runtimes.listed(tmp_path)[-1].runtime == found.runtime
    assert in_packages.changed(found.runtime.library) == ""
    (libs / LIBRARY).write_bytes(b"A library")
    assert "pip install --force-reinstall gpu-pack==1.2" in in_packages.changed(found.runtime.library)
    (libs / LIBRARY).write_bytes(b"another library")
    assert f"{LIBRARY} is not that of gpu-pack==1.2" in listed().why_not
    about.rename(tmp_path / "site" / "gpu_pack-1.3.dist-info")
    assert "its version is 1.3; for this localllm: pip install gpu-pack==1.2" in listed().why_not
