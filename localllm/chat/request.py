"""What a chat template is given. Apart from `template.py`, so that whoever only asks need not import jinja2."""

from __future__ import annotations

import msgspec

from localllm.types import Message


class RenderRequest(msgspec.Struct, frozen=True):
    """Everything a template may see."""

    template: str
    messages: tuple[Message, ...]
    bos_token: str = ""
    eos_token: str = ""
    add_generation_prompt: bool = True
