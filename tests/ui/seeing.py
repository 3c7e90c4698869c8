"""A model of the scripted server that reads pictures and sounds, and files as a user drops them. Helpers, no tests."""

from __future__ import annotations

import base64
from typing import Literal

import msgspec
from playwright.sync_api import Page

from localllm.types import LoadedModel
from localllm.types.headers.projectors import AudioEncoder, ProjectorInfo, VisionEncoder
from tests.server.fake_runtime import tiny_model

PROJECTOR = ProjectorInfo(
    name="seeing",
    file_type="F16",
    size_bytes=1000,
    num_parameters=500,
    width=64,
    vision=VisionEncoder(type="mlp", image_size=32, patch_size=8, max_rows=16, span_rows=16, span_patches=16),
    audio=AudioEncoder(type="voxtral", sample_rate_hz=16_000, rows_per_s=1.0, span_rows=30),
)
READS = frozenset({"image", "video", "audio"})
GIVE = """([type, files]) => {
  const transfer = new DataTransfer();
  for (const [name, media, data] of files)
    transfer.items.add(new File([Uint8Array.from(atob(data), each => each.charCodeAt(0))], name, { type: media }));
  const given = { bubbles: true, cancelable: true };
  const event = type === "drop" ? new DragEvent(type, { ...given, dataTransfer: transfer })
    : new ClipboardEvent(type, { ...given, clipboardData: transfer });
  document.activeElement.dispatchEvent(event);
  return event.defaultPrevented;
}"""


def seeing_model(id: str = "seeing") -> LoadedModel:
    """What `Ready` might say of it."""
    return msgspec.structs.replace(tiny_model(id), projector=PROJECTOR)


def give(page: Page, how: Literal["drop", "paste"], *files: tuple[str, str, bytes]) -> bool:
    """Drop or paste files (name, media type, content); whether the page takes them."""
    encoded = [(name, media, base64.b64encode(content).decode()) for name, media, content in files]
    return bool(page.evaluate(GIVE, [how, encoded]))
