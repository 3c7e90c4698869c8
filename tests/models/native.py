"""Loads llama.cpp in a test child, whichever way it was built. Never imported by pytest itself.

A build with run-time CPU variants has no CPU backend until one is loaded; the best-scoring one is taken, as ggml
itself would. Kept apart from localllm.llama, so that the test models are proved without the code under test.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_keep_alive: list[object] = []


def load_library() -> Any:
    """`llama_cpp.llama_cpp` with a CPU backend, initialised and quiet but for errors."""
    import llama_cpp.llama_cpp as low

    if low._lib.ggml_backend_dev_count() == 0:
        _load_best_variant(low)
    if low._lib.ggml_backend_dev_count() == 0:
        raise RuntimeError("llama.cpp has no compute device: no CPU backend is linked in and none was found")

    callback = low.llama_log_callback(_on_log)
    _keep_alive.append(callback)
    low.llama_log_set(callback, ctypes.c_void_p(0))
    low.llama_backend_init()
    return low


_LEVEL_ERROR = 4


def _on_log(level: int, text: bytes, _: object) -> None:
    if level == _LEVEL_ERROR:
        print(text.decode(errors="replace"), end="", file=sys.stderr, flush=True)


def _load_best_variant(low: Any) -> None:
    scored = sorted(((score, path) for path in _variants(low) if (score := _score(path)) > 0), reverse=True)
    if scored:
        load = low._lib.ggml_backend_load
        load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        load(str(scored[0][1]).encode())


def _variants(low: Any) -> Iterator[Path]:
    package = Path(low.__file__).parent
    for folder in (package.parent / "bin", package / "lib"):
        yield from sorted({*folder.glob("*ggml-cpu-*")})


def _score(path: Path) -> int:
    try:
        score = ctypes.CDLL(str(path)).ggml_backend_score
    except (OSError, AttributeError):  # built for another machine, or not a variant
        return 0
    return int(score())
