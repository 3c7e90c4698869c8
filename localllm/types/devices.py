"""Checks settings that name devices and place layers and tensors on them.

Knows neither which devices exist nor how much memory a model takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from localllm.errors import DeviceUnavailable, InvalidParameter
from localllm.types import DeviceInfo
from localllm.types.upstream import MAX_DEVICES

Split = Literal["layer", "row", "tensor", "none"]
Numa = Literal["distribute", "isolate", "numactl"]

MAX_OVERRIDES = 256
MAX_PATTERN_CHARS = 1000
RPC = "rpc:"
"""Prefix of HOST:PORT that names the devices of a remote worker."""
_SYNONYMS = {"metal": "mtl", "hip": "rocm"}
"""Common name of a backend -> ggml's name."""


def named(name: str, devices: Sequence[DeviceInfo], param: str = "device") -> list[DeviceInfo]:
    """The devices of a name: one, all of a backend, or those at an address. Raises `DeviceUnavailable`."""
    found = [device for device in devices if device.name.lower() == name.lower()]
    found = found or [device for device in devices if _matches(name.lower(), device)]
    if not found:
        hint = "; is it in `--rpc`, and does it answer?" if name.lower().startswith(RPC) else ""
        raise DeviceUnavailable(
            f"there is no device {name!r}; there are {', '.join(d.name for d in devices)} (`localllm doctor`){hint}",
            param=param,
        )
    return found


def _matches(name: str, device: DeviceInfo) -> bool:
    if name.startswith(RPC):
        address = re.escape(name.removeprefix(RPC))
        said = f"{device.name} {device.description}".lower()
        return device.backend == "RPC" and re.search(rf"(?<![\w.-]){address}(?![\w:])", said) is not None
    backend = device.backend.lower()
    number = re.search(r"\d+$", name)
    word = name[: number.start()] if number else name
    if _SYNONYMS.get(word, word) != backend:
        return False
    return number is None or re.search(rf"(?<!\d){number[0]}$", device.name) is not None


def check_devices(names: Sequence[str] | None) -> None:
    """Raises `InvalidParameter`."""
    lower = [name.lower() for name in names or ()]
    if "auto" in lower:
        raise InvalidParameter("device auto cannot be combined with others; leave it or the others out", param="device")
    if "cpu" in lower and len(lower) > 1:
        raise InvalidParameter(
            "device cpu cannot be combined: the CPU always holds the layers that no other device has; leave it out",
            param="device",
        )
    if len(lower) > MAX_DEVICES:
        raise InvalidParameter(f"a model can use at most {MAX_DEVICES} devices", param="device")


def check_split(split: Split, main_gpu: str | None, shares: Sequence[float] | None) -> None:
    """Raises `InvalidParameter` for settings that would have no effect."""
    if main_gpu is not None and split not in ("none", "row"):
        raise InvalidParameter(
            f"main_gpu has no effect with split {split}; add --split none (all of it there) or --split row",
            param="main_gpu",
        )
    if shares is None:
        return
    if split == "none":
        raise InvalidParameter("tensor_split has no effect with split none; leave one out", param="tensor_split")
    if not shares or len(shares) > MAX_DEVICES or not all(math.isfinite(share) and share >= 0 for share in shares):
        raise InvalidParameter("tensor_split is one number of 0 or more for each device", param="tensor_split")
    if not sum(shares) > 0:
        raise InvalidParameter("all shares of tensor_split are 0; at least one must be above 0", param="tensor_split")


def check_overrides(overrides: Sequence[tuple[str, str]]) -> None:
    """Raises `InvalidParameter`."""
    if len(overrides) > MAX_OVERRIDES:
        raise InvalidParameter(f"override_tensor takes at most {MAX_OVERRIDES} patterns", param="override_tensor")
    for pattern, _ in overrides:
        try:
            if len(pattern) > MAX_PATTERN_CHARS:
                raise ValueError(f"it is longer than {MAX_PATTERN_CHARS} characters")
            pattern.encode("ascii")
            re.compile(pattern)
        except (re.error, ValueError, RecursionError) as error:
            raise InvalidParameter(
                f"override_tensor: {pattern!r} is not a regular expression in ASCII: {error}", param="override_tensor"
            ) from error


def check_reading(*, mmap: bool | None, mlock: bool, direct_io: bool) -> None:
    """Raises `InvalidParameter` for settings that exclude each other."""
    other = "mmap" if mmap else "mlock" if mlock else None
    if direct_io and other is not None:
        raise InvalidParameter(f"direct_io reads the file, but {other} maps it; leave one out", param="direct_io")


def parse_shares(text: str | None) -> tuple[float, ...] | None:
    """Parse shares such as `3,1`. Raises `InvalidParameter`."""
    if text is None or not text.strip():
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidParameter(
            f"tensor_split: {text!r} is not a list of numbers, one per device, such as 3,1", param="tensor_split"
        ) from error


def parse_overrides(text: str | None) -> tuple[tuple[str, str], ...]:
    """Parse overrides such as `exps=CPU,attn=Vulkan0`. Raises `InvalidParameter`."""
    pairs = []
    for part in (text or "").split(","):
        pattern, equals, device = part.rpartition("=")
        if part.strip() and not (equals and pattern.strip() and device.strip()):
            raise InvalidParameter(
                f"override_tensor: {part!r} is not PATTERN=DEVICE, such as ffn_.*_exps=cpu", param="override_tensor"
            )
        if part.strip():
            pairs.append((pattern.strip(), device.strip()))
    return tuple(pairs)
