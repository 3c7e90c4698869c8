"""The choices of chats and plain completions, which OpenAI formats differently.

Deltas and complete answers in, choices out. Knows nothing of streams or HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from localllm.server.answers.choices import CompleteAnswer
from localllm.server.answers.customs import InputReader, input_of
from localllm.server.answers.logprobs import ChatLogprobs, TextLogprobs, chat_logprobs, text_logprobs
from localllm.server.answers.remarks import finish_reason
from localllm.server.apis.openai import replies as out
from localllm.server.requests.tool_choice import Tooling
from localllm.types import CallDelta, Delta, Finish, TokenLogprob, ToolCall


class TextShape(NamedTuple):
    """Choices of a plain completion."""

    id_prefix: str = "cmpl-"
    whole_object: str = "text_completion"
    chunk_object: str = "text_completion"

    def logprobs(self, items: Sequence[TokenLogprob], offset: int) -> TextLogprobs:
        """Log-probabilities of tokens that begin at this character offset in the answer."""
        return text_logprobs(items, offset)

    def whole(self, index: int, whole: CompleteAnswer, logprobs: Any) -> out.TextChoice:
        """`logprobs`: from the method of that name, or None."""
        reason = finish_reason(whole.finish)
        return out.TextChoice(index, whole.text, reason, logprobs, reasoning_content=whole.thought or UNSET)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the request."""
        return ()

    def warnings(self, whole: CompleteAnswer) -> list[str]:
        """Warnings about an answer."""
        return [*whole.notes]

    def stream(self, index: int) -> TextStream:
        """The chunks of one answer."""
        return TextStream(index)


class TextStream:
    """The chunks of one answer."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._notes: list[str] = []

    def first(self) -> out.TextChoice | None:
        """The first chunk, before anything is known of the answer."""
        return None

    def nothing(self) -> out.TextChoice:
        """A chunk without content, for other information."""
        return out.TextChoice(self._index, "")

    def chunks(self, delta: Delta, logprobs: Any) -> Iterator[out.TextChoice]:
        """The chunks of a delta; none if it has nothing new."""
        self._notes += delta.notes
        if delta.text or delta.thought or logprobs is not None:
            thought = delta.thought or UNSET
            yield out.TextChoice(self._index, delta.text, logprobs=logprobs, reasoning_content=thought)

    def last(self, finish: Finish) -> out.TextChoice:
        """The chunk at the answer's end."""
        return out.TextChoice(self._index, "", finish_reason(finish))

    def warnings(self, finish: Finish) -> list[str]:  # noqa: ARG002
        """The warnings about the answer, at its end."""
        return self._notes


class ChatShape(NamedTuple):
    """Choices of a chat."""

    tooling: Tooling = Tooling()
    begins_with: str | None = ""
    """The text of a stream's first chunk if no calls are possible; None always sends null."""
    id_prefix: str = "chatcmpl-"
    whole_object: str = "chat.completion"
    chunk_object: str = "chat.completion.chunk"

    def logprobs(self, items: Sequence[TokenLogprob], offset: int) -> ChatLogprobs:
        """Log-probabilities of tokens that begin at this character offset in the answer."""
        return chat_logprobs(items, offset)

    def whole(self, index: int, whole: CompleteAnswer, logprobs: Any) -> out.ChatChoice:
        """`logprobs`: from the method of that name, or None."""
        is_legacy = self.tooling.is_legacy
        message = out.ChatText(
            "assistant",
            whole.text if whole.text or not whole.calls else None,
            reasoning_content=whole.thought or UNSET,
            reasoning=whole.thought or UNSET,
            tool_calls=[self._call(call) for call in whole.calls] if whole.calls and not is_legacy else UNSET,
            function_call=_called(whole.calls[0]) if whole.calls and is_legacy else UNSET,
        )
        return out.ChatChoice(index, message, self.ended(whole.finish, has_calls=bool(whole.calls)), logprobs)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the request."""
        return self.tooling.notes

    def warnings(self, whole: CompleteAnswer) -> list[str]:
        """Warnings about an answer, including why a text is empty."""
        return self.remarks(
            whole.finish,
            whole.notes,
            has_text=bool(whole.text),
            has_thought=bool(whole.thought),
            num_calls=len(whole.calls),
        )

    def stream(self, index: int) -> ChatStream:
        """The chunks of one answer."""
        return ChatStream(index, self)

    def ended(self, finish: Finish, *, has_calls: bool) -> out.FinishReason:
        """OpenAI's finish reason: `stop` for a call of the function that the request named."""
        reason = finish_reason(finish)
        if reason != "stop" or not has_calls or self.tooling.is_named:
            return reason
        return "function_call" if self.tooling.is_legacy else "tool_calls"

    def remarks(
        self, finish: Finish, notes: Sequence[str], *, has_text: bool, has_thought: bool, num_calls: int
    ) -> list[str]:
        """All warnings of an answer."""
        warnings = [*notes]
        if self.tooling.is_legacy and num_calls > 1:
            warnings.append(f"function_call has the first of {num_calls} calls; send tools to get all of them")
        if not (has_text or num_calls or notes) and finish.reason == "stop":
            warnings.append(
                f"the answer has no text: the model ended it {'after its thought' if has_thought else 'immediately'}"
            )
        return warnings

    def _call(self, call: ToolCall) -> out.FunctionCall | out.CustomCall:
        if call.name in self.tooling.customs:
            return out.CustomCall(call.id, out.CalledText(call.name, input_of([call.arguments])))
        return out.FunctionCall(call.id, _called(call))


class ChatStream:
    """The chunks of one answer."""

    def __init__(self, index: int, shape: ChatShape) -> None:
        self._index = index
        self._shape = shape
        self._customs = shape.tooling.customs
        self._notes: list[str] = []
        self._has_text = self._has_thought = False
        self._calls: dict[int, InputReader | None] = {}
        """Calls that have begun, with a reader for the text of custom tools."""

    def first(self) -> out.ChatChunkChoice | None:
        """The first chunk; if calls are possible, it is not yet known whether there will be text."""
        calling = self._shape.tooling.calling
        has_text = calling is None or calling.choice == "none"
        text = self._shape.begins_with if has_text or self._shape.begins_with is None else UNSET
        return out.ChatChunkChoice(self._index, out.ChatDelta(role="assistant", content=text))

    def nothing(self) -> out.ChatChunkChoice:
        """A chunk without content, for other information."""
        return out.ChatChunkChoice(self._index, out.ChatDelta())

    def chunks(self, delta: Delta, logprobs: Any) -> Iterator[out.ChatChunkChoice]:
        """The chunks of a delta; none if it has nothing new. Log-probabilities are in the first."""
        self._notes += delta.notes
        self._has_text |= bool(delta.text)
        self._has_thought |= bool(delta.thought)
        for part in self._deltas(delta):
            yield out.ChatChunkChoice(self._index, part, logprobs=logprobs)
            logprobs = None
        if logprobs is not None:  # of tokens whose text is not complete yet
            part = out.ChatDelta(content=UNSET if self._calls else "")
            yield out.ChatChunkChoice(self._index, part, logprobs=logprobs)

    def last(self, finish: Finish) -> out.ChatChunkChoice:
        """The chunk at the answer's end."""
        reason = self._shape.ended(finish, has_calls=bool(self._calls))
        return out.ChatChunkChoice(self._index, out.ChatDelta(), reason)

    def warnings(self, finish: Finish) -> list[str]:
        """The warnings about the answer, at its end."""
        return self._shape.remarks(
            finish,
            self._notes,
            has_text=self._has_text,
            has_thought=self._has_thought,
            num_calls=len(self._calls),
        )

    def _deltas(self, delta: Delta) -> Iterator[out.ChatDelta]:
        # In its own chunk: with text in the same chunk, Continue drops the thought and Cline swaps the two.
        if delta.thought:
            yield out.ChatDelta(reasoning_content=delta.thought, reasoning=delta.thought)
        if delta.text:
            yield out.ChatDelta(content=delta.text)
        for call in delta.calls:
            yield from self._function_call(call) if self._shape.tooling.is_legacy else self._tool_call(call)

    def _tool_call(self, call: CallDelta) -> Iterator[out.ChatDelta]:
        """Its name first, then its arguments."""
        is_new = call.index not in self._calls
        reader = self._calls.setdefault(call.index, InputReader() if call.name in self._customs else None)
        if is_new and reader is None:
            begun = out.CalledDelta(name=call.name, arguments="")
            yield _one(out.ToolCallDelta(index=call.index, id=call.id, type="function", function=begun))
        elif is_new:
            opened = out.CalledTextDelta(name=call.name, input="")
            yield _one(out.ToolCallDelta(index=call.index, id=call.id, type="custom", custom=opened))
        if reader is not None:
            text = reader.feed(call.arguments)
            if text:
                yield _one(out.ToolCallDelta(index=call.index, custom=out.CalledTextDelta(input=text)))
        elif call.arguments:
            yield _one(out.ToolCallDelta(index=call.index, function=out.CalledDelta(arguments=call.arguments)))

    def _function_call(self, call: CallDelta) -> Iterator[out.ChatDelta]:
        """In the deprecated format, which allows one call."""
        is_new = call.index not in self._calls
        self._calls[call.index] = None
        if call.index != next(iter(self._calls)):
            return
        if is_new:
            yield out.ChatDelta(function_call=out.CalledDelta(name=call.name, arguments=""))
        if call.arguments:
            yield out.ChatDelta(function_call=out.CalledDelta(arguments=call.arguments))


def _called(call: ToolCall) -> out.Called:
    return out.Called(call.name, call.arguments)


def _one(call: out.ToolCallDelta) -> out.ChatDelta:
    return out.ChatDelta(tool_calls=[call])


Shape = ChatShape | TextShape
