"""Request bodies: JSON bytes to typed Structs, and those to the runtime's types. No JSON travels further inward.

Raises `RequestError`s that name the field at fault as a JSON path, e.g. `messages[0].role`.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from localllm.chat.media_files import put_back
from localllm.errors import InvalidParameter, clipped
from localllm.server.answers.timings import detail_of
from localllm.server.requests import fields
from localllm.server.requests.field_rules import Fates, Nested, known
from localllm.server.requests.marked_prompts import MarkedPrompt, PromptObject
from localllm.server.requests.messages import ChatMessage as ChatMessage
from localllm.server.requests.messages import to_conversation
from localllm.server.requests.rendering import RenderingFields, Thinking, rendering_of
from localllm.server.requests.sampling import StreamOptions, seeded
from localllm.server.requests.speculating import Prediction
from localllm.server.requests.structures import StructureFields
from localllm.server.requests.tool_choice import LegacyChoice, ToolChoice, Tooling, legacy_tooling, tooling
from localllm.server.requests.tools import FunctionTool, Tool
from localllm.server.requests.values import ListField, ObjectField, exclusive
from localllm.types import MAX_LOGPROBS, NO_LIMIT, GenerationRequest, SamplingParams, TokenId
from localllm.types.declared import MAX_COUNT
from localllm.types.ranges import check_range, shown

MAX_LIMIT = 2**31 - 1
"""Limit of `max_tokens`."""


class CommonRequest(StructureFields, frozen=True, kw_only=True):
    """Fields that chat and plain completions share."""

    model: str | None = None
    """Optional while exactly one model is loaded."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    n_predict: int | None = None
    """llama-server's name for `max_tokens`."""
    verbose: bool | None = None
    """llama-server's: return the rendered prompt."""
    return_progress: bool | None = None
    """llama-server's: send chunks with the prompt's progress."""
    timings_per_token: bool | None = None
    """llama-server's: timings in every chunk."""

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def generations(self, *, most: int) -> list[GenerationRequest]:
        """One request per answer, those of one prompt adjacent; at most `most`. Raises `RequestError`s."""
        sources = self.sources()
        self._check_number(len(sources), most)
        params, structure = self.params(), self.structure()
        drawn = seeded(params, self.num_candidates)
        made = [self.generation_of(params, structure=structure, **source) for source in sources for params in drawn]
        detail = detail_of(self.stream, self.return_progress, self.timings_per_token)
        return made if detail is None else [msgspec.structs.replace(each, detail=detail) for each in made]

    def _check_number(self, num_prompts: int, most: int) -> None:
        """Raises `InvalidParameter` for more answers than an empty queue could hold, before any of them is begun."""
        num_answers = num_prompts * self.num_candidates
        if num_answers <= most:
            return
        factor = "best_of" if getattr(self, "best_of", None) else "n"
        asked = f"{num_prompts} prompts with {factor} {self.num_candidates} are {num_answers} answers"
        raise InvalidParameter(
            f"{asked}, and this model takes at most {most} at a time (--slots and --max-waiting together): "
            f"send fewer prompts{f', or a smaller {factor}' if self.num_candidates > 1 else ''}",
            param=factor if self.num_candidates > 1 else "prompt",
        )

    def sources(self) -> list[dict[str, Any]]:
        """The prompts, as fields of `GenerationRequest`. Raises `RequestError`s."""
        raise NotImplementedError

    def echoed(self) -> list[dict[str, Any]]:
        """The prompts to echo before the answers, as fields of `GenerationRequest`. Raises `RequestError`s."""
        return []

    @property
    def num_choices(self) -> int:
        """Answers to return per prompt. Raises `InvalidParameter`."""
        return _count("n", self.n)

    @property
    def num_candidates(self) -> int:
        """Answers to generate per prompt. Raises `InvalidParameter`."""
        return self.num_choices

    def limit(self) -> int | None:
        names = ("max_tokens", "max_completion_tokens", "n_predict")
        given = {name: limit for name in names if (limit := getattr(self, name, None)) is not None}
        for name, limit in given.items():
            if not NO_LIMIT <= limit <= MAX_LIMIT:
                raise InvalidParameter(
                    f"{name} must be from 0 to {MAX_LIMIT}, or {NO_LIMIT} for no limit, got {shown(limit)}", param=name
                )
        if len(set(given.values())) > 1:
            raise InvalidParameter(f"{' and '.join(given)} differ; send one of them", param=next(iter(given)))
        return next(iter(given.values()), None)


class ChatRequest(CommonRequest, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    fates: ClassVar[Fates] = fields.CHAT
    nested: ClassVar[Nested] = ("functions", "tools", "thinking", "messages")

    messages: list[ChatMessage]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionTool] | None = None
    function_call: str | LegacyChoice | None = None
    chat_template_kwargs: ObjectField | UnsetType = UNSET
    enable_thinking: bool | None = None
    thinking: Thinking | None = None
    reasoning_effort: str | None = None
    prediction: Prediction | None = None
    reasoning_format: str | None = None
    """llama-server's: `none` leaves thoughts in the text; `auto` and `deepseek` separate them, the default."""
    documents: ListField | UnsetType = UNSET
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    def num_logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise InvalidParameter("top_logprobs requires logprobs: true", param="top_logprobs")
        check_range("top_logprobs", self.top_logprobs, 0, MAX_LOGPROBS)
        return (self.top_logprobs or 0) if self.logprobs else None

    def tooling(self) -> Tooling:
        """Raises `InvalidParameter`, `UnsupportedParameter`."""
        if self.tools and self.functions:
            raise exclusive("tools", "functions", param="functions")
        if self.functions or self.function_call not in (None, "none", "auto"):
            return legacy_tooling(self.functions or (), self.function_call)
        declared = [tool.declared(f"tools[{index}]") for index, tool in enumerate(self.tools or ())]
        return tooling(declared, self.tool_choice, parallel=self.parallel_tool_calls)

    def sources(self) -> list[dict[str, Any]]:
        conversation, tools = to_conversation(self.messages), self.tooling()
        source = {
            "messages": conversation.messages,
            "media": conversation.files,
            "notes": conversation.notes,
            "rendering": rendering_of(RenderingFields.of(self), conversation.messages, tools.told),
            "calling": tools.calling,
        }
        if self.prediction is not None:
            source["prediction"] = self.prediction.text
        return [{**source, "splits_thoughts": self._splits_thoughts()}]

    def _splits_thoughts(self) -> bool:
        if self.reasoning_format not in (None, "none", "auto", "deepseek"):
            raise InvalidParameter(
                f"reasoning_format must be none, auto or deepseek, got {clipped(self.reasoning_format)!r}",
                param="reasoning_format",
            )
        return self.reasoning_format != "none"


class CompletionRequest(CommonRequest, frozen=True, kw_only=True):
    """`POST /v1/completions`."""

    fates: ClassVar[Fates] = fields.COMPLETION

    prompt: str | PromptObject | list[str | TokenId | PromptObject | list[TokenId]]
    """With llama-server's object for a prompt with pictures and sounds."""
    suffix: str | None = None
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None

    def num_logprobs(self) -> int | None:
        return self.logprobs

    def params(self) -> SamplingParams:
        params = super().params()
        if self.echo:
            params = msgspec.structs.replace(params, prompt_logprobs=params.logprobs)
        if self.num_candidates > self.num_choices and params.logprobs is None:
            return msgspec.structs.replace(params, logprobs=0)  # needed to select the best
        return params

    def echoed(self) -> list[dict[str, Any]]:
        if not self.echo:
            return []
        if self.suffix:
            raise exclusive("echo", "suffix", param="echo")
        return self._without_media("echo")

    def sources(self) -> list[dict[str, Any]]:
        if not self.suffix:
            return self._prompts()
        return [{**prompt, "suffix": self.suffix} for prompt in self._without_media("suffix")]

    def _without_media(self, field: str) -> list[dict[str, Any]]:
        prompts = self._prompts()
        if any("prompt_parts" in prompt for prompt in prompts):
            raise exclusive(field, "multimodal_data", param=field)
        return prompts

    def _prompts(self) -> list[dict[str, Any]]:
        if isinstance(self.prompt, str | PromptObject):
            return [_prompt(self.prompt, "prompt")]
        if not self.prompt:
            raise InvalidParameter("prompt must not be an empty array", param="prompt")
        kinds = {type(item) for item in self.prompt}
        if kinds == {int}:
            return [{"prompt_tokens": tuple(cast(list[int], self.prompt))}]
        if len(kinds - {PromptObject}) > 1 or int in kinds:
            raise InvalidParameter("prompt must be texts, tokens, or arrays of tokens, not a mixture", param="prompt")
        return [
            _prompt(each, f"prompt[{index}]") for index, each in enumerate(self.prompt) if not isinstance(each, int)
        ]

    @property
    def num_candidates(self) -> int:
        if self.best_of is None:
            return self.num_choices
        best_of = _count("best_of", self.best_of)
        if best_of < self.num_choices:
            raise InvalidParameter(f"best_of must not be below n ({self.num_choices}), got {best_of}", param="best_of")
        if best_of > self.num_choices and self.stream:
            raise InvalidParameter(
                "best_of above n cannot be streamed: all answers are needed to compare", param="best_of"
            )
        return best_of


def _prompt(given: str | PromptObject | list[TokenId], path: str) -> dict[str, Any]:
    """A prompt, as fields of `GenerationRequest`. Raises `InvalidParameter`."""
    item = given.prompt(path) if isinstance(given, PromptObject) else given
    if isinstance(item, str):
        return {"prompt": put_back(item)}
    if isinstance(item, MarkedPrompt):
        return item.source()
    tokens = tuple(each for each in item if not isinstance(each, str))
    if len(tokens) < len(item):
        where = f"{path}.prompt_string"
        raise InvalidParameter(f"{where} must be a text or tokens, not a mixture", param=where)
    return {"prompt_tokens": tokens}


def _count(name: str, value: int | None) -> int:
    check_range(name, value, 1, MAX_COUNT)
    return 1 if value is None else value


parse_chat = known(ChatRequest)
parse_completion = known(CompletionRequest)
