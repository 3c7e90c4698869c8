"""A PEFT folder becomes a GGUF adapter for one base model: names, order of rows, and scales.

    B A x * scaling   is   B' A x * alpha / rank(B)   with one alpha for all matrices, in llama.cpp

so where scalings differ, the rest of them goes into B'. Checks what can be expressed; knows nothing of hubs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from localllm.errors import InvalidModelFile, UnsupportedParameter, clipped
from localllm.gguf.adapters import EMBEDDING, INVOCATION, check_adapter
from localllm.gguf.header import Header, read_header
from localllm.gguf.kinds import text_of
from localllm.gguf.shards import read_all_shards
from localllm.registry.peft import architectures
from localllm.registry.peft.config import FILE as CONFIG
from localllm.registry.peft.config import PeftConfig, read_config
from localllm.registry.peft.safetensors import StoredTensor, as_float32, read_safetensors
from localllm.registry.sources.hugging_face_api import PEFT_WEIGHTS
from localllm.types import AdapterInfo

WEIGHTS = PEFT_WEIGHTS
PICKLED = "adapter_model.bin"
PREFIX = "base_model.model."
MAX_MODULE_CHARS = 200
_SUFFIXES = {
    ".lora_A.weight": "a",
    ".lora_B.weight": "b",
    ".lora_embedding_A": "a",
    ".lora_embedding_B": "b",
}
_DORA = ".lora_magnitude_vector"


class _Factors(NamedTuple):
    """One module's change: B A."""

    a: StoredTensor
    """Shape (rank, inputs)."""
    b: StoredTensor
    """Shape (outputs, rank)."""

    @property
    def rank(self) -> int:
        return int(self.b.array.shape[-1])


class _Matrix(NamedTuple):
    """What is written for one matrix of the base."""

    factors: _Factors
    strength: float
    """alpha, as llama.cpp would need it for this matrix."""


def is_peft_folder(path: Path) -> bool:
    return (path / CONFIG).is_file()


def convert(folder: Path, base: Path, target: Path, *, name: str = "") -> AdapterInfo:
    """Write the folder's adapter as a GGUF file. Nothing is written unless all of it can be expressed.

    Raises `InvalidModelFile`, `UnsupportedParameter` that names what cannot be converted, `LoadFailed`s of the base.
    """
    headers = read_all_shards(read_header(base))
    architecture = text_of(headers[0], "general.architecture") or ""
    if not architectures.is_known(architecture):
        raise UnsupportedParameter(
            f"adapters for models of architecture {clipped(architecture)} cannot be converted yet: llama.cpp's "
            "conversion reorders their matrices; convert it with llama.cpp's convert_lora_to_gguf.py",
            param="model",
        )
    config = read_config(folder)
    if not (folder / WEIGHTS).exists():
        if (folder / PICKLED).exists():
            _refuse(PICKLED, "it may run code when it is read; save the adapter as safetensors")
        raise InvalidModelFile(f"{folder.name} has no {WEIGHTS}", path=str(folder))
    matrices = _matrices(_factors(read_safetensors(folder / WEIGHTS)), config, architecture, headers)
    try:
        _write(target, architecture, matrices, config, name=name)
        return check_adapter(read_header(target), headers)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _factors(tensors: Mapping[str, StoredTensor]) -> dict[str, _Factors]:
    """By the name of the module, as in the model."""
    found: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in tensors.items():
        if _DORA in name:
            _refuse(name, "DoRA changes the magnitudes of whole rows")
        if name.endswith(".base_layer.weight"):
            continue  # peft saves the base's own embeddings beside their change
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)
        if suffix is None:
            why = "only lora_A and lora_B of matrices and embeddings can be converted"
            is_embedding = name.endswith(("embed_tokens.weight", "lm_head.weight"))
            _refuse(name, why + "; save it with save_embedding_layers=False" * is_embedding)
        module = name.removeprefix(PREFIX).removesuffix(suffix)
        if len(module) > MAX_MODULE_CHARS:
            _refuse(name, f"names have at most {MAX_MODULE_CHARS} characters")
        if len(tensor.array.shape) != 2:
            _refuse(name, f"it has the shape {list(tensor.array.shape)}, and is no matrix")
        found.setdefault(module, {})[_SUFFIXES[suffix]] = tensor
    for module, parts in found.items():
        for part, other in (("a", "lora_B"), ("b", "lora_A")):
            if part not in parts:
                _refuse(module, f"it has {other} only")
        if parts["a"].array.shape[0] != parts["b"].array.shape[1] or 0 in parts["a"].array.shape:
            shapes = [list(parts[part].array.shape) for part in "ab"]
            _refuse(module, f"lora_A of {shapes[0]} and lora_B of {shapes[1]} do not belong together")
    return {module: _Factors(parts["a"], parts["b"]) for module, parts in found.items()}


def _matrices(
    modules: Mapping[str, _Factors], config: PeftConfig, architecture: str, headers: Sequence[Header]
) -> dict[str, _Matrix]:
    """By the name of the base's matrix."""
    base = {tensor.name: tensor for header in headers for tensor in header.tensors}
    layers = headers[0].metadata.get(f"{architecture}.block_count")
    find = architectures.finder(architecture, layers.value if layers and isinstance(layers.value, int) else 0)
    found: dict[str, _Matrix] = {}
    experts: dict[str, dict[int, _Matrix]] = {}
    for module, factors in modules.items():
        strength = config.scaling(module) * factors.rank
        whole, expert = architectures.split_expert(module)
        if f"{module}.weight" in base:  # names and rows as in the GGUF file
            found[f"{module}.weight"] = _Matrix(factors, strength)
            continue
        name = find(whole)
        if name is None or name not in base:
            _refuse(module, f"the base has no matrix of that name ({name or architecture}); is it another model's?")
        if architectures.is_reordered(architecture, name):
            _refuse(module, f"llama.cpp's conversion reorders {name}, which is not implemented")
        if expert is not None:
            experts.setdefault(name, {})[expert] = _Matrix(factors, strength)
            continue
        if name in found:
            _refuse(module, f"a second change of {name}")
        found[name] = _Matrix(_ordered(module, factors, name, architecture, headers[0]), strength)
    for name, each in experts.items():
        found[name] = _stacked(name, each, base[name].dims)
    return found


def _ordered(module: str, factors: _Factors, name: str, architecture: str, header: Header) -> _Factors:
    """With the order of rows and axes that they have in GGUF."""
    if name == EMBEDDING:
        return factors._replace(a=factors.a._replace(array=factors.a.array.T))
    try:
        rows = architectures.row_order(architecture, name, header, factors.b.array.shape[0])
    except ValueError as error:
        _refuse(module, str(error))
    return factors if rows is None else factors._replace(b=factors.b._replace(array=factors.b.array[rows]))


def _stacked(name: str, experts: Mapping[int, _Matrix], dims: tuple[int, ...]) -> _Matrix:
    """One matrix of all experts; those without a change have zeros."""
    ranks = {each.factors.rank for each in experts.values()}
    strengths = {each.strength for each in experts.values()}
    shapes = {(each.factors.a.array.shape[1], each.factors.b.array.shape[0]) for each in experts.values()}
    if len(dims) != 3 or max(experts) >= dims[2] or len(ranks) > 1 or len(shapes) > 1:
        _refuse(name, "its experts' changes have different ranks or shapes, or are more than the base has experts")
    (rank,), ((inputs, outputs),) = ranks, shapes
    a = np.zeros((dims[2], rank, inputs), np.float32)
    b = np.zeros((dims[2], outputs, rank), np.float32)
    for index, each in experts.items():
        a[index] = as_float32(each.factors.a)
        b[index] = as_float32(each.factors.b) * np.float32(each.strength / max(strengths))
    return _Matrix(_Factors(StoredTensor("F32", a), StoredTensor("F32", b)), max(strengths))


def _write(target: Path, architecture: str, matrices: Mapping[str, _Matrix], config: PeftConfig, *, name: str) -> None:
    import gguf

    if not matrices:
        raise InvalidModelFile(f"{WEIGHTS} has no tensors", path=str(target))
    strengths = [each.strength for each in matrices.values()]
    alpha = max(set(strengths), key=strengths.count)
    writer = gguf.GGUFWriter(target, architecture, endianess=gguf.GGUFEndian.LITTLE)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    if name:
        writer.add_name(name)
    if config.base_model_name_or_path:
        writer.add_base_model_count(1)
        writer.add_base_model_name(0, config.base_model_name_or_path)
    if tokens := config.alora_invocation_tokens:
        kinds = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.UINT32
        writer.add_key_value(INVOCATION, list(tokens), *kinds)
    for matrix, (factors, strength) in matrices.items():
        b = factors.b
        if strength != alpha:
            b = StoredTensor("F32", as_float32(b) * np.float32(strength / alpha))
        for part, tensor in (("lora_a", factors.a), ("lora_b", b)):
            _add(writer, f"{matrix}.{part}", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, name: str, tensor: StoredTensor) -> None:
    import gguf

    array: npt.NDArray[Any] = np.ascontiguousarray(tensor.array)
    if tensor.dtype == "BF16":
        writer.add_tensor(name, array.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        writer.add_tensor(name, array)


def _refuse(what: str, why: str) -> NoReturn:
    raise UnsupportedParameter(f"the adapter cannot be converted: {clipped(what)}: {why}", param="file")
