"""LoRA adapters and control vectors of a model: loaded when first needed, the least recently used ones freed.

An adapter belongs to its model, the set in force to one context; which of both computes is decided elsewhere. Files
were checked before (`gguf.adapters`): llama.cpp ends its process over some. Knows nothing of requests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.errors import LocalLLMError
from localllm.gguf.control_vectors import is_control_vector, read_directions
from localllm.gguf.header import read_header
from localllm.llama.context import LlamaContext
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import Layers
from localllm.types.states import AdapterStatus


class _File(NamedTuple):
    """Where an adapter is read from."""

    path: Path
    size_bytes: int
    """Of its tensors."""


class LlamaAdapters:
    """Used by the thread that decodes, except for `know`. `free` it before its context."""

    def __init__(self, library: Library, model: LlamaModel, context: LlamaContext, *, max_bytes: int) -> None:
        """`max_bytes`: of loaded adapters, in main memory or a device's."""
        self._library = library
        self._model = model
        self._context = context
        self._max_bytes = max_bytes
        self._files: dict[str, _File] = {}
        self._loaded: dict[str, Any] = {}
        """By digest, least recently used first: llama.cpp's adapter, or the directions of a control vector."""
        self._steers = False
        """Whether a control vector is in force."""
        self._in_force: AdapterSet = NO_ADAPTERS
        self._num_switches = self._num_loads = self._num_evictions = 0

    @property
    def num_bytes(self) -> int:
        """Size of loaded adapters."""
        return self._size(self._loaded)

    @property
    def status(self) -> AdapterStatus | None:
        """None: there was never one."""
        if not self._num_loads:
            return None
        return AdapterStatus(
            loaded=len(self._loaded),
            loaded_bytes=self.num_bytes,
            limit_bytes=self._max_bytes,
            switches=self._num_switches,
            loads=self._num_loads,
            evictions=self._num_evictions,
        )

    def know(self, digest: str, path: Path, size_bytes: int) -> None:
        """Where the adapter of this digest is read from when it is used; from any thread. `size_bytes`: of its tensors,
        those of a set at most `max_bytes` together."""
        self._files[digest] = _File(path, size_bytes)

    def use(self, adapters: AdapterSet) -> bool:
        """Put a set in force for the next decode; whether that is another than the last one.

        Raises `BackendError` if one cannot be loaded; then the last set stays, or none if there was no room for both.
        """
        if adapters == self._in_force:
            return False
        self._make_room(adapters)
        self._put_in_force(adapters, [self._load(each.digest) for each in adapters])
        return True

    def free(self) -> None:
        """Idempotent."""
        if self._in_force:
            self._put_in_force(NO_ADAPTERS, [])
        while self._loaded:
            self._unload(next(iter(self._loaded)))

    def _put_in_force(self, adapters: AdapterSet, loaded: Sequence[Any]) -> None:
        both = list(zip(loaded, adapters, strict=True))
        self._apply([(each, of.scale) for each, of in both if not isinstance(each, np.ndarray)])
        self._steer([(_within(each, of.layers), of.scale) for each, of in both if isinstance(each, np.ndarray)])
        self._in_force = adapters
        self._num_switches += 1

    def _apply(self, scaled: Sequence[tuple[Any, float]]) -> None:
        api, count = self._context.api, len(scaled)
        if count:
            array = (type(scaled[0][0]) * count)(*(handle for handle, _ in scaled))
            scales = (ctypes.c_float * count)(*(scale for _, scale in scaled))
            status = api.llama_set_adapters_lora(self._context.handle, array, count, scales)
        else:
            status = api.llama_set_adapters_lora(self._context.handle, None, 0, None)
        if status:
            raise BackendError(f"llama.cpp did not apply the adapters ({status})")

    def _steer(self, scaled: Sequence[tuple[npt.NDArray[np.float32], float]]) -> None:
        """All layers are given, since llama.cpp keeps the numbers of those that are not."""
        api, handle = self._context.api, self._context.handle
        if scaled:
            total = np.ascontiguousarray(sum(vector * np.float32(scale) for vector, scale in scaled), np.float32)
            address, (layers, width) = total.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), total.shape
            status = api.llama_set_adapter_cvec(handle, address, total.size, width, 1, layers)
        elif self._steers:
            status = api.llama_set_adapter_cvec(handle, None, 0, 0, -1, -1)
        else:
            return
        if status:
            raise BackendError(f"llama.cpp did not apply the control vectors ({status})")
        self._steers = bool(scaled)

    def _make_room(self, adapters: AdapterSet) -> None:
        """Free what is neither in force nor wanted, as far as needed; then the set in force, if that is not enough."""
        wanted = {each.digest for each in adapters}
        if self._evict_all_but(wanted | {each.digest for each in self._in_force}, wanted):
            return
        self._put_in_force(NO_ADAPTERS, [])
        self._evict_all_but(wanted, wanted)

    def _evict_all_but(self, kept: set[str], wanted: set[str]) -> bool:
        """Whether there is room for the wanted ones."""
        for digest in [digest for digest in self._loaded if digest not in kept]:
            if self._size({*self._loaded, *wanted}) <= self._max_bytes:
                return True
            self._unload(digest)
            self._num_evictions += 1
        return self._size({*self._loaded, *wanted}) <= self._max_bytes

    def _size(self, digests: Any) -> int:
        return sum(self._files[digest].size_bytes for digest in digests if digest in self._files)

    def _load(self, digest: str) -> Any:
        found = self._loaded.pop(digest, None)
        if found is None:
            file = self._files.get(digest)
            if file is None:
                raise BackendError(f"no adapter {digest[:12]} was announced")
            if not file.path.is_file():
                raise BackendError(f"the adapter's file {file.path.name} is gone")
            found = self._read(file.path)
            self._num_loads += 1
        self._loaded[digest] = found
        return found

    def _read(self, path: Path) -> Any:
        api, model, log = self._context.api, self._model, self._library.log
        try:
            header = read_header(path)
        except LocalLLMError as error:
            raise BackendError(f"the adapter {path.name} could not be loaded: {error.message}") from None
        if is_control_vector(header):
            num_layers, width = api.llama_model_n_layer(model.handle), api.llama_model_n_embd(model.handle)
            return read_directions(header, int(num_layers), int(width))
        mark = log.mark()
        found = api.llama_adapter_lora_init(model.handle, str(path).encode("utf-8", "surrogateescape"))
        if not found:
            raise BackendError(f"llama.cpp could not load the adapter {path.name}: {log.errors_since(mark)}")
        return found

    def _unload(self, digest: str) -> None:
        found = self._loaded.pop(digest)
        if not isinstance(found, np.ndarray):
            self._context.api.llama_adapter_lora_free(found)


def _within(directions: npt.NDArray[np.float32], layers: Layers | None) -> npt.NDArray[np.float32]:
    """Shape (layers - 1, width), from layer 1 on: zeros for the layers that are not meant."""
    if layers is None:
        return directions
    found = np.zeros_like(directions)
    chosen = slice(layers.first - 1, layers.last)
    found[chosen] = directions[chosen]
    return found
