"""What a chat template is given and gives. Apart from `template.py`, so that who only asks need not import jinja2."""

from __future__ import annotations

import msgspec

from localllm.types import Message, Rendering
from localllm.types.formats import Calls


class RenderRequest(msgspec.Struct, frozen=True, tag=True):
    """Everything a template may see."""

    template: str
    messages: tuple[Message, ...]
    bos_token: str = ""
    eos_token: str = ""
    add_generation_prompt: bool = True
    continues: bool = False
    """The text ends where that of the last message ends: its answer goes on there. Without a generation prompt."""
    rendering: Rendering = Rendering()
    """Its JSON texts; what it says of the prompt's end stands above."""
    words: Calls | None = None
    """How calls are written, and tools told of, where the template cannot; None: as Hermes does."""


class FormatRequest(msgspec.Struct, frozen=True, tag=True):
    """How does the model of this template write its answers?"""

    template: str
    bos_token: str = ""
    eos_token: str = ""


class RenderedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prompt, and how the messages were changed because the template does not take them as they are."""

    text: str
    notes: tuple[str, ...] = ()
    """See `shaping`."""
