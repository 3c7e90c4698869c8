"""One GGUF file in llama.cpp's memory, with its layers where the placement put them.

Raises `LoadFailed` with llama.cpp's own error message. Knows nothing of requests, slots or processes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import DeviceUnavailable, InvalidParameter, LoadFailed
from localllm.gguf.architectures import needs
from localllm.gguf.rules.media_rows import takes_rows
from localllm.llama.enums import position_sections
from localllm.llama.library import Library
from localllm.llama.log_text import layers_per_device, shortage, unknown_architecture
from localllm.llama.spread import AS_USUAL, Spread


class LlamaModel:
    """Owns a `llama_model *`; `close` frees it."""

    def __init__(
        self,
        library: Library,
        path: Path,
        *,
        gpu_layers: int,
        devices: tuple[str, ...],
        must_offload: bool,
        spread: Spread = AS_USUAL,
        has_heads: bool = False,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Loads the file, with its NextN layers if `has_heads`; blocks, with the GIL released.

        Raises `LoadFailed`, whose detail `out_of_memory_on` names a device that ran out of memory, `DeviceUnavailable`,
        `InvalidParameter`.
        """
        api = library.api
        self._api = api
        params = api.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        if spread.repack == "on" and not library.choice.extra_bufts:
            raise LoadFailed(
                "repack on was requested, but this llama.cpp does not work with repacked weights here; leave it out",
                param="repack",
            )
        if has_heads:
            params.load_mtp = True
        # llama.cpp would lock the mapped file, but not the repacked copies that are computed with.
        params.use_extra_bufts = library.choice.extra_bufts and spread.repack != "off" and not spread.mlock
        self.backend = msgspec.structs.replace(library.choice, extra_bufts=params.use_extra_bufts).label()
        """CPU backend in use."""
        self.devices = devices
        """Devices that it may use besides the CPU."""
        # An empty list, not NULL: with NULL llama.cpp would offload prompt processing to a GPU uninvited.
        self._devices = library.device_handles(devices)
        self.has_cpu_tensors = any(device == "CPU" for _, device in spread.overrides)
        """Whether the CPU computes parts of layers that are on devices."""
        params.devices = ctypes.cast(self._devices, ctypes.c_void_p)
        self._kept = spread.apply(api, params, library.ggml)
        self._progress = _progress_callback(api, on_progress)  # llama.cpp calls it until the load is complete
        params.progress_callback = self._progress
        mark = library.log.mark()
        self.handle: Any = api.llama_model_load_from_file(str(path).encode("utf-8", "surrogateescape"), params)
        lines = library.log.lines_since(mark)
        if not self.handle:
            if unknown := unknown_architecture(lines):
                raise _not_known(library, path, unknown)
            raise LoadFailed(
                f"llama.cpp could not load {path.name}: {library.log.errors_since(mark)}",
                public="llama.cpp could not load the model's file; the server's log says why",
                path=str(path),
                **shortage(lines, devices),
            )
        self.layers_per_device = layers_per_device(lines)
        if spread.split == "tensor":  # llama.cpp then has one device that stands for all
            self.layers_per_device = {"+".join(devices): sum(self.layers_per_device.values())}
        try:
            spread.check(lines)
            _check_offload(self.layers_per_device, gpu_layers, set(devices), must_offload and spread.split != "tensor")
        except (LoadFailed, InvalidParameter):
            self.close()
            raise

    @property
    def vocab(self) -> Any:
        return self._api.llama_model_get_vocab(self.handle)

    @property
    def dimensions(self) -> int:
        """Size of the vector that it makes of a text."""
        return int(self._api.llama_model_n_embd_out(self.handle))

    @property
    def input_width(self) -> int:
        """Numbers in a vector that stands in place of a token."""
        return int(self._api.llama_model_n_embd_inp(self.handle))

    @property
    def takes_rows(self) -> bool:
        """Whether vectors may stand in place of tokens; others would end the process."""
        buffer = ctypes.create_string_buffer(128)
        self._api.llama_model_meta_val_str(self.handle, b"general.architecture", buffer, len(buffer))
        return takes_rows(buffer.value.decode("utf-8", "replace"), has_planes=self.position_sections > 1)

    @property
    def position_sections(self) -> int:
        """Numbers in the position of such a vector."""
        return position_sections(self._api, self.handle)

    @property
    def size_bytes(self) -> int:
        """Of all its tensors."""
        return int(self._api.llama_model_size(self.handle))

    @property
    def window(self) -> int:
        """Tokens that layers with a sliding window look back; 0: no such layers."""
        return int(self._api.llama_model_n_swa(self.handle))

    @property
    def is_recurrent(self) -> bool:
        """Whether all or some of its layers keep a state in place of cells."""
        return bool(self._api.llama_model_is_recurrent(self.handle) or self._api.llama_model_is_hybrid(self.handle))

    def close(self) -> None:
        """Free the model; its contexts must be closed before. Idempotent."""
        if self.handle:
            self._api.llama_model_free(self.handle)
            self.handle = None


def _not_known(library: Library, path: Path, architecture: str) -> LoadFailed:
    remedy = needs(architecture, library.known) or "`localllm runtime list` shows other runtimes"
    reason = (
        f"its architecture is unknown to the llama.cpp in use ({library.known.label}, "
        f"{library.choice.runtime.name}); {remedy}"
    )
    return LoadFailed(
        f"{path.name} cannot be loaded: {reason}",
        public=f"the model cannot be loaded: {reason}",
        path=str(path),
        architecture=architecture,
    )


def _progress_callback(api: Any, on_progress: Callable[[float], None] | None) -> Any:
    @api.llama_progress_callback  # type: ignore[untyped-decorator]
    def callback(fraction: float, _user_data: object) -> bool:
        if on_progress is not None:
            on_progress(fraction)
        return True

    return callback


def _check_offload(layers: dict[str, int], wanted: int, devices: set[str], must_offload: bool) -> None:
    """Raises `DeviceUnavailable` if layers were explicitly requested and are not on the devices."""
    placed = sum(count for device, count in layers.items() if device in devices)
    asked = min(wanted, sum(layers.values()))
    if must_offload and placed < asked:
        raise DeviceUnavailable(
            f"{asked} layers were requested on {', '.join(sorted(devices)) or 'a GPU'}, llama.cpp put {placed} there; "
            "ask for fewer with --gpu-layers, or use auto",
            param="gpu_layers",
        )
