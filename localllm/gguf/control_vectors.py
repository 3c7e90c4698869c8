"""Checks the header of a control vector against that of its base model, and reads its directions.

    direction.N    F32, [width]: what is added to what comes out of layer N, 1 <= N < number of layers

Knows nothing of where files lie and of what is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from localllm.errors import InvalidParameter
from localllm.gguf.cursor import invalid_file
from localllm.gguf.header import Header
from localllm.gguf.kinds import text_of
from localllm.types import AdapterInfo, Layers

ARCHITECTURE = "controlvector"
HINT = "controlvector.model_hint"
"""Key of the architecture that it was made for."""
_DIRECTION = re.compile(r"direction\.([1-9][0-9]{0,4})", re.ASCII)


def is_control_vector(header: Header) -> bool:
    return text_of(header, "general.architecture") == ARCHITECTURE


def control_vector_info(header: Header) -> AdapterInfo:
    """What can be said without the base. Raises `InvalidModelFile`."""
    _layers(header)
    return AdapterInfo(
        architecture=text_of(header, HINT) or "",
        name=text_of(header, "general.name"),
        base_name=None,
        alpha=0.0,
        rank=0,
        num_matrices=0,
        size_bytes=sum(tensor.n_bytes for tensor in header.tensors),
        num_layers=len(header.tensors),
    )


def check_control_vector(header: Header, base: Sequence[Header]) -> AdapterInfo:
    """`base`: the headers of all of its shards. Raises `InvalidModelFile`."""
    found, architecture = control_vector_info(header), text_of(base[0], "general.architecture") or ""
    if found.architecture and found.architecture != architecture:
        _fail(
            header, f"it is for models of architecture {found.architecture}, and {base[0].path.name} is {architecture}"
        )
    width, num_layers = (_number(base[0], f"{architecture}.{key}") for key in ("embedding_length", "block_count"))
    for layer, tensor in zip(_layers(header), header.tensors, strict=True):
        if tensor.dims != (width,):
            _fail(header, f"tensor {tensor.name!r} has the shape {list(tensor.dims)}; the base's vectors have {width}")
        if layer >= num_layers:
            _fail(header, f"tensor {tensor.name!r} is for a layer that the base, with {num_layers}, does not have")
    return found


def check_range(header: Header, base: Sequence[Header], layers: Layers) -> None:
    """The only layers that it is to change. Raises `InvalidParameter` for those that the base does not have, or for
    which it has no direction."""
    architecture = text_of(base[0], "general.architecture") or ""
    last = _number(base[0], f"{architecture}.block_count") - 1
    if not 1 <= layers.first <= layers.last <= last:
        raise InvalidParameter(
            f"layers {layers} of {header.path.name}: the model has vectors of the layers 1-{last}", param="layers"
        )
    has = _layers(header)
    if not any(layers.first <= layer <= layers.last for layer in has):
        raise InvalidParameter(
            f"layers {layers} of {header.path.name}: it has directions of the layers {min(has)}-{max(has)} only",
            param="layers",
        )


def read_directions(header: Header, num_layers: int, width: int) -> npt.NDArray[np.float32]:
    """Shape (num_layers - 1, width): of the layers from 1 on, zeros where it has none. The header was checked."""
    found = np.zeros((num_layers - 1, width), np.float32)
    raw = np.memmap(header.path, np.uint8, "r")
    for layer, tensor in zip(_layers(header), header.tensors, strict=True):
        start = header.data_start + tensor.offset
        if 0 < layer < num_layers:
            found[layer - 1] = raw[start : start + tensor.n_bytes].view("<f4")
    return found


def write_control_vector(
    path: Path, architecture: str, directions: npt.NDArray[np.float32], *, first: int, name: str = ""
) -> None:
    """`directions`: shape (layers, width), of consecutive layers from `first` on."""
    import gguf

    writer = gguf.GGUFWriter(path, ARCHITECTURE, endianess=gguf.GGUFEndian.LITTLE)
    writer.add_string(HINT, architecture)
    writer.add_uint32("controlvector.layer_count", len(directions))
    if name:
        writer.add_name(name)
    for layer, direction in enumerate(directions, first):
        writer.add_tensor(f"direction.{layer}", np.ascontiguousarray(direction, "<f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _layers(header: Header) -> list[int]:
    """Of each tensor. Raises `InvalidModelFile`."""
    layers: list[int] = []
    for tensor in header.tensors:
        found = _DIRECTION.fullmatch(tensor.name)
        if found is None:
            _fail(header, f"tensor {tensor.name!r} is not of the form direction.LAYER")
        if tensor.type != "F32":
            _fail(header, f"tensor {tensor.name!r} is of type {tensor.type}; directions are F32")
        layers.append(int(found[1]))
    if not layers:
        _fail(header, "it has no directions")
    return layers


def _number(header: Header, key: str) -> int:
    entry = header.metadata.get(key)
    if entry is None or not isinstance(entry.value, int):
        _fail(header, f"{key} is missing")
    return entry.value


def _fail(header: Header, reason: str) -> NoReturn:
    raise invalid_file(header.path, reason)
