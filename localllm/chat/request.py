"""What a chat template gets and returns. Separate from `template.py`, so that callers need not import jinja2."""

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
    """The text ends where the last message's text ends, and its answer continues there, without a generation prompt."""
    rendering: Rendering = Rendering()
    """Its JSON texts; what it says about the prompt's end is in the fields above."""
    words: Calls | None = None
    """How calls are written and tools described where the template cannot do so; None: as Hermes does."""


class FormatRequest(msgspec.Struct, frozen=True, tag=True):
    """How does this template's model write its answers?"""

    template: str
    bos_token: str = ""
    eos_token: str = ""


class RenderedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prompt, and how the messages were changed because the template does not accept them as they are."""

    text: str
    notes: tuple[str, ...] = ()
    """See `shaping`."""
