"""Checks a user-written chat template by rendering a short conversation in a separate process.

Knows nothing of Modelfiles.
"""

from __future__ import annotations

from localllm.chat.request import RenderRequest
from localllm.errors import InvalidParameter, TemplateError
from localllm.types import Message
from localllm.worker.prompts.template_child import TemplateChild

QUESTION = "What is the capital of France?"


def check_template(text: str) -> None:
    """Raises `InvalidParameter` for a template that fails or leaves out the question."""
    child = TemplateChild()
    try:
        made = child.render(RenderRequest(text, (Message("user", QUESTION),)))
    except TemplateError as error:
        raise InvalidParameter(f"this TEMPLATE does not work: {error.message}", param="template") from error
    finally:
        child.close()
    if QUESTION not in made.text:
        raise InvalidParameter(
            "this TEMPLATE leaves out the user's message; it must write the content of each of `messages`",
            param="template",
        )
