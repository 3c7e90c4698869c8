"""Describes the models of a repository without downloading them, from one header of each, read by range requests.

The quantizations of one model differ only in their weights, so one header serves them all. Knows nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from localllm.errors import Cancelled, InvalidModelFile, LocalLLMError, PullFailed
from localllm.gguf import Header, model_info
from localllm.gguf.projectors import projector_info
from localllm.planning.projector_plan import need_of
from localllm.registry.foreign.header_facts import check_is_known, check_is_model
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.sources.choose import Candidate
from localllm.registry.sources.quants import without_quant
from localllm.registry.sources.remote_header import HeaderReader
from localllm.registry.sources.retyping import retyped
from localllm.types import ModelInfo, ProjectorInfo
from localllm.types.headers.products import Products

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
    projector: ProjectorInfo | None = None
    """The projector that would be pulled with it, as far as its header can be used."""


class Headers:
    """The headers of one repository, each read when first needed."""

    def __init__(
        self, candidates: Sequence[Candidate], remote: Callable[[Candidate], Sequence[RemoteFile]], reader: HeaderReader
    ) -> None:
        self._remote = remote
        self._reader = reader
        self._models: dict[str, list[Candidate]] = {}
        for one in candidates:
            self._models.setdefault(_model_of(one), []).append(one)
        self._known: dict[str, tuple[Header, ...] | LocalLLMError] = {}
        self._projectors: dict[str, ProjectorInfo | None] = {}

    def info(self, candidate: Candidate) -> ModelInfo:
        """The header's model with the weights of this candidate. Raises `PullFailed`, `InvalidModelFile`."""
        model = _model_of(candidate)
        if model not in self._known:
            self._known[model] = self._read(self._models.get(model, [candidate]))
        headers = self._known[model]
        if isinstance(headers, LocalLLMError):
            raise headers
        return _resized(headers, candidate.size_bytes, candidate.quant)

    def projector(self, file: RemoteFile) -> ProjectorInfo | None:
        """What the header of a projector says; None: it cannot be read, or the projector not be used."""
        if file.file_name not in self._projectors:
            self._projectors[file.file_name] = projector_of(file, self._reader)
        return self._projectors[file.file_name]

    def _read(self, same: list[Candidate]) -> tuple[Header, ...] | LocalLLMError:
        if len(self._known) >= MAX_MODELS:
            return PullFailed(f"the repository has more than {MAX_MODELS} models; give the name of a file")

        # One that is here, or the smallest unsplit one: a shard's header lacks the tensors of the others.
        def rank(one: Candidate) -> tuple[bool, int, int]:
            return not self._reader.are_here(self._remote(one)), one.num_shards, one.size_bytes

        try:
            return self._reader.read(self._remote(min(same, key=rank)))
        except LocalLLMError as error:
            return error


def projector_of(file: RemoteFile, reader: HeaderReader) -> ProjectorInfo | None:
    """As `Headers.projector`. Raises `Cancelled`."""
    try:
        return projector_info(reader.read([file])[0])
    except Cancelled:
        raise
    except LocalLLMError:
        return None


def _projector_of(plan: PullPlan, reader: HeaderReader) -> ProjectorInfo | None:
    file = next((file for file in plan.files if file.role == "projector"), None)
    return None if file is None else projector_of(file, reader)


def plan_offer(plan: PullPlan, reader: HeaderReader) -> Offer:
    """The model of a source that has only one."""
    models = [file for file in plan.files if file.role == "model"]
    info, why_not = None, None
    try:
        info = _info_of(plan, reader)
    except (PullFailed, InvalidModelFile) as error:
        why_not = error.message
    return Offer(
        plan.name, plan.quant, plan.size_bytes or 0, len(models), info, why_not, plan.license, is_chosen=True,
        why=plan.why, projector=_projector_of(plan, reader),
    )  # fmt: skip


def with_header(plan: PullPlan, reader: HeaderReader, measure: Measure) -> PullPlan:
    """The plan with what the header says; unchanged if it cannot be read before the download. Raises `Cancelled`."""
    try:
        info = _info_of(plan, reader)
    except InvalidModelFile as error:
        return replace(plan, problem=error)
    except Cancelled:
        raise
    except PullFailed:
        return plan
    try:
        need_bytes = measure(info)
    except LocalLLMError:
        need_bytes = None
    projector = _projector_of(plan, reader)
    if need_bytes is not None and projector is not None:
        need_bytes += need_of(projector)
    return replace(plan, info=info, need_bytes=need_bytes, projector=projector)


def _info_of(plan: PullPlan, reader: HeaderReader) -> ModelInfo:
    models = [file for file in plan.files if file.role == "model"]
    headers = reader.read(models)
    size_bytes = sum(file.size_bytes or 0 for file in models) or headers[0].size_bytes
    return _resized(headers, size_bytes, plan.quant)


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


def _resized(headers: Sequence[Header], size_bytes: int, quant: str | None) -> ModelInfo:
    """The headers' model in files of that size and quantization, which may differ from the headers'."""
    check_is_model(headers[0])
    check_is_known(headers[0])
    read = model_info(headers)
    is_whole = len(headers) > 1 or "split.count" not in headers[0].metadata
    info = resized(read, size_bytes, is_whole=is_whole)
    if is_whole and sum(header.size_bytes for header in headers) == size_bytes:
        return info
    products = (
        retyped(read.products, quant, from_bytes=read.size_bytes, to_bytes=size_bytes) if is_whole else Products()
    )
    return msgspec.structs.replace(info, products=products)


def _model_of(one: Candidate) -> str:
    return without_quant(one.stem.rpartition("/")[2])
