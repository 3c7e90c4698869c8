"""Describes the models of a repository without downloading them, from one header of each, read by range requests.

The quantizations of one model differ only in their weights, so one header serves them all. Knows nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from localllm.errors import InvalidModelFile, LocalLLMError, PullFailed
from localllm.gguf import Header, model_info
from localllm.registry.foreign.header_facts import check_is_model
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.sources.choose import Candidate
from localllm.registry.sources.quants import without_quant
from localllm.registry.sources.remote_header import remote_header
from localllm.registry.sources.retyping import retyped
from localllm.registry.sources.source import Fetch
from localllm.types import ModelInfo
from localllm.types.products import Products

MAX_MODELS = 8
"""Models per repository whose headers are read; the first ones if there are more."""

Measure = Callable[[ModelInfo], int]
"""The memory that a model needs, in bytes. Raises `LocalLLMError` for one that cannot be loaded."""


@dataclass(frozen=True)
class Offer:
    """A downloadable model."""

    name: str
    """The name that pulls it."""
    quant: str | None
    size_bytes: int
    num_files: int
    info: ModelInfo | None
    why_not: str | None = None
    """Why nothing more is known."""
    license: str | None = None
    is_chosen: bool = False
    """Whether a pull without a quantization would choose it on this machine."""
    why: str | None = None
    """Why it would be chosen: a phrase."""


class Headers:
    """The headers of one repository, each requested when first needed."""

    def __init__(
        self, candidates: Sequence[Candidate], remote: Callable[[Candidate], RemoteFile], fetch: Fetch
    ) -> None:
        self._remote = remote
        self._fetch = fetch
        self._models: dict[str, list[Candidate]] = {}
        for one in candidates:
            self._models.setdefault(_model_of(one), []).append(one)
        self._known: dict[str, Header | LocalLLMError] = {}

    def info(self, candidate: Candidate) -> ModelInfo:
        """The header's model with the weights of this candidate. Raises `PullFailed`, `InvalidModelFile`."""
        model = _model_of(candidate)
        if model not in self._known:
            self._known[model] = self._read(self._models.get(model, [candidate]))
        header = self._known[model]
        if isinstance(header, LocalLLMError):
            raise header
        return _resized(header, candidate.size_bytes, candidate.quant, is_whole="split.count" not in header.metadata)

    def _read(self, same: list[Candidate]) -> Header | LocalLLMError:
        if len(self._known) >= MAX_MODELS:
            return PullFailed(f"the repository has more than {MAX_MODELS} models; give the name of a file")
        # Only an unsplit file has all tensor names in its header; among those, the smallest will do.
        one = min(same, key=lambda each: (each.num_shards, each.size_bytes))
        try:
            return remote_header(self._remote(one), self._fetch)
        except LocalLLMError as error:
            return error


def plan_offer(plan: PullPlan, fetch: Fetch) -> Offer:
    """The model of a source that has only one."""
    models = [file for file in plan.files if file.role == "model"]
    size_bytes = sum(file.size_bytes or 0 for file in models)
    info, why_not = None, None
    try:
        header = remote_header(models[0], fetch)
        info = _resized(header, size_bytes or header.size_bytes, plan.quant, is_whole=len(models) == 1)
    except (PullFailed, InvalidModelFile) as error:
        why_not = error.message
    return Offer(
        plan.name, plan.quant, size_bytes, len(models), info, why_not, plan.license, is_chosen=True, why=plan.why
    )


def resized(info: ModelInfo, size_bytes: int, *, is_whole: bool = True) -> ModelInfo:
    """The same model in another quantization; if the header lacks tensors, all layers are assumed to be equal."""
    every = info.num_layers + 1
    if is_whole and info.size_bytes:
        layers = tuple(size * size_bytes // info.size_bytes for size in info.layer_bytes)
    else:
        layers = (size_bytes // every,) * info.num_layers
    return msgspec.structs.replace(
        info, size_bytes=size_bytes, layer_bytes=layers, other_bytes=size_bytes - sum(layers), tensors={}
    )


def _resized(header: Header, size_bytes: int, quant: str | None, *, is_whole: bool) -> ModelInfo:
    """The header's model in a file of that size and quantization, which may differ from the header's."""
    check_is_model(header)
    read = model_info([header])
    info = resized(read, size_bytes, is_whole=is_whole)
    if is_whole and header.size_bytes == size_bytes:
        return info
    products = (
        retyped(read.products, quant, from_bytes=read.size_bytes, to_bytes=size_bytes) if is_whole else Products()
    )
    return msgspec.structs.replace(info, products=products)


def _model_of(one: Candidate) -> str:
    return without_quant(one.stem.rpartition("/")[2])
