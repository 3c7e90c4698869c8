"""Input and output of chat templates. Separate from `template.py`, so that callers need not import jinja2."""

from __future__ import annotations

import msgspec

from localllm.types import Message, Rendering
from localllm.types.formats import Calls


class RenderRequest(msgspec.Struct, frozen=True, tag=True):
    """The whole input of a template."""

    template: str
    messages: tuple[Message, ...]
    bos_token: str = ""
    eos_token: str = ""
    add_generation_prompt: bool = True
    continues: bool = False
    """Whether the prompt ends where the text of the last message ends, so that the answer continues it."""
    rendering: Rendering = Rendering()
    """Only its JSON texts are used; the fields above say how the prompt ends."""
    marker: str = ""
    """How marks of pictures and sounds begin, see `media_marks`; empty: the messages have none, and the model reads
    none."""
    words: Calls | None = None
    """Format for calls and tools if the template cannot write them; None: that of Hermes."""


class FormatRequest(msgspec.Struct, frozen=True, tag=True):
    """Asks in which format the template's model writes answers."""

    template: str
    bos_token: str = ""
    eos_token: str = ""


class RenderedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prompt, and notes on how messages were reshaped for the template."""

    text: str
    notes: tuple[str, ...] = ()
    """See `shaping`."""
