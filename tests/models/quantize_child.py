"""`python -m tests.models.quantize_child`: one quantization per JSON line of stdin, `{}` for each on stdout."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

from tests.models.native import load_library


def main() -> None:
    library = load_library()
    for line in sys.stdin:
        _quantize(library, json.loads(line))
        print("{}", flush=True)


def _quantize(library: Any, job: dict[str, Any]) -> None:
    params = library.llama_model_quantize_default_params()
    params.nthread = 2
    params.ftype = job["file_type"]
    params.pure = job["pure"]
    overrides = _overrides(library, job["tensor_types"])
    params.tt_overrides = overrides
    importance = _importance(library, job["source"]) if job["importance"] else None
    if importance is not None:
        params.imatrix = importance
    result = library.llama_model_quantize(job["source"].encode(), job["target"].encode(), ctypes.byref(params))
    if result != 0:
        raise RuntimeError(f"llama_model_quantize returned {result} for {job}")


def _overrides(library: Any, tensor_types: dict[str, int]) -> Any:
    """A NULL-terminated array; bytes given to a c_char_p field stay alive with it."""
    array = (library.llama_model_tensor_override * (len(tensor_types) + 1))()
    for item, (pattern, kind) in zip(array, tensor_types.items(), strict=False):
        item.pattern = pattern.encode()
        item.type = kind
    return array


def _importance(library: Any, source: str) -> Any:
    """Ones for every matrix: one number per column (per expert)."""
    from gguf import GGUFReader

    sizes = {
        tensor.name: int(tensor.shape[0]) * (int(tensor.shape[2]) if len(tensor.shape) > 2 else 1)
        for tensor in GGUFReader(source).tensors
        if len(tensor.shape) > 1
    }
    array = (library.llama_model_imatrix_data * (len(sizes) + 1))()
    for item, (name, size) in zip(array, sizes.items(), strict=False):
        ones = (ctypes.c_float * size)(*[1.0] * size)
        item.name = name.encode()
        item.data = ctypes.cast(ones, ctypes.POINTER(ctypes.c_float))
        item.size = size
    return array


if __name__ == "__main__":
    main()
