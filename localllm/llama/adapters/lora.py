"""LoRA adapters of one model in memory: loaded when first needed, the least recently used ones freed.

An adapter belongs to its model, the set in force to one context; which of both computes is decided elsewhere. Files
were checked before (`gguf.adapters`): llama.cpp ends its process over some. Knows nothing of requests.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from localllm.engine.backend import BackendError
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.llama.context import LlamaContext
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel

MAX_LOADED_BYTES = 1 << 30
"""Main memory, or a device's, for adapters that are not in force."""


class LlamaAdapters:
    """Used by the thread that decodes, except for `know`. `free` it before its context."""

    def __init__(
        self, library: Library, model: LlamaModel, context: LlamaContext, *, max_bytes: int = MAX_LOADED_BYTES
    ) -> None:
        self._library = library
        self._model = model
        self._context = context
        self._max_bytes = max_bytes
        self._files: dict[str, Path] = {}
        self._loaded: dict[str, tuple[Any, int]] = {}
        """By digest, least recently used first: the adapter and the size of its file."""
        self._in_force: AdapterSet = NO_ADAPTERS
        self.num_switches = 0
        """How often the set in force changed."""

    @property
    def num_loaded(self) -> int:
        return len(self._loaded)

    @property
    def num_bytes(self) -> int:
        """What loaded adapters take, by the size of their files."""
        return sum(size for _, size in self._loaded.values())

    def know(self, digest: str, path: Path) -> None:
        """Where the adapter of this digest is read from when it is first used; from any thread."""
        self._files[digest] = path

    def use(self, adapters: AdapterSet) -> bool:
        """Put a set in force for the next decode; whether that is another than the last one.

        Raises `BackendError` if one cannot be loaded; then the last set stays.
        """
        if adapters == self._in_force:
            return False
        handles = [self._load(each.digest) for each in adapters]
        api, count = self._context.api, len(handles)
        if count:
            array = (type(handles[0]) * count)(*handles)
            scales = (ctypes.c_float * count)(*(each.scale for each in adapters))
            status = api.llama_set_adapters_lora(self._context.handle, array, count, scales)
        else:
            status = api.llama_set_adapters_lora(self._context.handle, None, 0, None)
        if status:
            raise BackendError(f"llama.cpp did not apply the adapters ({status})")
        self._in_force = adapters
        self.num_switches += 1
        self._evict()
        return True

    def free(self) -> None:
        """Idempotent."""
        if self._in_force:
            self._context.api.llama_set_adapters_lora(self._context.handle, None, 0, None)
            self._in_force = NO_ADAPTERS
        while self._loaded:
            self._unload(next(iter(self._loaded)))

    def _load(self, digest: str) -> Any:
        found = self._loaded.pop(digest, None)
        if found is None:
            path = self._files.get(digest)
            if path is None:
                raise BackendError(f"no adapter {digest[:12]} was announced")
            try:
                size = path.stat().st_size
            except OSError as error:
                raise BackendError(f"the adapter's file {path.name} cannot be read: {error.strerror}") from None
            log = self._library.log
            mark = log.mark()
            handle = self._context.api.llama_adapter_lora_init(
                self._model.handle, str(path).encode("utf-8", "surrogateescape")
            )
            if not handle:
                raise BackendError(f"llama.cpp could not load the adapter {path.name}: {log.errors_since(mark)}")
            found = handle, size
        self._loaded[digest] = found
        return found[0]

    def _evict(self) -> None:
        in_force = {each.digest for each in self._in_force}
        for digest in [digest for digest in self._loaded if digest not in in_force]:
            if self.num_bytes <= self._max_bytes:
                return
            self._unload(digest)

    def _unload(self, digest: str) -> None:
        handle, _ = self._loaded.pop(digest)
        self._context.api.llama_adapter_lora_free(handle)
