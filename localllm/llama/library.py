"""The one module that loads llama.cpp: the bindings, then a CPU backend, then plugins, then `llama_backend_init`.

llama.cpp requires this order: a build with loadable CPU backends can do nothing before one is registered. Does not know
which CPU backend works here (`selftest.py` does) and nothing of models.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from localllm.errors import InternalError, LoadFailed
from localllm.llama import backends, bindings
from localllm.llama.alignment import align_to_lines
from localllm.llama.backends import NotLoaded
from localllm.llama.devices import Ggml, asynchronous_devices, device_array, list_devices
from localllm.llama.log import Log
from localllm.llama.remote import devices as rpc
from localllm.llama.runtimes import installed
from localllm.llama.runtimes.found import PACKAGE, Runtime
from localllm.llama.runtimes.installed import InstalledBindings
from localllm.types import DeviceInfo
from localllm.types.libraries import builds
from localllm.types.libraries.builds import Build
from localllm.types.rpc_endpoints import Endpoint


class CpuChoice(msgspec.Struct, frozen=True):
    """Which CPU code to use, and of which libllama."""

    variant: str | None
    """`sapphirerapids`: the file libggml-cpu-sapphirerapids; None: the backend linked into the library."""
    extra_bufts: bool = True
    """`use_extra_bufts` at model load: AMX and repacked weights."""
    runtime: Runtime = PACKAGE

    def label(self) -> str:
        """`zen4`, `linked-in`, `linked-in, use_extra_bufts=off`."""
        label = (self.variant or "linked-in") + ("" if self.extra_bufts else ", use_extra_bufts=off")
        return label if self.runtime == PACKAGE else f"{self.runtime.name}: {label}"


class Variant(NamedTuple):
    """A loadable CPU backend; `score` is its own rating: 0 cannot run on this CPU, else higher is better."""

    name: str
    score: int


class LibraryBuild(msgspec.Struct, frozen=True):
    """What was loaded."""

    package_version: str
    llama_version: str
    commit: str
    """Commit of ggml; `-dirty` in every build from the source package, so it does not identify a build by itself."""
    library_path: str
    features: dict[str, list[str]]
    """Backend -> its reported features: `AVX512`, `REPACK` ..."""
    fingerprint: str
    """Hash of the library files in use; a key for caches of computed state."""

    def __str__(self) -> str:
        return f"llama-cpp-python {self.package_version}, llama.cpp {self.llama_version} ({self.commit})"


class Library:
    """llama.cpp, loaded; one per process, made by `load`."""

    def __init__(
        self,
        api: Any,
        ggml: Ggml,
        log: Log,
        choice: CpuChoice,
        files: InstalledBindings,
        known: Build,
        absent: Sequence[NotLoaded],
    ) -> None:
        self.api: Any = api
        """The module `llama_cpp.llama_cpp`: the C functions."""
        self.ggml = ggml
        self.log = log
        self.choice = choice
        self.known = known
        """What localllm knows of this llama.cpp."""
        self.build = LibraryBuild(
            package_version=files.package_version,
            llama_version=bindings.version_of(api),
            commit=ggml.text("commit"),
            library_path=str(files.library_path),
            features=_features(api.llama_print_system_info().decode("utf-8", "replace")),
            fingerprint=files.fingerprint(choice.variant),
        )
        self.absent = absent
        """Backends of this build that do not load here."""
        self.team = _team(files.library_path if choice.variant is None else files.variants[choice.variant])
        """Address of `GOMP_parallel` in the OpenMP runtime that computes on the CPU; None without OpenMP."""

    def devices(self) -> tuple[DeviceInfo, ...]:
        """All devices with the memory that is free now."""
        return list_devices(self.ggml)

    def is_asynchronous(self, layers_per_device: dict[str, int]) -> bool:
        """Whether all of a model's layers are computed by devices that continue while the caller does something
        else."""
        return bool(layers_per_device) and asynchronous_devices(self.ggml).issuperset(layers_per_device)

    def device_handles(self, names: Sequence[str]) -> ctypes.Array[ctypes.c_void_p]:
        """For `llama_model_params.devices`; see `device_array`. Raises `DeviceUnavailable`."""
        return device_array(self.ggml, names)


_loaded: tuple[Library, tuple[object, ...]] | None = None
_keep_alive: list[Any] = []
"""ctypes callbacks that native code calls as long as the process lives."""


def load(
    choice: CpuChoice,
    *,
    plugin_dir: Path | None = None,
    needs: tuple[str, ...] = (),
    servers: tuple[Endpoint, ...] = (),
    verbose: bool = False,
) -> Library:
    """Loads the library into this process, once: the same arguments return the same object.

    `needs`: among `backends.BACKENDS`. `servers`: RPC servers whose devices are wanted. Raises `LoadFailed` with
    llama.cpp's own reason, or `InternalError` if it is already loaded differently.
    """
    global _loaded
    wishes = (plugin_dir, needs, servers)
    if _loaded is not None:
        library, loaded_wishes = _loaded
        if (library.choice, loaded_wishes) != (choice, wishes):
            raise InternalError(f"llama.cpp is already loaded in this process, with {library.choice.label()}")
        library.log.echo = verbose
        return library
    files = installed.find(choice.runtime.library)
    api = bindings.import_bindings(files)
    ggml = Ggml(api._lib, files.library_dir)
    known = _recognized(api, ggml, choice.runtime)
    bindings.fit(api, known)
    log = _take_log(api, echo=verbose)
    _register_cpu(ggml, log, choice, files)
    given = _plugins_in(plugin_dir)
    for path in given:
        _load_backend(ggml, log, path)
    absent = _load_own_backends(ggml, log, files, {path.name for path in given})
    backends.check(ggml, choice.runtime, needs, absent)
    rpc.connect(ggml, servers, known.rpc_protocol)
    api.llama_backend_init()
    library = Library(api, ggml, log, choice, files, known, absent)
    if "AMX_INT8" in library.build.features.get("CPU", ()) and (take_back := align_to_lines(ggml, known)) is not None:
        atexit.register(take_back)  # it may not be called into a Python that is gone
    _loaded = (library, wishes)
    return library


def variants(files: InstalledBindings) -> list[Variant]:
    """The loadable CPU backends, best score first. Maps all of them into this process, so call it in a child."""
    bindings.import_bindings(files)  # loads libggml-base, which they need
    scored = []
    for name, path in files.variants.items():
        score = getattr(ctypes.CDLL(str(path)), "ggml_backend_score", None)
        if score is not None:
            score.restype, score.argtypes = ctypes.c_int, []
        scored.append(Variant(name, 1 if score is None else score()))
    return sorted(scored, key=lambda variant: (-variant.score, variant.name))


def has_linked_in_cpu(files: InstalledBindings) -> bool:
    """Whether a CPU backend is linked into the library, as in every build by default."""
    return Ggml(bindings.import_bindings(files)._lib, files.library_dir).has_cpu()


def _recognized(api: Any, ggml: Ggml, runtime: Runtime) -> Build:
    """The build whose structs are to be used. Raises `LoadFailed` for one that localllm does not know, unless the
    runtime was installed nevertheless."""
    build = bindings.recognize(api, ggml.text("version"), ggml.text("commit"))
    if build is None and runtime.unverified:
        build = bindings.resembled(api)
    if build is not None:
        return build
    supported = ", ".join(each.label for each in builds.known())
    remedy = (
        "none of their structs fits it"
        if runtime.unverified
        else "`localllm runtime list` shows runtimes, and `localllm runtime install FILE --unverified` tries one anyway"
    )
    raise LoadFailed(
        f"this llama.cpp is version {bindings.version_of(api)} (ggml {ggml.text('version')}, commit "
        f"{ggml.text('commit')}), which this localllm does not know; it knows {supported}; {remedy}",
        param="runtime",
    )


def _take_log(api: Any, *, echo: bool) -> Log:
    log = Log(echo=echo)

    def receive(level: int, text: bytes | None, _: Any) -> None:
        log.receive(level, text)

    callback = api.llama_log_callback(receive)
    _keep_alive.append(callback)
    api.llama_log_set(callback, None)
    # Native destructors must not log into a Python that is gone.
    atexit.register(api.llama_log_set, api.llama_log_callback(), None)
    return log


def _register_cpu(ggml: Ggml, log: Log, choice: CpuChoice, files: InstalledBindings) -> None:
    if choice.variant is None:
        if not ggml.has_cpu():
            raise LoadFailed(
                f"{files.library_path} has no CPU backend linked in",
                public="the llama.cpp library has no CPU backend linked in; `localllm doctor` says more",
            )
        return
    path = files.variants.get(choice.variant)
    if path is None:
        raise LoadFailed(
            f"{files.library_dir} has no CPU backend {choice.variant!r}",
            public=f"there is no CPU backend {choice.variant!r}; `localllm doctor` says more",
        )
    _load_backend(ggml, log, path)


def _plugins_in(folder: Path | None) -> list[Path]:
    """The backends in the folder. Raises `LoadFailed` if it contains none."""
    if folder is None:
        return []
    paths = installed.plugin_files(folder)
    if not paths:
        reason = "contains no ggml backend" if folder.is_dir() else "is not a folder"
        raise LoadFailed(
            f"the plugin folder {folder} {reason}", param="plugin_dir", public=f"the plugin folder {reason}"
        )
    return paths


def _load_own_backends(ggml: Ggml, log: Log, files: InstalledBindings, replaced: Set[str]) -> list[NotLoaded]:
    """Loads the build's device backends that are separate files, except `replaced`; returns those that do not load.
    Those that the library is linked with are registered already.

    A machine without a device lacks its driver and computes on the CPU. A broken file raises `LoadFailed`.
    """
    absent = []
    for path in files.plugins:
        if path.name not in replaced and not backends.is_linked_in(ggml, path):
            try:
                _load_backend(ggml, log, path)
            except LoadFailed as error:
                known = backends.not_loaded(path, str(error.details["reason"]))
                if known is None:
                    raise
                absent.append(known)
    return absent


def _load_backend(ggml: Ggml, log: Log, path: Path) -> None:
    mark = log.mark()
    if not ggml.backend_load(str(path).encode()):
        reason = log.errors_since(mark).removeprefix(f"load_backend: failed to load {path}: ")
        raise LoadFailed(
            f"the backend {path} does not load: {reason}",
            public=f"the backend {path.name} does not load; the server's log says why",
            path=str(path),
            reason=reason,
        )


def _team(cpu_backend: Path) -> int | None:
    # Looked up in the file and in its dependencies: a wheel may bring its own OpenMP runtime.
    parallel = getattr(ctypes.CDLL(str(cpu_backend)), "GOMP_parallel", None)
    return None if parallel is None else ctypes.cast(parallel, ctypes.c_void_p).value


def _features(system_info: str) -> dict[str, list[str]]:
    """Parses `CPU : SSE3 = 1 | AVX = 1 | CUDA : ARCHS = 500,610 | ` by backend; drops the value 1, and features
    with 0."""
    features: dict[str, list[str]] = {}
    backend = ""
    for part in system_info.split("|"):
        head, colon, rest = part.partition(" : ")
        if colon:
            backend = head.strip()
        name, _, value = (rest if colon else part).partition(" = ")
        if name.strip() and value.strip() != "0":
            features.setdefault(backend, []).append(
                name.strip() + ("" if value.strip() == "1" else f"={value.strip()}")
            )
    return features
