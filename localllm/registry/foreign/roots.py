"""Where other programs store models, by their own environment variables and defaults.

Differences between operating systems are handled by `system.folders`. Does not check whether a folder exists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from localllm.registry.foreign.folders import lmstudio_folder
from localllm.registry.foreign.foreign_model import Root
from localllm.registry.foreign.walk import read_small
from localllm.system import folders

MAX_POINTER_BYTES = 4096


def default_roots(environ: Mapping[str, str] | None = None, home: Path | None = None) -> list[Root]:
    """Folders in search order, without duplicates."""
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    roots = [Root("ollama", path) for path in _ollama(environ, home)]
    roots += [Root("huggingface", _hugging_face(environ, home))]
    roots += [Root("lmstudio", path) for path in _lmstudio(home)]
    roots += [Root("llama.cpp", _llama_cpp(environ))]
    found: dict[Path, Root] = {}
    for root in roots:
        found.setdefault(Path(os.path.realpath(root.path)), root)
    return list(found.values())


def _ollama(environ: Mapping[str, str], home: Path) -> list[Path]:
    own = environ.get("OLLAMA_MODELS")
    return [Path(own) if own else home / ".ollama" / "models", *folders.shared_ollama_dirs()]


def _hugging_face(environ: Mapping[str, str], home: Path) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environ.get(name):
            return Path(environ[name])
    if environ.get("HF_HOME"):
        return Path(environ["HF_HOME"]) / "hub"
    caches = environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else home / ".cache") / "huggingface" / "hub"


def _lmstudio(home: Path) -> list[Path]:
    """The home folder named by LM Studio's pointer file, then its current and former defaults."""
    pointer = read_small(home / ".lmstudio-home-pointer", MAX_POINTER_BYTES)
    named = "" if pointer is None else pointer.decode("utf-8", "replace").strip()
    homes = [home / ".lmstudio", home / ".cache" / "lm-studio"]
    if named and "\0" not in named and Path(named).is_absolute():
        homes.insert(0, Path(named))
    return [folder for each in homes for folder in dict.fromkeys((lmstudio_folder(each), each / "models"))]


def _llama_cpp(environ: Mapping[str, str]) -> Path:
    own = environ.get("LLAMA_CACHE")
    return Path(own) if own else folders.user_cache_root() / "llama.cpp"
