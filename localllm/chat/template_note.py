"""What users are told about a model's chat template, in every face: one phrase. Knows no template's text."""

from __future__ import annotations

from localllm.types import ChatFormat, ModelInfo


def template_note(info: ModelInfo, format: ChatFormat | None) -> str:
    """Why chats may go otherwise than expected; empty if the model has a template of its own that writes messages.

    `format`: as found for its template; None: unknown.
    """
    if not info.causal or info.draft_head is not None:
        return ""
    if not info.chat_templates:
        return f"it has no chat template{_why_none(info)}; --chat-template NAME|FILE gives it one"
    if format is not None and format.omits_messages:
        return "its chat template leaves out the user's message; --chat-template NAME|FILE replaces it"
    if info.chat_template_source == "architecture":
        return f"the file has no chat template; that of {info.architecture} models is used"
    return ""


def _why_none(info: ModelInfo) -> str:
    return {
        "base": ", and its name says that it is a base model, which continues text",
        "chat": "",
        "": ", and its name does not say that it chats, so it is probably a base model, which continues text",
    }[info.purpose]
