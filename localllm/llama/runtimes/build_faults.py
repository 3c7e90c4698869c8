"""What a compiler's output says about why a build failed, and what to do about it: pure, fed with lines.

Knows the faults of machines (a missing part of a toolkit, too little memory); anything else is shown in the compiler's
own words. Starts nothing.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

LAST_LINES = 30
MAX_LINE_CHARS = 300


class Fault(NamedTuple):
    """A known fault."""

    pattern: re.Pattern[str]
    words: str
    """What is missing and what to do; `{0}` is what the pattern's group found."""


def _fault(pattern: str, words: str) -> Fault:
    return Fault(re.compile(pattern), words)


_HEADERS_TOO = "and CPATH=FOLDER names one of headers"
FAULTS = (
    _fault(
        r"^\s*(CUDA::cublas\S*)$|(cublas_v2\.h): No such file",
        "cuBLAS, a part of NVIDIA's CUDA toolkit, is missing (libcublas.so and cublas_v2.h): install the whole "
        "toolkit, or NVIDIA's packages libcublas and libcublas-dev of nvcc's version; for libraries that lie elsewhere "
        f"CMAKE_ARGS=-DCMAKE_LIBRARY_PATH=FOLDER names their folder, {_HEADERS_TOO}",
    ),
    _fault(
        r"^\s*(CUDA::cuda_driver)$|cannot find (-lcuda)\b",
        "the stub of NVIDIA's driver is missing (libcuda.so in the CUDA toolkit's lib64/stubs): install the package "
        "cuda-driver-dev of nvcc's version, or build with CMAKE_ARGS=-DGGML_CUDA_NO_VMM=ON, which does without it",
    ),
    _fault(
        r"^\s*(CUDA::cudart)$|(cuda_runtime\.h): No such file|Could NOT find (CUDAToolkit)|(CUDA Toolkit) not found",
        "{0} is not found: nvcc is on the PATH, but not the headers and libraries of its toolkit; "
        "CMAKE_ARGS=-DCUDAToolkit_ROOT=FOLDER names the folder that has `include` and `lib64`",
    ),
    _fault(
        r"(unsupported GNU version! gcc versions later than \d+)|(unsupported Microsoft Visual Studio version)",
        "nvcc does not know this machine's C++ compiler ({0}): install an older one beside it and name it, as in "
        "CMAKE_ARGS=-DCMAKE_CUDA_HOST_COMPILER=g++-13",
    ),
    _fault(
        r"Unsupported gpu architecture '(\S+)'",
        "this nvcc does not compile for {0}: name your GPU's compute capability, as in "
        "CMAKE_ARGS=-DCMAKE_CUDA_ARCHITECTURES=86, or install a CUDA toolkit that knows it",
    ),
    _fault(
        r"Could NOT find (Vulkan)\b|(SPIRV-Headers)\S* .*not found|(spirv/unified1/spirv\.hpp): No such file",
        "{0} is missing or too old: Vulkan's headers (1.3.268 or newer) and loader and SPIR-V's headers are needed; on "
        "Debian 13, Ubuntu 24.04 and newer: apt install glslc libvulkan-dev spirv-headers",
    ),
    _fault(
        r"(Killed) signal terminated program|died due to signal (9)\b|(out of memory allocating)|"
        r"(virtual memory exhausted)",
        "a compiler ran out of memory: CMAKE_BUILD_PARALLEL_LEVEL=1 in the environment lets one run at a time",
    ),
    _fault(r"(No space left on device)", "the disk is full: the data directory (--home) needs some 2 GB for a build"),
    _fault(
        r"No (CMAKE_C\w*_COMPILER) could be found|(CMAKE_C\w*_COMPILER) not set",
        "there is no C++ compiler; on Debian and Ubuntu: apt install g++",
    ),
    _fault(
        r"(Temporary failure in name resolution)|(Failed to establish a new connection)|"
        r"(No matching distribution found)",
        "the source of llama.cpp could not be fetched ({0}): a build needs the package index once",
    ),
)
"""The first match counts, since one error of CMake causes others."""


class BuildOutput:
    """Takes a build's lines as they come: the last ones are kept, and the first fault among all."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._fault = ""

    def feed(self, line: str) -> None:
        """One line, without its end."""
        self._last.append(line)
        if self._fault:
            return
        for fault in FAULTS:
            if found := fault.pattern.search(line):
                self._fault = fault.words.format(next(filter(None, found.groups()), ""))[: 4 * MAX_LINE_CHARS]
                return

    def reason(self, needs: str) -> str:
        """Why the build failed, and what to do. `needs`: what such a build needs, added if the fault is unknown."""
        if self._fault:
            return f"llama.cpp could not be compiled: {self._fault}"
        lines = "\n  ".join(line[:MAX_LINE_CHARS] for line in self._last)
        return f"llama.cpp could not be compiled{needs}; the last lines were:\n  {lines}"
