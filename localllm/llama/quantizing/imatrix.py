"""Importance matrices: how much each column of a tensor matters, as llama-imatrix measured it on a text.

Read from GGUF files and from the older `.dat` ones, and passed to `llama_model_quantize`. Formats: llama.cpp
`tools/imatrix/imatrix.cpp` (`save_imatrix`) and `tools/quantize/quantize.cpp` (`load_imatrix`). Knows nothing of
models.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from localllm.errors import InvalidModelFile, ModelNotFound
from localllm.gguf import Header, read_header

Array = npt.NDArray[np.float32]
MAX_BYTES = 4 * 1024**3
"""Largest file; that of a model with 1,000 billion weights is smaller."""
MAX_ENTRIES = 100_000
MAX_NAME_BYTES = 1024


class Importance(NamedTuple):
    """What a file says of one tensor."""

    values: Array
    """Of each column, with all experts one after the other, in float32."""
    num_unseen: int = 0
    """Experts that no text has reached: all their columns count equally."""
    num_experts: int = 1


def read_imatrix(path: Path) -> dict[str, Importance]:
    """By tensor name, without those that no text has reached.

    Raises `ModelNotFound`, `InvalidModelFile`.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelNotFound(
            f"the importance matrix {path} cannot be read: {error.strerror}", param="imatrix"
        ) from error
    if len(raw) > MAX_BYTES:
        _fail(path, f"it has more than {MAX_BYTES:,} bytes")
    found = _of_gguf(path, raw) if raw.startswith(b"GGUF") else _of_dat(path, raw)
    if not found:
        _fail(path, "it contains no tensor")
    for name, (values, *_) in found.items():
        if not np.isfinite(values).all() or (values < 0).any():
            _fail(path, f"its values for {name} are not all numbers of 0 or more")
    return {name: one for name, one in found.items() if one.num_unseen < one.num_experts}


def as_parameter(api: Any, matrix: Mapping[str, Importance]) -> tuple[Any, list[object]]:
    """For `llama_model_quantize_params.imatrix`, and the objects that must live as long as it is used."""
    kind = api.llama_model_imatrix_data
    rows = (kind * (len(matrix) + 1))()  # terminated by one without a name
    kept: list[object] = [rows]
    for row, (name, (values, *_)) in zip(rows, matrix.items(), strict=False):
        data = np.ascontiguousarray(values, dtype=np.float32)
        row.name = name.encode()
        row.data = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        row.size = data.size
        kept.append(data)
    return ctypes.cast(rows, ctypes.POINTER(kind)), kept


def _of_gguf(path: Path, raw: bytes) -> dict[str, Importance]:
    """`NAME.in_sum2` has the sums of squares, one row per expert; `NAME.counts` has the number of samples of each."""
    header = read_header(path)
    kind = header.metadata.get("general.type")
    if kind is None or kind.value != "imatrix":
        _fail(path, "it is another kind of GGUF file")
    tensors = {tensor.name: _values(header, raw, number) for number, tensor in enumerate(header.tensors)}
    found = {}
    for full_name, sums in tensors.items():
        name, dot, part = full_name.rpartition(".")
        if not dot or part != "in_sum2":
            continue
        counts = tensors.get(f"{name}.counts")
        if counts is None or counts.size == 0 or sums.size % counts.size:
            _fail(path, f"it does not say how many samples {name} has")
        rows = sums.reshape(counts.size, -1)
        seen = counts.reshape(-1, 1) > 0
        values = np.where(seen, rows / np.where(seen, counts.reshape(-1, 1), 1), 1).astype(np.float32).ravel()
        found[name] = Importance(values, int((~seen).sum()), counts.size)
    return found


def _values(header: Header, raw: bytes, number: int) -> Array:
    tensor = header.tensors[number]
    start = header.data_start + tensor.offset
    if tensor.type != "F32" or start + tensor.n_bytes > len(raw):
        _fail(header.path, f"{tensor.name} has the type {tensor.type}, or is truncated")
    return np.frombuffer(raw, np.float32, tensor.num_elements, start)


def _of_dat(path: Path, raw: bytes) -> dict[str, Importance]:
    """Little-endian: the number of entries, then for each the name, how many calls were summed, and the sums."""
    at = 0

    def integer(most: int, least: int = 0) -> int:
        nonlocal at
        if at + 4 > len(raw):
            _fail(path, "it is not an importance matrix, or is truncated")
        value: int = struct.unpack_from("<i", raw, at)[0]
        at += 4
        if not least <= value <= most:
            _fail(path, f"it is not an importance matrix: {value:,} at byte {at - 4:,}")
        return value

    def taken(num_bytes: int) -> int:
        nonlocal at
        if at + num_bytes > len(raw):
            _fail(path, "it is truncated")
        at += num_bytes
        return at - num_bytes

    found = {}
    for _ in range(integer(MAX_ENTRIES, 1)):
        length = integer(MAX_NAME_BYTES, 1)
        start = taken(length)
        name = raw[start : start + length].decode("utf-8", "replace")
        num_calls, num_values = integer(2**31 - 1), integer(2**31 - 1, 1)
        sums = np.frombuffer(raw, "<f4", num_values, taken(4 * num_values))
        values = (sums / num_calls if num_calls else sums).astype(np.float32)
        found[name] = Importance(values, num_unseen=int(not values.any()))
    return found


def _fail(path: Path, reason: str) -> NoReturn:
    raise InvalidModelFile(f"{path} cannot be used as an importance matrix: {reason}", path=str(path), reason=reason)
