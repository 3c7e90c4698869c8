"""`POST /v1/messages` and its token count: JSON bytes to a typed request, and that to the runtime's types.

Raises `RequestError`s that name the field at fault as a JSON path, e.g. `messages[0].role`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec.structs import replace

from localllm.server.apis.anthropic.contents import Block, InputMessage, to_conversation
from localllm.server.apis.anthropic.replies import THREAD
from localllm.server.apis.anthropic.tools import HostedTools, MessagesChoice, MessagesTool, OfferedTools, offered_tools
from localllm.server.requests import speculating
from localllm.server.requests.field_rules import Fates, Nested, RefusedField
from localllm.server.requests.rendering import RenderingFields, Thinking, rendering_of
from localllm.server.requests.sampling import SamplingFields
from localllm.server.requests.structures import SchemaField, schema_structure
from localllm.types import GenerationRequest, Rendering, SamplingParams
from localllm.types.conversation import Conversation
from localllm.types.ranges import check_range
from localllm.types.structures import Structure

MAX_TOKENS = 2**31 - 1

_OF_ACCOUNTS = "accounts, regions and prices exist only at the vendor"
_FATES = Fates(
    refused={
        "container": RefusedField("code execution is not supported"),
        "mcp_servers": RefusedField("the server never connects to an address from a request", ([],)),
        "stop": RefusedField("this API calls it `stop_sequences`", ([],)),
        THREAD: RefusedField("conversations are not stored: send all messages"),
    },
    ignored={
        "anthropic_beta": "supported betas need no header",
        "betas": "supported betas need no header",
        "billing_policy": _OF_ACCOUNTS,
        "cache_control": "common prefixes are always cached",
        "context_management": "old results stay in the prompt, at no cost while it is cached",
        "diagnostics": "`cache_report` explains why a prompt was not cached",
        "fallback_credit_token": _OF_ACCOUNTS,
        "fallbacks": "no request is ever declined, so none needs a fallback",
        "inference_geo": _OF_ACCOUNTS,
        "metadata": "requests are not stored",
        "return_progress": "this API's events have no field for it",
        "speed": "answers are always as fast as possible",
        "timings_per_token": "this API's events have no field for it",
        "user_profile_id": _OF_ACCOUNTS,
        "workspace_id": _OF_ACCOUNTS,
    }
    | speculating.NO_EFFECT,
)
OF_COUNTS = _FATES._replace(ignored={**_FATES.ignored, "compaction": "the conversation is counted as sent"})
OF_ANSWERS = _FATES._replace(
    refused={
        **_FATES.refused,
        "compaction": RefusedField("conversations are not compacted: ask for a summary in a message"),
    }
)


class MessagesThinking(Thinking, frozen=True, kw_only=True):
    """Whether, and for how many tokens, the model thinks."""

    fates: ClassVar[Fates] = Fates(ignored={"block_binding": "signatures of thoughts are not verified"})

    display: Literal["summarized", "omitted", "updates"] | None = None
    """`omitted`: thought blocks come without their text."""


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The structure that the answer's text must have."""

    type: Literal["json_schema"]
    schema: SchemaField


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Effort and format of the answer."""

    fates: ClassVar[Fates] = Fates(ignored={"task_budget": "tokens are not counted across requests"})

    effort: str | None = None
    """A word passed to the template, such as `low`."""
    format: OutputFormat | None = None


class CountRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/messages/count_tokens`; fields about the answer are validated and do not change the count."""

    fates: ClassVar[Fates] = OF_COUNTS
    nested: ClassVar[Nested] = ("thinking", "output_config", "system", "messages", "tools")

    model: str | None = None
    """Optional while exactly one model is loaded."""
    messages: list[InputMessage]
    system: str | list[Block] | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesChoice | None = None
    thinking: MessagesThinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """The former name of `output_config.format`."""
    stop_sequences: list[str] | None = None
    stream: bool | None = None

    @property
    def shows_thoughts(self) -> bool:
        return self.thinking is None or self.thinking.display != "omitted"

    def params(self) -> SamplingParams:
        return replace(super().params(), stop=tuple(filter(None, self.stop_sequences or ())))

    def budgets(self) -> dict[str, int]:
        given = super().budgets()
        if self.thinking is not None and not self.thinking.is_on:
            given.pop("thinking.budget_tokens", None)
        return given

    def offered(self, hosted: HostedTools) -> OfferedTools:
        """The declared tools. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return offered_tools(self.tools or (), self.tool_choice, hosted)

    def prompt(self, offered: OfferedTools) -> tuple[Conversation, Rendering]:
        """The conversation and how to render it. Raises `InvalidParameter`, `UnsupportedParameter`."""
        conversation = to_conversation(self.system, self.messages)
        # Thoughts are off unless requested; `adaptive` leaves the decision to the model.
        thinks = False if self.thinking is None else self.thinking.is_on
        effort = self.output_config.effort if self.output_config and thinks is not False else None
        fields = RenderingFields(enable_thinking=thinks, thinking=self.thinking, reasoning_effort=effort)
        return conversation, rendering_of(fields, conversation.messages, offered.tooling.told)

    def structure(self) -> Structure | None:
        """The structure of the answer's text; None: free text. Raises `InvalidParameter`."""
        format = self.output_config.format if self.output_config else None
        where = "output_config.format.schema" if format else "output_format.schema"
        format = format or self.output_format
        return None if format is None else schema_structure(format.schema, where)

    def generation(self, offered: OfferedTools) -> GenerationRequest:
        """How to generate the answer. Raises `InvalidParameter`, `UnsupportedParameter`."""
        conversation, rendering = self.prompt(offered)
        return self.generation_of(
            self.params(),
            structure=self.structure(),
            messages=conversation.messages,
            media=conversation.files,
            notes=conversation.notes,
            rendering=rendering,
            calling=offered.tooling.calling,
        )


class MessagesRequest(CountRequest, frozen=True, kw_only=True):
    """`POST /v1/messages`."""

    fates: ClassVar[Fates] = OF_ANSWERS

    max_tokens: int

    def limit(self) -> int | None:
        check_range("max_tokens", self.max_tokens, 0, MAX_TOKENS)
        return self.max_tokens
