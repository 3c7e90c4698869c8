"""Checks the header of a LoRA adapter or control vector against its base model's, before native code sees the file.

What llama.cpp would refuse, skip without a word, or end its process over is an error here that names the tensor. Knows
nothing of where files lie and of what is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from localllm.errors import InvalidParameter
from localllm.gguf.control_vectors import check_control_vector, check_range, control_vector_info, is_control_vector
from localllm.gguf.cursor import invalid_file
from localllm.gguf.header import Header, TensorInfo, read_header
from localllm.gguf.kinds import text_of
from localllm.gguf.shards import read_all_shards
from localllm.gguf.tables import ARRAY, FLOAT32, UINT32
from localllm.types import AdapterInfo, Layers

PARTS = (".lora_a", ".lora_b")
TYPES = ("F32", "F16", "BF16", "Q8_0")
"""Types that converters write; with others llama.cpp may find no kernel and end its process."""
MAX_RANK = 8192
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
INVOCATION = "adapter.alora.invocation_tokens"
MAX_INVOCATION_TOKENS = 1024
UNSUPPORTED_BASES = ("NVFP4",)
"""Types of base tensors for which llama.cpp asserts that no adapter changes them."""


class _Pair(NamedTuple):
    """The two factors of the change of one matrix: `a` reduces to the rank, `b` leads back."""

    a: TensorInfo
    b: TensorInfo


def is_adapter(header: Header) -> bool:
    return text_of(header, "general.type") == "adapter" or "adapter.type" in header.metadata


def read_adapter(path: Path, base: Path, layers: Layers | None = None) -> AdapterInfo:
    """Reads both headers and checks them. `layers`: the only ones that a control vector is to change. Raises
    `ModelNotFound`, `LoadFailed`, `InvalidModelFile`, `InvalidParameter` for such layers."""
    header, of = read_header(path), read_all_shards(read_header(base))
    found = check_adapter(header, of)
    if layers is not None and not is_control_vector(header):
        raise InvalidParameter(
            f"layers {layers} of {path.name}: it is a LoRA adapter; only control vectors are limited to layers",
            param="layers",
        )
    if layers is not None:
        check_range(header, of, layers)
    return found


def check_adapter(header: Header, base: Sequence[Header]) -> AdapterInfo:
    """`base`: the headers of all of its shards. Raises `InvalidModelFile`."""
    if is_control_vector(header):
        return check_control_vector(header, base)
    found = adapter_info(header)
    architecture = text_of(base[0], "general.architecture")
    if found.architecture != architecture:
        _fail(
            header,
            f"it is for models of architecture {found.architecture}, and {base[0].path.name} is of {architecture}",
            "general.architecture",
        )
    tensors = {tensor.name: tensor for each in base for tensor in each.tensors}
    for name, pair in _pairs(header).items():
        _check_pair(header, name, pair, tensors)
    embedding = tensors.get(EMBEDDING)
    if found.invocation and embedding is not None and max(found.invocation) >= embedding.dims[1]:
        _fail(header, f"{INVOCATION} has a token that the base, with {embedding.dims[1]:,}, does not have", INVOCATION)
    return found


def adapter_info(header: Header) -> AdapterInfo:
    """What can be said without the base. Raises `InvalidModelFile`."""
    if is_control_vector(header):
        return control_vector_info(header)
    if not is_adapter(header) or text_of(header, "general.type") != "adapter":
        _fail(header, "it is not a LoRA adapter: general.type is not adapter", "general.type")
    kind = text_of(header, "adapter.type")
    if kind != "lora":
        _fail(header, f"its adapter.type is {kind!r}; only lora can be applied", "adapter.type")
    architecture = text_of(header, "general.architecture")
    if architecture is None:
        _fail(header, "general.architecture is missing")
    pairs = _pairs(header)
    return AdapterInfo(
        architecture=architecture,
        name=text_of(header, "general.name"),
        base_name=text_of(header, "general.base_model.0.name"),
        alpha=_alpha(header),
        rank=max(_rank(name, pair) for name, pair in pairs.items()),
        num_matrices=len(pairs),
        size_bytes=sum(tensor.n_bytes for tensor in header.tensors),
        invocation=_invocation(header),
    )


def _alpha(header: Header) -> float:
    entry = header.metadata.get("adapter.lora.alpha")
    if entry is None:
        return 0.0
    if entry.type != FLOAT32 or not isinstance(entry.value, float) or not math.isfinite(entry.value):
        _fail(header, "adapter.lora.alpha is not a finite 32-bit floating point number", "adapter.lora.alpha")
    return entry.value


def _invocation(header: Header) -> tuple[int, ...]:
    """The tokens from which on an activated adapter works; llama.cpp reads unsigned 32-bit numbers."""
    entry = header.metadata.get(INVOCATION)
    if entry is None:
        return ()
    if entry.type != ARRAY or _item_type(header, entry.offset, INVOCATION) != UINT32:
        _fail(header, f"{INVOCATION} is not an array of unsigned 32-bit numbers", INVOCATION)
    if not isinstance(entry.value, tuple) or len(entry.value) > MAX_INVOCATION_TOKENS:
        _fail(header, f"{INVOCATION} has more than {MAX_INVOCATION_TOKENS:,} tokens", INVOCATION)
    return tuple(each for each in entry.value if isinstance(each, int))


def _item_type(header: Header, offset: int, key: str) -> int:
    """Of an array, whose key begins at that byte: its length, the key, the value's type, then the items'."""
    with open(header.path, "rb") as file:
        file.seek(offset + 8 + len(key) + 4)
        return int.from_bytes(file.read(4), "little")


def _pairs(header: Header) -> dict[str, _Pair]:
    """The factors by the name of the matrix that they change."""
    found: dict[str, dict[str, TensorInfo]] = {}
    for tensor in header.tensors:
        part = next((part for part in PARTS if tensor.name.endswith(part)), None)
        name = tensor.name.removesuffix(part or "")
        if part is None or any(each in name for each in PARTS):
            _fail(
                header, f"tensor {tensor.name!r} is not of the form NAME.lora_a or NAME.lora_b, and cannot be applied"
            )
        if tensor.type not in TYPES:
            _fail(header, f"tensor {tensor.name!r} is of type {tensor.type}; adapters have {', '.join(TYPES)}")
        found.setdefault(name, {})[part] = tensor
    if not found:
        _fail(header, "it has no tensors")
    for name, parts in found.items():
        for part in PARTS:
            if part not in parts:
                _fail(header, f"tensor {name + part!r} is missing: each change needs .lora_a and .lora_b")
    return {name: _Pair(*(parts[part] for part in PARTS)) for name, parts in found.items()}


def _rank(name: str, pair: _Pair) -> int:
    return pair.a.dims[0] if name == EMBEDDING else pair.b.dims[0]


def _check_pair(header: Header, name: str, pair: _Pair, tensors: Mapping[str, TensorInfo]) -> None:
    of = tensors.get(name)
    if of is None:
        _fail(header, f"it changes {name!r}, which the base model does not have; is it another model's adapter?")
    if len(of.dims) < 2 or name.endswith("_norm.weight"):
        _fail(header, f"it changes {name!r}, which is not a matrix; llama.cpp would leave that out")
    if of.type in UNSUPPORTED_BASES:
        _fail(header, f"it changes {name!r}, which the base has in {of.type}; llama.cpp cannot apply adapters to that")
    if name == EMBEDDING and OUTPUT not in tensors:
        reason = f"it changes {name!r}, which the base also uses as its output; llama.cpp cannot apply that"
        _fail(header, reason)
    rank = _rank(name, pair)
    if not 1 <= rank <= MAX_RANK:
        _fail(header, f"the change of {name!r} has rank {rank:,}; 1 to {MAX_RANK:,} are possible")
    more = of.dims[2:]
    if name == EMBEDDING:
        wanted = _Shapes((rank, of.dims[1]), (rank, of.dims[0]))
    else:
        wanted = _Shapes((of.dims[0], rank, *more), (rank, of.dims[1], *more))
    for tensor, dims in zip(pair, wanted, strict=True):
        if _plain(tensor.dims) != _plain(dims):
            _fail(
                header,
                f"tensor {tensor.name!r} has the shape {list(tensor.dims)} instead of {list(dims)}, which {name!r} of "
                f"{list(of.dims)} takes; is it another model's adapter?",
            )


class _Shapes(NamedTuple):
    a: tuple[int, ...]
    b: tuple[int, ...]


def _plain(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Without trailing ones, which mean nothing."""
    while len(dims) > 1 and dims[-1] == 1:
        dims = dims[:-1]
    return dims


def _fail(header: Header, reason: str, key: str = "") -> NoReturn:
    entry = header.metadata.get(key)
    raise invalid_file(header.path, reason, None if entry is None else entry.offset)
