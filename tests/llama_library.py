"""`python -m tests.llama_library`: compiles llama.cpp where llama-cpp-python is installed without it.

So it is after the README's first command, and pip takes what is there for whole. Does nothing where it has its
library.
"""

from __future__ import annotations

import os
import subprocess
import sys

from localllm.errors import LoadFailed
from localllm.llama.runtimes import installed
from localllm.system import machine
from localllm.types import upstream


def missing() -> str | None:
    """Why the tests cannot run, and what to type; None: the bindings have their library."""
    try:
        installed.find()
    except LoadFailed as error:
        return f"{error.details.get('reason', error.message)}; `python -m tests.llama_library` compiles it"
    return None


def main() -> int:
    """Returns pip's exit code."""
    if missing() is None:
        return 0
    flags = {"CMAKE_ARGS": installed.FAST_INSTALL_FLAGS} if machine.builds_cpu_variants() else {}
    package = f"{upstream.PACKAGE}=={upstream.PACKAGE_VERSION}"
    options = ["--no-cache-dir", "--force-reinstall", "--no-deps"]
    return subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, package], env=os.environ | flags
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
