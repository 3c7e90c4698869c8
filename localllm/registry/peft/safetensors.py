"""Reads a safetensors file: names, types, shapes and data, every number checked against the file.

    [0, 8) length of the header   [8, 8 + n) header, JSON   [8 + n, end) data, at offsets relative to its beginning

Format: https://github.com/huggingface/safetensors. Knows nothing of what tensors mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from localllm.errors import InvalidModelFile, clipped

MAX_HEADER_BYTES = 16 * 1024 * 1024
MAX_TENSORS = 65_536
MAX_DIMENSIONS = 8
DTYPES: Mapping[str, Any] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
"""The types that are read. NumPy has no BF16: its bits are those of an unsigned integer."""


class StoredTensor(NamedTuple):
    """One tensor."""

    dtype: str
    array: npt.NDArray[Any]
    """A view of the file, as in `DTYPES`."""


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """All tensors by name; their data is mapped, not read. Raises `InvalidModelFile`."""
    try:
        raw: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise _invalid(path, f"it cannot be read: {error}") from None
    if len(raw) < 8:
        raise _invalid(path, f"it has {len(raw)} bytes; a safetensors file begins with the length of its header")
    num_bytes = int.from_bytes(raw[:8].tobytes(), "little")
    if not 2 <= num_bytes <= min(MAX_HEADER_BYTES, len(raw) - 8):
        raise _invalid(path, f"its header claims {num_bytes:,} bytes of a file of {len(raw):,}")
    try:
        header = msgspec.json.decode(raw[8 : 8 + num_bytes].tobytes(), type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(path, f"its header is not a JSON object of tensors: {error}") from None
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise _invalid(path, f"it has {len(header):,} tensors; at most {MAX_TENSORS:,} are read")
    data = raw[8 + num_bytes :]
    return {name: _tensor(path, name, entry, data) for name, entry in header.items()}


def as_float32(tensor: StoredTensor) -> npt.NDArray[np.float32]:
    """A copy of its numbers, exact."""
    if tensor.dtype == "BF16":
        return (tensor.array.astype(np.uint32) << 16).view(np.float32)
    return tensor.array.astype(np.float32)


def _tensor(path: Path, name: str, raw: msgspec.Raw, data: npt.NDArray[np.uint8]) -> StoredTensor:
    shown = f"tensor {clipped(name)!r}"
    try:
        entry = msgspec.json.decode(raw, type=_Entry)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(path, f"{shown}: {error}") from None
    if entry.dtype not in DTYPES:
        raise _invalid(path, f"{shown} is of type {clipped(entry.dtype)}; {', '.join(DTYPES)} are read")
    if len(entry.shape) > MAX_DIMENSIONS or any(size < 0 for size in entry.shape):
        raise _invalid(path, f"{shown} has the shape {entry.shape[: MAX_DIMENSIONS + 1]}")
    begin, end = entry.data_offsets
    dtype = DTYPES[entry.dtype]
    if not 0 <= begin <= end <= len(data):
        raise _invalid(path, f"{shown} is at {begin:,} to {end:,} of {len(data):,} bytes")
    if end - begin != math.prod(entry.shape) * dtype.itemsize:
        raise _invalid(path, f"{shown} has {end - begin:,} bytes, which is not its shape {entry.shape}")
    return StoredTensor(entry.dtype, data[begin:end].view(dtype).reshape(entry.shape))


def _invalid(path: Path, reason: str) -> InvalidModelFile:
    return InvalidModelFile(f"{path.name} is not a usable safetensors file: {reason}", path=str(path), reason=reason)
