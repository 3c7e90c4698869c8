"""The bindings' module `llama_cpp.llama_cpp`, opened on a libllama of any known build and fitted to that build.

The bindings declare the structs and functions of one llama.cpp. For a library of another they get its own: the
structs and numbers of `types.libraries.builds`; a function that is missing, or whose signature is another, raises when
called. Does not know which library is wanted.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from localllm.errors import LoadFailed
from localllm.llama import layouts
from localllm.llama.runtimes.installed import InstalledBindings
from localllm.types import upstream
from localllm.types.libraries import builds
from localllm.types.libraries.builds import Build

_FUNCTION: Any = type(ctypes.CFUNCTYPE(None)()).__mro__[1]
"""The class of every ctypes function."""


def import_bindings(files: InstalledBindings) -> Any:
    """`llama_cpp.llama_cpp` without the rest of its package.

    The package's own __init__ imports the high-level class, and with it numpy, jinja2 and diskcache: 110 ms instead of
    25. An empty package temporarily stands in for it, so that a later `import llama_cpp` is complete.
    """
    return _import("llama_cpp.llama_cpp", files, files.library_path)


def import_media_bindings(files: InstalledBindings, library_path: Path) -> Any:
    """`llama_cpp.mtmd_cpp` on this libmtmd, after `import_bindings`. Raises `LoadFailed`."""
    return _import("llama_cpp.mtmd_cpp", files, library_path)


def _import(name: str, files: InstalledBindings, library_path: Path) -> Any:
    if name in sys.modules:
        return sys.modules[name]
    stand_in = types.ModuleType("llama_cpp")
    stand_in.__path__ = [str(files.package_dir)]
    sys.modules["llama_cpp"] = stand_in
    try:
        with _opening(files, library_path):
            return importlib.import_module(name)
    except (RuntimeError, OSError, AttributeError) as error:
        raise LoadFailed(
            f"the llama.cpp library cannot be loaded: {error}",
            public="the llama.cpp library cannot be loaded; `localllm doctor` and the server's log say why",
        ) from error
    finally:
        del sys.modules["llama_cpp"]


def recognize(api: Any, ggml_version: str, ggml_commit: str) -> Build | None:
    """The build of this library by what it says of itself; None: localllm does not know it."""
    version = version_of(api)
    commit = ggml_commit.removesuffix("-dirty")
    for build in builds.known():
        if (build.version, build.ggml) == (version, ggml_version):
            is_it = commit == "unknown" or (build.commit and _begin_alike(build.commit, commit))
            return build if is_it else None
    return None


def version_of(api: Any) -> str:
    """`0.6.0`; `?` for one so old that it does not say."""
    if not is_there(api, "llama_version"):
        return "?"
    text: str = api.llama_version().decode("utf-8", "replace")
    return text.removesuffix("-dev")


def resembled(api: Any) -> Build | None:
    """The newest build whose structs have their documented defaults in this library; None: no one's have."""
    return next((each for each in reversed(builds.known()) if not layouts.odd_default(api._lib, each)), None)


def fit(api: Any, build: Build) -> None:
    """Gives the bindings the structs, numbers and functions of this build. Raises `LoadFailed` if its defaults are not
    where they should be."""
    if odd := layouts.odd_default(api._lib, build):
        raise LoadFailed(f"this llama.cpp is not the {build.label} that it says it is: {odd}")
    fit_structs(api, build)


def fit_structs(api: Any, build: Build) -> None:
    """Like `fit`, for a module whose defaults cannot be checked."""
    replaced: dict[Any, Any] = {}
    for name in build.structs:
        old = getattr(api, name, None)
        if old is not None and not layouts.is_laid_out(old, build, name):
            new = layouts.struct(build, name, dict(old._fields_))
            replaced |= {old: new, ctypes.POINTER(old): ctypes.POINTER(new)}
            setattr(api, name, new)
    if replaced:
        for function in vars(api).values():
            if isinstance(function, _FUNCTION) and function.argtypes is not None:
                function.argtypes = [replaced.get(each, each) for each in function.argtypes]
                function.restype = replaced.get(function.restype, function.restype)
    for name, number in build.numbers.items():
        setattr(api, name, number)
    for name, signature in builds.named(upstream.LLAMA_VERSION).functions.items():
        if hasattr(api, name) and build.functions.get(name) != signature:
            setattr(api, name, functools.partial(_lacks, name))


def is_there(api: Any, name: str) -> bool:
    """Whether a function of the bindings can be called."""
    return hasattr(api, name) and not isinstance(getattr(api, name), functools.partial)


def _begin_alike(one: str, other: str) -> bool:
    length = min(len(one), len(other))
    return length >= 7 and one[:length] == other[:length]


@contextlib.contextmanager
def _opening(files: InstalledBindings, path: Path) -> Iterator[None]:
    """Inside, the bindings open that file, and a missing function is an error only when called: a wheel links a
    libllama without what its own program does not need."""
    extensions: Any = importlib.import_module("llama_cpp._ctypes_extensions")
    opens, binds = extensions.load_shared_library, extensions.ctypes_function_for_shared_library

    def open_library(name: str, folder: Path) -> ctypes.CDLL:
        library: ctypes.CDLL = ctypes.CDLL(str(path)) if files.is_foreign else opens(name, folder)
        return library

    def bind(library: ctypes.CDLL) -> Callable[..., Any]:
        exact = binds(library)

        def function(name: str, argtypes: list[Any], restype: Any, enabled: bool = True) -> Callable[..., Any]:
            if enabled and files.is_foreign and not hasattr(library, name):
                return lambda _: functools.partial(_lacks, name)
            bound: Callable[..., Any] = exact(name, argtypes, restype, enabled)
            return bound

        return function

    extensions.load_shared_library, extensions.ctypes_function_for_shared_library = open_library, bind
    try:
        yield
    finally:
        extensions.load_shared_library, extensions.ctypes_function_for_shared_library = opens, binds


def _lacks(name: str, *_: object) -> None:
    raise LoadFailed(f"this llama.cpp lacks the function {name}; `localllm runtime list` shows others")
