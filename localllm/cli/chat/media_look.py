"""What a file is, by its content: a picture and its size, a sound and its length, a document, or none of them.

Reads headers only, in Python alone: what is in a file is decoded by the worker's children. Knows no paths.
"""

from __future__ import annotations

import contextlib
import io
import wave
from typing import NamedTuple

from localllm.chat.media_files import is_text, kind_of
from localllm.cli.render.units import size
from localllm.documents.plain import FORMATS as FORMATS_OF_DOCUMENTS
from localllm.types import MediaKind
from localllm.types.conversation import HEAD_BYTES

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "PPM")
"""Those whose headers Pillow reads without native code."""
READ = {
    "document": FORMATS_OF_DOCUMENTS,
    "image": "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or PNM",
    "audio": "WAV, MP3, FLAC, Ogg, AIFF, AU, M4A or WebM",
}
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)


class Look(NamedTuple):
    """A picture, sound or document."""

    kind: MediaKind
    measure: str
    """For people: `1920x1080`, `2.5 s`, or its bytes where the header does not say it."""


def is_media(head: bytes) -> bool:
    """Whether a file that begins so is a picture, a sound, or a document that is more than text. Text that begins with
    the same letters is not."""
    if kind_of(head) == "document":
        return True
    return (kind_of(head) is not None or _is_pnm(head)) and not is_text(head[:HEAD_BYTES])


def look(data: bytes, claimed: MediaKind | None = None) -> Look | None:
    """None if it is none of them, or its header is broken. A recording in a video's format is a sound if that is
    claimed; what is unknown is a document if that is claimed."""
    kind = "image" if _is_pnm(data) and claimed != "document" else kind_of(data)
    if claimed == "document" and is_text(data[:HEAD_BYTES]):
        kind = "document" if data else None
    if kind == "video":
        kind = "audio" if claimed == "audio" else None
    if kind is None and claimed == "document" and data:
        kind = "document"
    if kind is None:
        return None
    if kind == "document":
        return Look(kind, size(len(data)))
    if kind == "audio":
        return Look(kind, _seconds(data) or size(len(data)))
    if data[4:8] == b"ftyp":  # AVIF
        return Look(kind, size(len(data)))
    sides = _webp_sides(data) if data[:4] == b"RIFF" else _sides(data)
    return None if sides is None else Look(kind, f"{sides[0]}x{sides[1]}")


def _is_pnm(data: bytes) -> bool:
    return data[:1] == b"P" and data[1:2] in b"123456" and data[2:3].isspace()


def _sides(data: bytes) -> tuple[int, int] | None:
    """As it is shown: upright."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as file:
            width, height = file.size
            # Of a PNG, Pillow would decode all pixels first.
            is_sideways = file.format in ("JPEG", "MPO") and file.getexif().get(_ORIENTATION) in _SIDEWAYS
    except Exception:  # noqa: BLE001  a plugin may raise anything on a broken file
        return None
    return (height, width) if is_sideways else (width, height)


def _webp_sides(data: bytes) -> tuple[int, int] | None:
    """https://developers.google.com/speed/webp/docs/riff_container"""
    if len(data) < 30:
        return None
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


def _seconds(data: bytes) -> str:
    """Of a WAV file; empty if its header does not say it."""
    if data[:4] != b"RIFF":
        return ""
    with contextlib.suppress(wave.Error, EOFError, ZeroDivisionError), wave.open(io.BytesIO(data)) as file:
        frame = file.getnchannels() * file.getsampwidth()
        return f"{min(file.getnframes(), len(data) // frame) / file.getframerate():.1f} s"
    return ""
