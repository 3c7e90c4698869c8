"""File names that are devices on Windows. Checked on every system, so that files can be moved between systems."""

from __future__ import annotations

_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]
)


def is_device(name: str) -> bool:
    """Whether Windows would open a device instead of a file of this name. Suffixes do not matter."""
    return name.split(".")[0].lower() in _DEVICES
