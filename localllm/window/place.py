"""Stores the position and size of the window in a file. Invalid contents are ignored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from localllm.errors import naming
from localllm.system import files

MIN_WIDTH, MIN_HEIGHT = 360, 400
WIDTH, HEIGHT = 1100, 800
GRIP = 80
"""Pixels of the window's top edge that must be on a screen, so that it can be moved."""

Pixels = Annotated[int, msgspec.Meta(ge=-100_000, le=100_000)]
Width = Annotated[int, msgspec.Meta(ge=MIN_WIDTH, le=100_000)]
Height = Annotated[int, msgspec.Meta(ge=MIN_HEIGHT, le=100_000)]


class Rect(NamedTuple):
    """The area of a screen, in pixels."""

    x: int
    y: int
    width: int
    height: int


class WindowGeometry(msgspec.Struct, frozen=True, kw_only=True):
    """Position and size of the window when not maximized, in pixels."""

    width: Width = WIDTH
    height: Height = HEIGHT
    x: Pixels | None = None
    """None: centred on the screen."""
    y: Pixels | None = None
    maximized: bool = False


class SavedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file."""

    place: WindowGeometry = WindowGeometry()
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Last port of the window's own server, if the usual one was taken; 0: none yet. Chats are stored per port."""


def load(path: Path) -> SavedWindow:
    """Read the file; the defaults if it is missing or invalid."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SavedWindow)
    except (OSError, msgspec.DecodeError):
        return SavedWindow()


def save(path: Path, remembered: SavedWindow) -> None:
    """Write the file atomically. Raises `OSError`."""
    new = path.with_name(f"{path.name}.new")
    with naming(path), open(new, "wb") as file:
        file.write(msgspec.json.encode(remembered))
        file.flush()
        os.fsync(file.fileno())
    files.replace_file(new, path)


def on_screen(place: WindowGeometry, screens: Sequence[Rect]) -> WindowGeometry:
    """The place if the window can be seen and moved there, otherwise centred; never larger than the largest screen."""
    if not screens:
        return place
    width = max(MIN_WIDTH, min(place.width, max(screen.width for screen in screens)))
    height = max(MIN_HEIGHT, min(place.height, max(screen.height for screen in screens)))
    place = msgspec.structs.replace(place, width=width, height=height)
    if place.x is None or place.y is None or not any(_holds(screen, place) for screen in screens):
        return msgspec.structs.replace(place, x=None, y=None)
    return place


def _holds(screen: Rect, place: WindowGeometry) -> bool:
    assert place.x is not None
    assert place.y is not None
    shown = min(place.x + place.width, screen.x + screen.width) - max(place.x, screen.x)
    return shown >= GRIP and screen.y <= place.y <= screen.y + screen.height - GRIP
