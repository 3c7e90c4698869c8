"""Our copies of the `gguf` package's tables stay equal to them."""

from __future__ import annotations

import subprocess
import sys

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, LlamaFileType

from localllm.gguf.tables import ARRAY, BLOCK_TYPES, SCALAR_FORMATS, STRING
from localllm.types.upstream import FILE_TYPES


def test_block_sizes_are_those_of_the_gguf_package_but_for_its_q8_1() -> None:
    theirs = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType}
    theirs[9] = ("Q8_1", 32, 36)  # two fp16 scales and 32 bytes: ggml-common.h, block_q8_1
    ours = {number: tuple(block) for number, block in BLOCK_TYPES.items()}
    assert theirs.items() <= ours.items()
    assert ours.keys() - theirs.keys() <= {42}


def test_file_types_are_those_of_the_gguf_package() -> None:
    theirs = {
        int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        for kind in LlamaFileType
        if kind.name != "GUESSED"
    }
    assert theirs.items() <= FILE_TYPES.items()
    assert FILE_TYPES.keys() - theirs.keys() <= {41}


def test_value_types_are_those_of_the_gguf_package() -> None:
    assert {*SCALAR_FORMATS, STRING, ARRAY} == {int(kind) for kind in GGUFValueType}


def test_reading_headers_imports_neither_numpy_nor_gguf() -> None:
    """Together they cost 0.2 s, which `localllm show` would pay."""
    code = "import sys, localllm.gguf; print(sorted({'numpy', 'gguf', 'llama_cpp'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
