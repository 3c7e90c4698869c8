"""Which devices a load uses and in which order: those requested by name, else the GPUs of this machine.

Raises an error for a request that cannot be met. Knows nothing of layers and sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.errors import DeviceUnavailable, InvalidParameter
from localllm.planning.placing import CPU, PlacingResult
from localllm.types import DeviceInfo
from localllm.types.devices import named
from localllm.types.load_options import LoadOptions

GPU_KINDS = ("gpu", "igpu")


def gpus_of(options: LoadOptions, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The named devices, else dedicated GPUs, else integrated ones, as llama.cpp chooses; with `split` none, only one.
    A GPU that failed its trial, or was slower there than the CPU, is used only if the user wants GPUs.

    Raises `DeviceUnavailable`, `InvalidParameter`.
    """
    if options.devices is None:
        gpus = [device for device in devices if device.kind in GPU_KINDS]
        if chooses_gpus(options):
            gpus = [device for device in gpus if device.is_automatic]
        chosen = _distinct([device for device in gpus if device.kind == "gpu"] or gpus)
    else:
        found = [device for name in options.devices for device in named(name, devices)]
        chosen = [device for device in dict.fromkeys(found) if device.kind in GPU_KINDS]
    _check_rows(options, chosen)
    if options.split == "none" and chosen:
        return [_main(options, chosen, devices)]
    if options.main_gpu is not None:
        _main(options, chosen, devices)
    return chosen


def chooses_gpus(options: LoadOptions) -> bool:
    """Whether it is left to us which GPUs are used, if any: none of the options that are about GPUs is given."""
    return (
        options.devices is None
        and options.gpu_layers == "auto"
        and options.split == "layer"
        and options.tensor_split is None
        and all(device.lower() == "cpu" for _, device in options.override_tensor)
    )


def requires_gpus(options: LoadOptions) -> bool:
    """Whether layers have to be on GPUs, whichever these are."""
    return options.devices is None and options.gpu_layers not in ("auto", 0)


def main_of(options: LoadOptions, gpus: Sequence[DeviceInfo]) -> int:
    """Index of the main GPU."""
    return 0 if options.split == "none" or options.main_gpu is None else gpus.index(_main(options, gpus, gpus))


def shares_of(options: LoadOptions, gpus: Sequence[DeviceInfo]) -> tuple[float, ...] | None:
    """One share for each GPU. Raises `InvalidParameter` if there are more or fewer."""
    shares = options.tensor_split
    if shares is not None and len(shares) != len(gpus):
        there = ", ".join(gpu.name for gpu in gpus) or "no GPU"
        raise InvalidParameter(
            f"tensor_split has {len(shares)} shares for {len(gpus)} devices in use ({there})", param="tensor_split"
        )
    return shares


def split_given(options: LoadOptions, placed: PlacingResult, gpus: Sequence[DeviceInfo]) -> tuple[float, ...]:
    """The split passed to llama.cpp, so that layers go where they were planned."""
    if len(gpus) < 2 or not placed.layers:
        return ()
    if options.split in ("row", "tensor"):
        return options.tensor_split or (1.0,) * len(gpus)
    return tuple(map(float, placed.counts))


def overrides_of(options: LoadOptions, devices: Sequence[DeviceInfo], gpus: Sequence[DeviceInfo]) -> dict[str, str]:
    """Pattern -> device; the first of equal patterns wins. Raises `DeviceUnavailable`."""
    found: dict[str, str] = {}
    for pattern, name in options.override_tensor:
        if name.lower() == "cpu":
            found.setdefault(pattern, CPU)
            continue
        device = named(name, devices, "override_tensor")[0]
        if device not in gpus:
            raise DeviceUnavailable(
                f"override_tensor sends {pattern!r} to {device.name}, which is not in use; add it to --device",
                param="override_tensor",
            )
        found.setdefault(pattern, device.name)
    return found


def _main(options: LoadOptions, gpus: Sequence[DeviceInfo], devices: Sequence[DeviceInfo]) -> DeviceInfo:
    """The requested GPU, else the one with the most free memory."""
    if options.main_gpu is None:
        return max(gpus, key=lambda gpu: gpu.free_bytes)
    if options.main_gpu.isdecimal():
        place = int(options.main_gpu)
        if place < len(gpus):
            return gpus[place]
        there = ", ".join(gpu.name for gpu in gpus) or "none"
        raise DeviceUnavailable(
            f"main_gpu {place} is not among the devices in use, counted from 0: {there}", param="main_gpu"
        )
    device = named(options.main_gpu, devices, "main_gpu")[0]
    if device not in gpus:
        raise DeviceUnavailable(f"main_gpu {device.name} is not in use; add it to --device", param="main_gpu")
    return device


def _check_rows(options: LoadOptions, gpus: Sequence[DeviceInfo]) -> None:
    """Raises `DeviceUnavailable` for a backend that cannot split by rows: llama.cpp would not load the model."""
    other = next((gpu for gpu in gpus if not gpu.splits_rows), None)
    if options.split == "row" and other is not None:
        raise DeviceUnavailable(
            f"{other.name} ({other.backend}) cannot split a model by rows; leave out --split row", param="split"
        )


def _distinct(gpus: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """One entry per piece of hardware, even where several backends show it."""
    seen: dict[str, DeviceInfo] = {}
    for gpu in gpus:
        seen.setdefault(gpu.memory_key, gpu)
    return list(seen.values())
