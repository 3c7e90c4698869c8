"""Quantizes a GGUF file with `llama_model_quantize`, in a child process, so that a crash loses no training run."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

from gguf import GGMLQuantizationType, LlamaFileType

TIMEOUT_S = 300


def quantize(source: Path, target: Path, kind: GGMLQuantizationType) -> None:
    """Write `target` with every matrix in one type. Raises `RuntimeError` with the end of the child's stderr."""
    file_type = LlamaFileType[f"MOSTLY_{kind.name}"]
    command = [sys.executable, str(Path(__file__).resolve()), str(source), str(target), str(int(file_type))]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if child.returncode != 0:
        raise RuntimeError(f"quantizing ended with {child.returncode}: {child.stderr[-2000:]}")


def _child(source: str, target: str, file_type: int) -> None:
    from localllm.llama import library
    from localllm.llama.probes import selftest

    with tempfile.TemporaryDirectory() as folder:
        api = library.load(selftest.choose(Path(folder)).choice).api
    params = api.llama_model_quantize_default_params()
    params.ftype = file_type
    params.pure = True
    result = api.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params))
    if result != 0:
        raise SystemExit(f"llama_model_quantize returned {result}")


if __name__ == "__main__":
    _child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
