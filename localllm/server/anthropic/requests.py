"""`POST /v1/messages` and what counts its tokens: JSON bytes to a typed request, and on to the runtime's own types.

Raises `RequestError`s that name the field at fault as a JSON path, e.g. `messages[0].role`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from localllm.server.anthropic.contents import Block, InputMessage, to_messages, unknown_in_messages
from localllm.server.anthropic.replies import THREAD
from localllm.server.anthropic.tools import (
    HostedTools,
    MessagesChoice,
    MessagesTool,
    Offered,
    offered_tools,
    unknown_in_tools,
)
from localllm.server.common.rendering import Thinking, rendering_of
from localllm.server.common.sampling import SamplingFields
from localllm.server.common.structures import SchemaField, schema_structure
from localllm.server.fields import Fates, Refused, parse_known, unknown_fields
from localllm.server.parse import Fields, fields_of
from localllm.types import GenerationRequest, Message, Rendering, SamplingParams
from localllm.types.ranges import check_range
from localllm.types.structures import Structure

MAX_TOKENS = 2**31 - 1

_OF_ACCOUNTS = "accounts, regions and prices are the vendor's"
_FATES = Fates(
    refused={
        "container": Refused("nothing here runs code"),
        "mcp_servers": Refused("the server connects to none that a request names", ([],)),
        "stop": Refused("`stop_sequences` is its name here", ([],)),
        THREAD: Refused("nothing is kept of a conversation: send all of its messages"),
    },
    ignored={
        "anthropic_beta": "what is honoured needs no header",
        "betas": "what is honoured needs no header",
        "billing_policy": _OF_ACCOUNTS,
        "cache_control": "prompts are cached wherever they begin alike",
        "context_management": "old results stay in the prompt, which costs nothing while it is cached",
        "diagnostics": "`cache_report` says why a prompt was not cached",
        "fallback_credit_token": _OF_ACCOUNTS,
        "fallbacks": "no model is declined here, so none has to answer for it",
        "inference_geo": _OF_ACCOUNTS,
        "metadata": "nothing is kept of a request",
        "return_progress": "no event of this API has a place for it",
        "service_tier": "there is one; `priority` says who waits less",
        "speed": "answers are as fast as they can be",
        "timings_per_token": "no event of this API has a place for it",
        "user_profile_id": _OF_ACCOUNTS,
        "workspace_id": _OF_ACCOUNTS,
    },
)
OF_COUNTS = _FATES._replace(ignored={**_FATES.ignored, "compaction": "the conversation is counted as it is"})
OF_ANSWERS = _FATES._replace(
    refused={**_FATES.refused, "compaction": Refused("nothing is compacted here: ask for a summary in a message")}
)

T = TypeVar("T", bound=msgspec.Struct)


class MessagesThinking(Thinking, frozen=True, kw_only=True):
    """Whether and how long it thinks."""

    fates: ClassVar[Fates] = Fates(ignored={"block_binding": "thoughts are not checked, whoever had them"})

    display: Literal["summarized", "omitted", "updates"] | None = None
    """Omitted: a thought's block is there, without its text."""


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer's text has to be."""

    type: Literal["json_schema"]
    schema: SchemaField


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How much it says, and in which form."""

    fates: ClassVar[Fates] = Fates(ignored={"task_budget": "nothing counts tokens across requests"})

    effort: str | None = None
    """A word for the template, as `low`."""
    format: OutputFormat | None = None


class CountRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/messages/count_tokens`; what says how to answer is checked, and changes no number."""

    fates: ClassVar[Fates] = OF_COUNTS

    model: str | None = None
    """May be left out while one model is loaded."""
    messages: list[InputMessage]
    system: str | list[Block] | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesChoice | None = None
    thinking: MessagesThinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    """What `output_config.format` was called once."""
    stop_sequences: list[str] | None = None
    stream: bool | None = None

    @property
    def enable_thinking(self) -> bool | None:
        """Who does not ask for thoughts gets none; `adaptive` leaves it to the model."""
        return False if self.thinking is None else self.thinking.is_on

    @property
    def reasoning_effort(self) -> str | None:
        return self.output_config.effort if self.output_config and self.enable_thinking is not False else None

    @property
    def chat_template_kwargs(self) -> Raw | UnsetType:
        return UNSET

    @property
    def documents(self) -> Raw | UnsetType:
        return UNSET

    @property
    def add_generation_prompt(self) -> bool | None:
        return None

    @property
    def continue_final_message(self) -> bool | None:
        """A last message of the assistant is continued."""
        return None

    @property
    def shows_thoughts(self) -> bool:
        return self.thinking is None or self.thinking.display != "omitted"

    def params(self) -> SamplingParams:
        return replace(super().params(), stop=tuple(filter(None, self.stop_sequences or ())))

    def budgets(self) -> dict[str, int]:
        given = super().budgets()
        if self.thinking is not None and self.thinking.is_on and self.thinking.budget_tokens is not None:
            given["thinking.budget_tokens"] = self.thinking.budget_tokens
        return given

    def offered(self, hosted: HostedTools) -> Offered:
        """The tools that there are. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return offered_tools(self.tools or (), self.tool_choice, hosted)

    def prompt(self, offered: Offered) -> tuple[tuple[Message, ...], Rendering]:
        """What is rendered, and how. Raises `InvalidParameter`, `UnsupportedParameter`."""
        messages = to_messages(self.system, self.messages)
        return messages, rendering_of(self, messages, offered.tooling.told)

    def structure(self) -> Structure | None:
        """Raises `InvalidParameter`."""
        format = self.output_config.format if self.output_config else None
        where = "output_config.format.schema" if format else "output_format.schema"
        format = format or self.output_format
        return None if format is None else schema_structure(format.schema, where)

    def generation(self, offered: Offered) -> GenerationRequest:
        """How to answer it. Raises `InvalidParameter`, `UnsupportedParameter`."""
        messages, rendering = self.prompt(offered)
        structure, calling = self.structure(), offered.tooling.calling
        if structure is not None and calling is not None:
            if calling.choice == "required":
                structure = None  # there is no text to which it would apply
            elif calling.choice == "none":
                calling = None
        return self.generation_of(
            self.params(), structure=structure, messages=messages, rendering=rendering, calling=calling
        )


class MessagesRequest(CountRequest, frozen=True, kw_only=True):
    """`POST /v1/messages`."""

    fates: ClassVar[Fates] = OF_ANSWERS

    max_tokens: int

    def limit(self) -> int | None:
        check_range("max_tokens", self.max_tokens, 0, MAX_TOKENS)
        return self.max_tokens


def parse_messages(body: bytes, kind: type[T]) -> tuple[T, list[str]]:
    """The request and its fields that are nobody's. Raises `InvalidParameter`, `UnsupportedParameter`."""
    given, request, ignored = parse_known(body, kind)
    return request, ignored + _unknown_within(given) + unknown_in_messages(given) + unknown_in_tools(given)


def _unknown_within(given: Fields) -> list[str]:
    kinds: dict[str, type[msgspec.Struct]] = {"thinking": MessagesThinking, "output_config": OutputConfig}
    return [
        name for field, kind in kinds.items() for name in unknown_fields(fields_of(given.get(field)), kind, f"{field}.")
    ]
