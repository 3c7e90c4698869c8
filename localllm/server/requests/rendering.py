"""Request fields for rendering messages, under the names of llama-server, vLLM and OpenAI.

Knows nothing of templates: variables are passed on unchanged.
"""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from localllm.errors import InvalidParameter
from localllm.server.requests.values import exclusive, json_as
from localllm.types import Message, Rendering

MAX_EFFORT_CHARS = 32
RESERVED = {
    "messages": "the field messages",
    "tools": "the field tools",
    "documents": "the field documents",
    "add_generation_prompt": "the field add_generation_prompt",
    "continue_final_message": "the field continue_final_message",
    "bos_token": "the model",
    "eos_token": "the model",
}
"""Reserved template variables -> what sets them."""
THINKING = ("enable_thinking", "thinking")
"""The switch for thinking as Qwen, GLM and most others call it, and as DeepSeek, Granite and Kimi do."""


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """The switch as in the APIs of DeepSeek, GLM and Anthropic."""

    type: Literal["enabled", "disabled", "adaptive", "auto", "between_tools"]
    """The last three leave the decision to the model."""
    budget_tokens: int | None = None
    """Maximum number of thought tokens."""

    @property
    def is_on(self) -> bool | None:
        return {"enabled": True, "disabled": False}.get(self.type)


class RenderingFields(NamedTuple):
    """Fields of chat requests and of requests for a rendered prompt."""

    chat_template_kwargs: Raw | UnsetType = UNSET
    """Additional template variables, as in llama-server and vLLM."""
    enable_thinking: bool | None = None
    """The template's switch for thinking, if it has one."""
    thinking: Thinking | None = None
    """The same as an object."""
    reasoning_effort: str | None = None
    """`none` turns thinking off; other values turn it on and are passed to the template."""
    documents: Raw | UnsetType = UNSET
    """For templates that use documents."""
    add_generation_prompt: bool | None = None
    """None: true unless the last message is continued."""
    continue_final_message: bool | None = None
    """vLLM's name. None: a final assistant message is continued, as in llama-server."""

    @classmethod
    def of(cls, request: object) -> RenderingFields:
        """Those of a request that has all of them."""
        return cls(*(getattr(request, name) for name in cls._fields))


def rendering_of(fields: RenderingFields, messages: tuple[Message, ...], tools: str = "") -> Rendering:
    """The `Rendering` that the fields request. Raises `InvalidParameter`."""
    _check_end(fields, messages)
    return Rendering(
        variables=json.dumps(_variables(fields), ensure_ascii=False),
        tools=tools,
        documents=json_as(fields.documents, "documents", "[", "an array"),
        add_generation_prompt=fields.add_generation_prompt,
        continue_final_message=fields.continue_final_message,
    )


def _check_end(fields: RenderingFields, messages: tuple[Message, ...]) -> None:
    if not fields.continue_final_message:
        return
    if fields.add_generation_prompt:
        raise exclusive("add_generation_prompt", "continue_final_message", param="continue_final_message")
    if not messages[-1].is_open:
        raise InvalidParameter(
            "continue_final_message needs a final assistant message without calls; append one, or leave it out",
            param="continue_final_message",
        )


def _variables(fields: RenderingFields) -> dict[str, Any]:
    text = json_as(fields.chat_template_kwargs, "chat_template_kwargs", "{", "an object")
    try:
        given: dict[str, Any] = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            "chat_template_kwargs nests too deeply, or has a number with too many digits", param="chat_template_kwargs"
        ) from error
    for name in given:
        if name in RESERVED:
            where = f"chat_template_kwargs.{name}"
            raise InvalidParameter(f"{where} is set by {RESERVED[name]}; leave it out", param=where)
    return {**_switches(fields, given), **given}


def _switches(fields: RenderingFields, given: dict[str, Any]) -> dict[str, Any]:
    """Variables set by the other fields; `chat_template_kwargs` takes precedence."""
    found: dict[str, Any] = {}
    thinks, effort = fields.enable_thinking, fields.reasoning_effort
    if thinks is None and fields.thinking is not None:
        thinks = fields.thinking.is_on
    if effort is not None:
        if not 0 < len(effort) <= MAX_EFFORT_CHARS:
            raise InvalidParameter(
                "reasoning_effort must be a word such as low, medium or high", param="reasoning_effort"
            )
        thinks = effort != "none" if thinks is None else thinks
        if effort != "none":
            found["reasoning_effort"] = effort
    said = next((given[name] for name in THINKING if isinstance(given.get(name), bool)), thinks)
    return found if said is None else {**dict.fromkeys(THINKING, said), **found}
