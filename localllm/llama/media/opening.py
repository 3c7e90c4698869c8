"""Opens libmtmd beside a loaded libllama, with the structs and signatures of that build.

A wheel's one library may contain it, a build has it as a file of its own, and some have none: those serve text only.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from localllm.errors import LoadFailed
from localllm.llama import bindings
from localllm.llama.library import Library
from localllm.llama.runtimes import installed
from localllm.llama.runtimes.installed import InstalledBindings
from localllm.system import libraries

PROBE = "mtmd_tokenize_from_parts"
"""A function that every usable libmtmd exports."""
DEFAULTS = {"use_gpu": True, "n_threads": 4, "warmup": True, "image_min_tokens": -1, "batch_max_tokens": 1024}
"""Of `mtmd_context_params`, by which another layout is noticed."""
NO_MEDIA = "this llama.cpp has no libmtmd, so it reads text only; `localllm runtime list` shows others"


def why_no_media(library: Library) -> str:
    """Why this library reads text only; empty: it reads media. Takes no time."""
    files = installed.find(library.choice.runtime.library)
    has_it = _media_library(files, library.api._lib) is not None and "mtmd_context_params" in library.known.structs
    return "" if has_it else NO_MEDIA


def open_media(library: Library) -> Any:
    """The module `llama_cpp.mtmd_cpp`, fitted to the library's build. Raises `LoadFailed`."""
    files = installed.find(library.choice.runtime.library)
    path = _media_library(files, library.api._lib)
    if path is None or why_no_media(library):
        raise LoadFailed(NO_MEDIA, param="projector")
    mtmd = bindings.import_media_bindings(files, path)
    bindings.fit_structs(mtmd, library.known)
    params = mtmd.mtmd_context_params_default()
    if {name: getattr(params, name) for name in DEFAULTS} != DEFAULTS:
        raise LoadFailed("this libmtmd is of another build than its libllama; choose another runtime", param="runtime")
    return mtmd


def _media_library(files: InstalledBindings, main: ctypes.CDLL) -> Path | None:
    own = libraries.find_library(files.library_dir, "mtmd")
    return files.library_path if own is None and hasattr(main, PROBE) else own
