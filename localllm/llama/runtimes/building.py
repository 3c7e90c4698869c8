"""Makes runtimes: compiles the llama.cpp of the installed bindings, or imports a folder or archive of libraries.

pip compiles the bindings' own source distribution, so the two fit by construction. Nothing is loaded here; a runtime
appears under its name atomically, once it is complete and has passed `check`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from localllm.errors import DiskFull, InvalidParameter, LoadFailed
from localllm.llama.runtimes import archives, build_targets, found, installed, wheel_files, wheel_index
from localllm.llama.runtimes.build_faults import BuildOutput
from localllm.llama.runtimes.found import MANIFEST, Manifest, Origin, Runtime, folder_of, library_in
from localllm.llama.runtimes.wheel_index import WheelIndex
from localllm.system import libraries, machine
from localllm.system.programs import is_frozen, own_command
from localllm.types import upstream
from localllm.types.libraries.wheels import Wheel

Progress = Callable[[int, int], None]
"""Called with the number of completed steps and the total."""
Check = Callable[[Runtime], str]
"""Returns the `Build.version` of the runtime; raises `LoadFailed` for one that must not be kept."""

KINDS = {
    "cpu": "",
    "vulkan": "-DGGML_VULKAN=ON",
    "cuda": "-DGGML_CUDA=ON",
    "hip": "-DGGML_HIP=ON",
    "rpc": "-DGGML_RPC=ON",
}
"""Further CMake options, by what the runtime computes on besides the CPU."""
TOOLS = {
    "vulkan": (
        "glslc",
        "glslc, Vulkan's headers (1.3.268 or newer) and loader, and SPIR-V's headers; on Debian 13, Ubuntu 24.04 and "
        "newer: apt install glslc libvulkan-dev spirv-headers",
    ),
    "cuda": ("nvcc", "nvcc and its libraries (NVIDIA's CUDA toolkit)"),
    "hip": ("hipcc", "hipcc and its libraries (AMD's ROCm)"),
}
"""Compiler that each kind needs besides the machine's own, and a description of everything it needs."""
FLAGS_VARIABLE = "CMAKE_ARGS"
"""Environment variable with the user's flags, appended to ours, for tools outside CMake's search path."""
ONE_BACKEND = "-DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON"
"""To compile a backend as a separate file."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}", re.ASCII)
RESERVED = frozenset({"auto", "package", "wheel", "vulkan-wheel", "cuda-wheel"})
WANTED_BYTES = 2 * 2**30
"""Free disk space that a build requires; object files take most of it."""
_STEP = re.compile(rb"\[(\d+)/(\d+)\]")


def check_name(name: str) -> str:
    """Returns the name if it is valid. Raises `InvalidParameter`."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise InvalidParameter(
            f"{name!r} cannot name a runtime: up to 40 of a-z, 0-9, dot, dash and underscore, but not "
            f"{', '.join(sorted(RESERVED))}",
            param="name",
        )
    return name


def check_free(name: str, data_dir: Path) -> str:
    """Returns the name if it is valid and not taken. Raises `InvalidParameter`."""
    if (folder_of(data_dir) / check_name(name)).exists():
        raise InvalidParameter(
            f"there is a runtime {name!r} already; remove it first, or give another --name", param="name"
        )
    return name


def workshops_of(name: str) -> str:
    """Prefix of folders in which a runtime of that name is built; names cannot contain its last character."""
    return f".building-{name}~"


def check_kind(kind: str) -> None:
    """Raises `InvalidParameter` for an unknown kind."""
    if kind not in KINDS:
        raise InvalidParameter(f"there is nothing to build for {kind!r}; there is: {', '.join(KINDS)}", param="target")


def build(
    kind: str,
    data_dir: Path,
    *,
    name: str | None = None,
    base: Runtime | None = None,
    check: Check,
    on_progress: Progress = lambda *_: None,
    extra_flags: str = "",
    pip: Iterable[str] | None = None,
) -> Runtime:
    """Compiles a runtime and keeps it; takes minutes. With `base`, that runtime's libraries are reused and only the
    backend of `kind` is compiled, in a tenth of the time.

    Raises `InvalidParameter`, `LoadFailed` with the compiler's last lines, `DiskFull`, and what `check` raises.
    """
    check_kind(kind)
    name = check_free(name or kind, data_dir)
    given = os.environ.get(FLAGS_VARIABLE, "")
    check_tools(kind, given)
    pip = own_command("pip") if pip is None else pip
    is_completed = base is not None and kind != "cpu"
    targets = build_targets.flags(kind, given)
    flags = " ".join(
        filter(None, [_base_flags() or ONE_BACKEND * is_completed, KINDS[kind], targets, extra_flags, given])
    )
    with _workshop(data_dir, workshops_of(name)) as workshop:
        free = shutil.disk_usage(workshop).free
        if free < WANTED_BYTES:
            raise DiskFull(
                f"a build needs {WANTED_BYTES / 1e6:,.0f} MB of disk below {data_dir}; {free / 1e6:,.0f} MB are free",
                free_bytes=free,
            )
        manifest = _manifest("built", kind, flags)
        if base is not None and is_completed:
            _compile([*pip, "wheel", *_only(kind, workshop)], kind, flags, workshop, on_progress)
            plugin = _plugin(kind, workshop)
            return _keep(data_dir, name, manifest, lambda folder: _complete(base, plugin, folder), workshop, check)
        _compile([*pip, "wheel"], kind, flags, workshop, on_progress)
        wheel = next(workshop.glob("*.whl"), None)
        if wheel is None:
            raise LoadFailed("pip made no wheel; is this an unusual version of pip?")
        return _keep(data_dir, name, manifest, lambda folder: archives.unpack(wheel, folder), workshop, check)


def add(
    source: Path,
    data_dir: Path,
    *,
    name: str | None = None,
    kind: str = "cpu",
    unverified: bool = False,
    check: Check,
) -> Runtime:
    """Imports the libraries of a folder, a .zip, .whl or .tar archive. `unverified`: also of an unknown llama.cpp.

    Raises `InvalidParameter`, `LoadFailed`, and what `check` raises.
    """
    stem = source.name.split(".")[0].lower()
    name = check_free(name or re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._")[:40], data_dir)
    if not source.exists():
        raise InvalidParameter(
            f"there is no {source}; there are the wheels {', '.join(each.name for each in wheel_files.offered())}",
            param="target",
        )
    manifest = msgspec.structs.replace(_manifest("added", kind, ""), unverified=unverified)
    with _workshop(data_dir, ".making-") as workshop:
        return _keep(data_dir, name, manifest, lambda folder: archives.unpack(source, folder), workshop, check)


def add_wheel(
    wheel: Wheel, data_dir: Path, *, name: str | None = None, check: Check, pip: Iterable[str] | None = None
) -> Runtime:
    """Downloads a wheel of the package index and keeps its libraries.

    Raises `InvalidParameter`, `LoadFailed`, and what `check` raises.
    """
    name = check_free(name or wheel.name, data_dir)
    manifest = msgspec.structs.replace(
        _manifest("wheel", wheel.kind, ""), package_version=wheel.version, sha256=wheel_files.file_of(wheel).sha256
    )
    with _workshop(data_dir, ".making-") as workshop:
        file = wheel_files.download(wheel, workshop, None if pip is None else [*pip])
        return _keep(
            data_dir,
            name,
            manifest,
            lambda folder: archives.unpack(file, folder, wheel_files.is_wanted),
            workshop,
            check,
        )


def add_from_index(
    index: WheelIndex,
    data_dir: Path,
    *,
    name: str | None = None,
    check: Check,
    on_download: Callable[[str], None] = lambda _: None,
    pip: Iterable[str] | None = None,
) -> Runtime:
    """Downloads the wheel that an index has for the bindings and keeps its libraries. `on_download` is given its
    SHA-256 before anything of it is used.

    Raises `InvalidParameter`, `LoadFailed`, and what `check` raises.
    """
    name = check_free(name or index.runtime_name, data_dir)
    with _workshop(data_dir, ".making-") as workshop:
        file = wheel_index.download(index, workshop, None if pip is None else [*pip])
        digest = wheel_index.check_first(file, index, data_dir)
        on_download(digest)
        manifest = msgspec.structs.replace(_manifest("wheel", index.kind, ""), source=index.url, sha256=digest)

        def fill(folder: Path) -> None:
            archives.unpack(file, folder, wheel_files.is_wanted)
            wheel_index.check_backend(folder, index)
            wheel_index.remember(file, digest, index, data_dir)

        return _keep(data_dir, name, manifest, fill, workshop, check)


def remove(name: str, data_dir: Path) -> None:
    """Deletes a runtime. Raises `InvalidParameter` if it is not in the data directory."""
    folder = folder_of(data_dir) / name
    if name in RESERVED or not NAME.fullmatch(name) or not folder.is_dir():
        raise InvalidParameter(
            f"{name!r} is not a runtime that was built or installed here; `localllm runtime list` shows them",
            param="name",
        )
    shutil.rmtree(folder)
    found.put_last(name, data_dir, is_last=False)


def base_in(data_dir: Path) -> Runtime | None:
    """A runtime to which a single backend can be added: from the same source, with ggml in a separate library."""
    for each in found.listed(data_dir):
        if each.why_not or each.kind != "cpu" or each.origin not in ("built", "package"):
            continue
        files = installed.find(each.runtime.library)
        if files.package_version == upstream.PACKAGE_VERSION and any("ggml-base" in path.name for path in files.core):
            return each.runtime
    return None


def _only(kind: str, workshop: Path) -> list[str]:
    """pip's options for compiling one backend and installing nothing."""
    settings = {"build-dir": str(workshop / "build"), "build.targets": f"ggml-{kind}", "install.components": "none"}
    return [f"--config-settings={name}={value}" for name, value in settings.items()]


def _plugin(kind: str, workshop: Path) -> Path:
    """The compiled backend. Raises `LoadFailed`."""
    for name in libraries.shared_library_names(f"ggml-{kind}"):
        for path in (workshop / "build").rglob(name):
            return path
    raise LoadFailed(f"the compiler made no library of the {kind} backend")


def _complete(base: Runtime, plugin: Path, folder: Path) -> None:
    files = installed.find(base.library)
    beside = (path for path in files.library_dir.iterdir() if archives.is_library(path.name))
    for path in (*beside, *files.variants.values(), plugin):
        shutil.copyfile(path, folder / path.name)


def _base_flags() -> str:
    return installed.FAST_INSTALL_FLAGS if machine.builds_cpu_variants() else ""


def _manifest(origin: Origin, kind: str, flags: str) -> Manifest:
    return Manifest(
        origin=origin,
        package_version=upstream.PACKAGE_VERSION,
        kind=kind,
        flags=flags,
        created_unix_s=int(time.time()),
    )


@contextlib.contextmanager
def _workshop(data_dir: Path, prefix: str) -> Iterator[Path]:
    """A folder beside the runtimes, removed afterwards. Raises `LoadFailed` if it cannot be created."""
    parent = folder_of(data_dir)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:
        raise LoadFailed(f"{parent} cannot be written: {error.strerror}; choose another --home") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(
    data_dir: Path, name: str, manifest: Manifest, fill: Callable[[Path], None], workshop: Path, check: Check
) -> Runtime:
    folder, target = workshop / name, folder_of(data_dir) / name
    folder.mkdir()
    fill(folder)
    library = library_in(folder)
    if library is None:
        raise LoadFailed("it contains no libllama")
    build = check(Runtime(name, str(library), manifest.unverified))
    (folder / MANIFEST).write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, build=build)))
    check_free(name, data_dir)  # again, since building took a while
    os.rename(folder, target)
    return Runtime(name, str(target / library.relative_to(folder)))


def check_tools(kind: str, given_flags: str) -> None:
    """Raises `LoadFailed` for a missing compiler that no flag names, or missing Python: before minutes of work."""
    if is_frozen():
        raise LoadFailed(
            "a build needs Python and pip, which this frozen program lacks; `localllm runtime install` imports a "
            "runtime built elsewhere",
            param="target",
        )
    tool, wanted = TOOLS.get(kind, ("", ""))
    if tool and shutil.which(tool) is None and tool.upper() not in given_flags.upper():
        raise LoadFailed(
            f"there is no {tool} on the PATH; a build for {kind} needs {wanted}. Tools elsewhere can be named in "
            f"{FLAGS_VARIABLE}",
            param="target",
        )


def _compile(pip: list[str], kind: str, flags: str, workshop: Path, on_progress: Progress) -> None:
    command = [
        *pip, "--verbose", "--no-deps", "--no-cache-dir", "--no-binary", upstream.PACKAGE,
        "--wheel-dir", str(workshop), f"{upstream.PACKAGE}=={upstream.PACKAGE_VERSION}",
    ]  # fmt: skip
    environment = os.environ | {FLAGS_VARIABLE: flags, "TMPDIR": str(workshop), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    output = BuildOutput()
    try:  # in our own process group: Ctrl-C reaches the compilers too
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
    except OSError as error:
        raise LoadFailed(f"{pip[0]} does not start: {error}") from error
    with child:
        try:
            assert child.stdout is not None
            for line in child.stdout:
                if step := _STEP.search(line):
                    on_progress(int(step[1]), int(step[2]))
                output.feed(line.decode("utf-8", "replace").rstrip())
            code = child.wait()
        finally:
            child.terminate()  # if we are interrupted
    if code:
        needs = f" (a build for {kind} needs {TOOLS[kind][1]})" if kind in TOOLS else ""
        raise LoadFailed(output.reason(needs))
