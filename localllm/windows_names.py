"""File names that are devices on Windows. The same on every system, so that what one saves another can read."""

from __future__ import annotations

_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]
)


def is_device(name: str) -> bool:
    """Whether Windows opens a device instead of a file of that name, whatever its suffix."""
    return name.split(".")[0].lower() in _DEVICES
