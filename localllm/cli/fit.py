"""`localllm fit`: what a model needs, what goes where, what would fit; of a repository every quantization."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from localllm import osdep
from localllm.cli import report
from localllm.cli.units import size, table
from localllm.config import Settings
from localllm.errors import InvalidParameter
from localllm.types import DeviceInfo, LoadOptions, ModelInfo

if TYPE_CHECKING:
    from localllm.supervisor.fit import Fit

DOES_NOT_FIT = 1


def show_fit(settings: Settings, model: str, *, as_json: bool) -> int:
    """Print to stdout; returns 0 if it fits, else 1. Raises `ModelNotFound`, `InvalidParameter`, `PullFailed`."""
    options, devices = settings.load_options(), _devices(settings)
    info = _local(settings, model)
    return _show_one(info, options, devices, as_json=as_json)


def _local(settings: Settings, model: str) -> ModelInfo:
    """Raises `ModelNotFound` for what is not on this machine."""
    from localllm.gguf import read_model_info
    from localllm.registry.resolve import resolve

    file = resolve(model, settings.data_dir)
    try:
        return read_model_info(file.path)
    finally:
        file.release()


def _devices(settings: Settings) -> Sequence[DeviceInfo]:
    """As a worker would see them: its library is asked in a child process. Nobody asks where only the CPU is meant."""
    if settings.gpu_layers == 0 or (settings.devices and [each.lower() for each in settings.devices] == ["cpu"]):
        return (DeviceInfo("CPU", "CPU", "cpu", "CPU", osdep.available_memory() or 0, osdep.total_memory() or 0),)
    from localllm.cli.doctor import examine

    found = examine(settings, fresh=False)
    if not found.works:
        if settings.devices:
            raise InvalidParameter(
                f"no device can be asked: {found.error}; `localllm doctor` says more", param="device"
            )
        report.say(f"localllm: planned for the CPU, no device can be asked: {found.error}")
    return tuple(found.devices)


def _show_one(info: ModelInfo, options: LoadOptions, devices: Sequence[DeviceInfo], *, as_json: bool) -> int:
    from localllm.supervisor.fit import fit

    found = fit(info, options, devices=devices, free_bytes=osdep.available_memory())
    if as_json:
        write_json(as_object(info, found))
    else:
        sys.stdout.writelines(f"{line}\n" for line in story(info, found))
    return report.OK if found.fits else DOES_NOT_FIT


def as_object(info: ModelInfo, found: Fit) -> dict[str, Any]:
    """For scripts: the plan, and the weights layer by layer."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    for share, built in zip(found.shares, shown["shares"], strict=True):
        built["needs"]["total"] = share.needs.total
        built["fits"] = share.fits
    weights = {"layers": list(info.layer_bytes), "other": info.other_bytes}
    return {**shown, "need_bytes": found.need_bytes, "weights": weights}


def write_json(shown: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(shown)).decode() + "\n")


def story(info: ModelInfo, found: Fit) -> Iterator[str]:
    """In words, line by line."""
    yield f"{info.name or info.architecture}: {_setup(found.ctx, found.slots, found.kv_type)}"
    head = ("device", "layers", "weights", "KV cache", "computing", "worker", "together", "free", "")
    yield table(head, [_row(share) for share in found.shares]).rstrip("\n")
    if info.layer_bytes:
        least, most = min(info.layer_bytes), max(info.layer_bytes)
        each = size(most) if least == most else f"{size(least)} to {size(most)}"
        yield f"{info.num_layers} layers of {each}, and {size(info.other_bytes)} outside them"
    verdict = "fits" if found.fits else "does not fit"
    yield f"It {verdict}: {size(found.need_bytes)} in all."
    if found.largest_ctx is not None:
        yield f"The largest context that fits is {found.largest_ctx:,} tokens for each of {found.slots} slots."
    elif info.causal:
        yield f"No context fits with {found.slots} slots."
    for one in found.alternatives:
        yield (f"  would fit: --ctx {one.ctx} --slots {one.slots} --kv-type {one.kv_type} ({size(one.need_bytes)})")


def _setup(ctx: int, slots: int, kv_type: str) -> str:
    if not slots:
        return f"texts of up to {ctx:,} tokens"
    return f"{slots} slot{'s' if slots > 1 else ''} of {ctx:,} tokens, KV cache in {kv_type}"


def _row(share: Any) -> tuple[str, ...]:
    needs = share.needs
    parts = (needs.weights, needs.kv, needs.compute, needs.process, needs.total, share.free_bytes)
    return (share.device, str(share.layers), *map(size, parts), "" if share.fits else "too little")
