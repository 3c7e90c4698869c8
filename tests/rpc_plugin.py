"""llama.cpp's RPC backend for tests: a folder that somebody names, or compiled here from the source of the bindings.

Two files in some ten seconds: `GGML_SOURCE` in the environment is the folder `ggml` of the source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localllm.errors import LoadFailed
from localllm.llama.runtimes import installed
from localllm.system import libraries

NAME = libraries.shared_library_names("ggml-rpc")[0]

# Read now: the tests' home takes localllm's variables away.
GIVEN, SOURCE = os.environ.get("LOCALLLM_RPC_PLUGIN_DIR"), os.environ.get("GGML_SOURCE")


def plugin_folder(work: Path) -> Path:
    """One that holds the RPC backend. Skips the test where there is none and none can be made."""
    given = Path(GIVEN or work)
    if (given / NAME).exists():
        return given
    source, compiler = SOURCE, shutil.which("c++")
    if not source or compiler is None or sys.platform != "linux":
        pytest.skip("no RPC backend: GGML_SOURCE names no source, or there is no compiler")
    try:
        base = next(path for path in installed.find().core if "ggml-base" in path.name)
    except (LoadFailed, StopIteration):
        pytest.skip("the installed llama.cpp has no libggml-base of its own")
    _compile(compiler, Path(source), base, work / NAME)
    return work


def _compile(compiler: str, source: Path, base: Path, target: Path) -> None:
    part = target.with_suffix(".part")
    files = [str(source / "src" / "ggml-rpc" / name) for name in ("ggml-rpc.cpp", "transport.cpp")]
    defined = [f"-DGGML_{name}" for name in ("BACKEND_DL", "BACKEND_SHARED", "BACKEND_BUILD", "SHARED")]
    places = [f"-I{source / 'include'}", f"-I{source / 'src'}", f"-L{base.parent}", f"-l:{base.name}.0"]
    command = [compiler, "-O1", "-std=gnu++17", "-shared", "-fPIC", *defined, *files, "-o", str(part), *places]
    subprocess.run(command, check=True, timeout=240, capture_output=True)
    part.rename(target)
