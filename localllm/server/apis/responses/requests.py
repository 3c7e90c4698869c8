"""`POST /v1/responses`: JSON bytes to a typed request, and that to the runtime's types.

Knows nothing of the store: earlier items are passed in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.chat.media_files import MediaReading
from localllm.errors import InvalidParameter
from localllm.server.answers.timings import detail_of
from localllm.server.apis.responses.inputs import Finder, InputItem, ParsedInput, taken
from localllm.server.apis.responses.items import AdditionalTools, AnyItem
from localllm.server.apis.responses.outputs import with_content
from localllm.server.apis.responses.tools import HostedTools, McpFunction, OfferedTools, ResponseTool, offered_tools
from localllm.server.apis.responses.turns import to_messages
from localllm.server.requests import fields
from localllm.server.requests.call_ids import with_ids
from localllm.server.requests.field_rules import Fates, Nested, parse_known
from localllm.server.requests.rendering import MAX_EFFORT_CHARS, RenderingFields, Thinking, rendering_of
from localllm.server.requests.sampling import SamplingFields, StreamOptions
from localllm.server.requests.structures import ResponseFormat
from localllm.server.requests.tool_choice import ToolChoice
from localllm.server.requests.values import ListField, ObjectField, missing
from localllm.types import MAX_LOGPROBS, NO_LIMIT, GenerationRequest, MediaFile, Message, Rendering
from localllm.types.ranges import check_range

MAX_OUTPUT_TOKENS = 2**31 - 1
MAX_METADATA = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
"""OpenAI's limits."""

WITH_LOGPROBS = "message.output_text.logprobs"
WITH_SEALED_THOUGHTS = "reasoning.encrypted_content"

Includable = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""Values other than the two above concern items that answers here never have, so they are accepted without effect."""


class TextConfig(msgspec.Struct, frozen=True):
    """Structure and verbosity of the answer's text."""

    nested: ClassVar[Nested] = ("format",)

    format: ResponseFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    """For templates with a variable of this name."""


class Reasoning(msgspec.Struct, frozen=True):
    """How the model thinks. Thoughts are returned in full, also as the summary if one is requested."""

    fates: ClassVar[Fates] = Fates(
        ignored={
            "context": "the template determines which earlier thoughts are included",
            "mode": "models have only one mode of thinking",
        }
    )

    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    """The former name of `summary`."""
    context: Literal["auto", "current_turn", "all_turns"] | None = None


class ResponseRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/responses`."""

    fates: ClassVar[Fates] = fields.RESPONSES
    nested: ClassVar[Nested] = ("text", "input", "tools", "thinking", "reasoning")

    model: str | None = None
    """Optional while exactly one model is loaded."""
    input: str | list[InputItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = None
    include: list[Includable] | None = None
    top_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    text: TextConfig | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: str | ToolChoice | None = None
    truncation: Annotated[
        Literal["auto", "disabled"] | None,
        Meta(description="whatever it says, input that is too long is refused"),
    ] = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    # Extensions:
    chat_template_kwargs: ObjectField | UnsetType = UNSET
    enable_thinking: bool | None = None
    thinking: Thinking | None = None
    documents: ListField | UnsetType = UNSET
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    return_progress: bool | None = None
    """llama-server's: events with the prompt's progress."""
    timings_per_token: bool | None = None
    """llama-server's: timings in every text event and at the end."""

    @property
    def reasoning_effort(self) -> str | None:
        """The same as in the chat API. Raises `InvalidParameter`."""
        effort = self.reasoning.effort if self.reasoning else None
        if effort is not None and not 0 < len(effort) <= MAX_EFFORT_CHARS:
            raise InvalidParameter(
                "reasoning.effort must be a word such as low, medium or high", param="reasoning.effort"
            )
        return effort

    @property
    def seals_thoughts(self) -> bool:
        """Whether thoughts are also returned as `encrypted_content`."""
        return WITH_SEALED_THOUGHTS in (self.include or ())

    @property
    def summarizes_thoughts(self) -> bool:
        """Whether thoughts are also returned as summaries, since some clients show only these."""
        reasoning = self.reasoning or Reasoning()
        return (reasoning.summary or reasoning.generate_summary or "none") != "none"

    def limit(self) -> int | None:
        check_range("max_output_tokens", self.max_output_tokens, NO_LIMIT, MAX_OUTPUT_TOKENS)
        return self.max_output_tokens

    def num_logprobs(self) -> int | None:
        wanted = WITH_LOGPROBS in (self.include or ())
        if self.top_logprobs and not wanted:
            raise InvalidParameter(f'top_logprobs requires include: ["{WITH_LOGPROBS}"]', param="top_logprobs")
        check_range("top_logprobs", self.top_logprobs, 0, MAX_LOGPROBS)
        return (self.top_logprobs or 0) if wanted else None

    def taken(self, earlier: Sequence[AnyItem], find: Finder) -> ParsedInput:
        """The new items of the conversation. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return taken(self.input, earlier, find)

    def offered(
        self, conversation: Sequence[AnyItem], hosted: HostedTools, mcp: Mapping[str, Sequence[McpFunction]] = {}
    ) -> OfferedTools:
        """The declared tools; `mcp`: those of MCP servers. Raises `InvalidParameter`, `UnsupportedParameter`."""
        more = (("input[].tools", item.tools) for item in conversation if isinstance(item, AdditionalTools))
        offered = offered_tools([("tools", self.tools or ()), *more], hosted, mcp)
        return offered.choosing(self.tool_choice)

    def generation(
        self, conversation: Sequence[AnyItem], offered: OfferedTools, files: Sequence[MediaFile] = ()
    ) -> GenerationRequest:
        """How to generate the answer. `files`: all that the conversation refers to.

        Raises `InvalidParameter`, `UnsupportedParameter`.

        Instructions apply to this request only; earlier ones are not part of the conversation.
        """
        first = [Message("system", self.instructions)] if self.instructions else []
        reading = MediaReading()
        said = to_messages([with_content(item, reading) for item in conversation], offered.named)
        if not said:
            raise missing("input")
        messages = with_ids([*first, *said])
        tools = offered.tooling(self.tool_choice, parallel=self.parallel_tool_calls)
        shape = self.text.format if self.text else None
        structure, calling = shape.structure("text.format") if shape else None, tools.calling
        rendering = self._rendering(messages, tools.told)
        asked = self.generation_of(
            self.params(),
            structure=structure,
            messages=messages,
            media=tuple({file.digest: file for file in (*files, *reading.files)}.values()),
            rendering=rendering,
            calling=calling,
        )
        detail = detail_of(self.stream, self.return_progress, self.timings_per_token)
        return asked if detail is None else msgspec.structs.replace(asked, detail=detail)

    def _rendering(self, messages: tuple[Message, ...], tools: str) -> Rendering:
        rendering = rendering_of(RenderingFields.of(self), messages, tools=tools)
        verbosity = self.text.verbosity if self.text else None
        if verbosity is None:
            return rendering
        variables = {"verbosity": verbosity, **json.loads(rendering.variables)}
        return msgspec.structs.replace(rendering, variables=json.dumps(variables, ensure_ascii=False))


R = TypeVar("R", bound=ResponseRequest)


class ParsedRequest(NamedTuple, Generic[R]):
    """A request, and the parts of it needed as sent."""

    request: R
    ignored: list[str]
    """The unknown fields."""
    tools: Raw | None
    choice: Raw | None


def parse_response(body: bytes, kind: type[R]) -> ParsedRequest[R]:
    """Raises `InvalidParameter`, `UnsupportedParameter`."""
    given, request, ignored = parse_known(body, kind)
    _check_metadata(request.metadata or {})
    return ParsedRequest(request, ignored, given.get("tools"), given.get("tool_choice"))


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidParameter(f"metadata takes at most {MAX_METADATA} pairs, got {len(metadata)}", param="metadata")
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY_CHARS or len(value) > MAX_METADATA_VALUE_CHARS:
            raise InvalidParameter(
                f"metadata takes keys of at most {MAX_METADATA_KEY_CHARS} characters and values of at most "
                f"{MAX_METADATA_VALUE_CHARS}; {key[:MAX_METADATA_KEY_CHARS]!r} is over that",
                param="metadata",
            )
