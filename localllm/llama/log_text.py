"""What llama.cpp's log says of what it did: for much of it there is no function.

All text of llama.cpp's that localllm searches stands here. Pure; knows nothing of what follows from an answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LAYER = re.compile(r"layer\s+(\d+) assigned to device (\S+?),")
UNKNOWN_ARCHITECTURE = re.compile(r"unknown model architecture: '([^']{1,60})")
MOVED = re.compile(r"^tensor (\S+) \(.*\) buffer type overridden to")
UNLOCKED = re.compile(r"failed to (?:mlock|VirtualLock) (\d+)-byte buffer.*?: (.*)|mlock not supported")
BUFFERED = "Falling back to buffered I/O"
SHORTAGE = re.compile(
    r"unable to allocate (\S+) buffer|failed to allocate (\S+) buffer|allocat\w* .*failed.*out of (?:device )?memory"
    r"|out of memory|ErrorOutOf(?:Device|Host)Memory|failed to allocate (?:compute|buffer)|Device memory allocation"
)
NO_FLASH = (("Flash Attention", "disabled"), ("flash_attn", "forcing off"))
"""Both parts of a pair are in one line."""
ROTATION = re.compile(r"n_rot_k = (\d+), n_embd_head_k_all = (-?\d+)|attn_rot_k = (\d), n_embd_head_k_all = (-?\d+)")
"""The size of the rotation, since 0.6; before, whether there is one."""
STORED = re.compile(r": size = +([0-9.]+) MiB \( *\d+ cells")
"""Of each part of a context's memory, also where none is allocated."""
COMPUTED = re.compile(r"(\S+) +compute buffer size = +([0-9.]+) MiB")
QUANTIZING = re.compile(r"\[ *\d+/ *\d+\] +(\S+) +- \[")
CONVERTED = re.compile(r"size = .* -> .*\((\w+)\)")
QUANTIZED_SIZE = re.compile(r"quant size += +([0-9.]+) MiB")
OTHER_TYPES = re.compile(r"(\d+) of (\d+) tensor\(s\) required fallback")
NEEDS_IMPORTANCE, NO_OTHER_TYPE = "require an imatrix", "no tensor type fallback"
NOT_QUANTIZED = "failed to quantize: "


class Quantized(NamedTuple):
    """A dry run of a quantization."""

    needs_importance: bool
    num_bytes: int | None
    """Size of the tensors; None: it was not logged."""
    other_types: tuple[int, int] | None
    """How many tensors get another type than asked for, and of how many."""
    types: Mapping[str, str]
    """The type of each tensor that is converted."""


def layers_per_device(lines: Sequence[str]) -> dict[str, int]:
    """How many layers are on each device: what llama.cpp did, not what was asked."""
    devices = {}
    for line in lines:
        if (match := LAYER.search(line)) is not None:
            devices[int(match[1])] = match[2]
    return dict(Counter(devices.values()))


def unknown_architecture(lines: Sequence[str]) -> str:
    """The architecture of the model, if the library does not know it; else empty."""
    return next((found[1] for line in lines if (found := UNKNOWN_ARCHITECTURE.search(line))), "")


def why_not_locked(lines: Sequence[str]) -> str:
    """Why the weights are not locked in memory; empty: they are."""
    found = next(filter(None, map(UNLOCKED.search, lines)), None)
    if found is None:
        return ""
    return f"{found[2].strip()} at {int(found[1]) / 1e6:,.0f} MB" if found[1] else "unsupported here"


def is_buffered(lines: Sequence[str]) -> bool:
    """Whether the file was read through the system's cache although asked not to."""
    return any(BUFFERED in line for line in lines)


def moved_tensors(lines: Sequence[str]) -> list[str]:
    """Names of the tensors that an override moved."""
    return [found[1] for line in lines if (found := MOVED.match(line))]


def shortage(lines: Sequence[str], devices: Sequence[str]) -> dict[str, str]:
    """The error detail `out_of_memory_on`; empty: no device ran out of memory."""
    for line in lines:
        found = SHORTAGE.search(line)
        if found is None:
            continue
        named = next((device for device in devices if device.lower() in line.lower()), None)
        on_cpu = any(word is not None and word.upper().startswith("CPU") for word in found.groups())
        if named is not None or (devices and not on_cpu):
            return {"out_of_memory_on": named or devices[0]}
    return {}


def gave_up_flash(lines: Sequence[str]) -> bool:
    """Whether flash attention was disabled."""
    return any(first in line and second in line for line in lines for first, second in NO_FLASH)


def rotated_head(lines: Sequence[str]) -> int | None:
    """How many numbers of a head are rotated before they are quantized; None: none, or it was not logged."""
    found = next((match for line in lines if (match := ROTATION.search(line))), None)
    return int(found[2] or found[4]) if found is not None and (found[1] or found[3]) != "0" else None


def tensor_begun(line: str) -> str | None:
    """The tensor that is being quantized from now on, if the line says so."""
    match = QUANTIZING.match(line)
    return None if match is None else match[1]


def quantized(lines: Sequence[str]) -> Quantized:
    text = "\n".join(lines)
    size, others = QUANTIZED_SIZE.search(text), OTHER_TYPES.search(text)
    return Quantized(
        needs_importance=NEEDS_IMPORTANCE in text,
        num_bytes=None if size is None else int(float(size[1]) * 2**20),
        other_types=None if others is None else (int(others[1]), int(others[2])),
        types=_types_of(lines),
    )


def _types_of(lines: Sequence[str]) -> dict[str, str]:
    """Tensor -> the type that it is converted to, from pairs of lines."""
    types, begun = {}, ""
    for line in lines:
        if name := tensor_begun(line):
            begun = name
        elif found := CONVERTED.match(line):
            types[begun] = found[1].upper()
    return types


def why_not_quantized(errors: str) -> tuple[str, bool]:
    """The reason, and whether it is a row that no type divides."""
    reason = errors.partition(NOT_QUANTIZED)[2] or errors
    return reason, NO_OTHER_TYPE in reason


def laid_out(lines: Sequence[str]) -> tuple[int, int]:
    """Bytes of a context's memory, and of its buffers for computing; of one that is made again the last counts."""
    kept = sum(float(found[1]) for line in lines if (found := STORED.search(line)))
    computed = {found[1]: float(found[2]) for line in lines if (found := COMPUTED.search(line))}
    return int(kept * 2**20), int(sum(computed.values()) * 2**20)
