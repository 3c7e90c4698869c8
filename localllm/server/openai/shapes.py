"""What differs between the answers of a chat and of a plain completion, as OpenAI spells them out.

Deltas and whole answers in, choices out. Knows nothing of streams and of HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from localllm.server.common.choices import Whole
from localllm.server.common.customs import InputReader, input_of
from localllm.server.common.logprobs import ChatLogprobs, TextLogprobs, chat_logprobs, text_logprobs
from localllm.server.common.remarks import finish_reason
from localllm.server.common.tool_choice import Tooling
from localllm.server.openai import replies as out
from localllm.types import CallDelta, Delta, Finish, TokenLogprob, ToolCall


class TextShape(NamedTuple):
    """Of a plain completion."""

    id_prefix: str = "cmpl-"
    whole_object: str = "text_completion"
    chunk_object: str = "text_completion"

    def logprobs(self, items: Sequence[TokenLogprob], offset: int) -> TextLogprobs:
        """Of tokens that begin so many characters into the answer."""
        return text_logprobs(items, offset)

    def whole(self, index: int, whole: Whole, logprobs: Any) -> out.TextChoice:
        """`logprobs` is what the method of that name gives, or None."""
        reason = finish_reason(whole.finish)
        return out.TextChoice(index, whole.text, reason, logprobs, reasoning_content=whole.thought or UNSET)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the request."""
        return ()

    def warnings(self, whole: Whole) -> list[str]:
        """What there is to say of an answer."""
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
        """Before anything is known of the answer."""
        return None

    def nothing(self) -> out.TextChoice:
        """Beside something else that there is to say."""
        return out.TextChoice(self._index, "")

    def chunks(self, delta: Delta, logprobs: Any) -> Iterator[out.TextChoice]:
        """Of what is new; none where nothing is."""
        self._notes += delta.notes
        if delta.text or delta.thought or logprobs is not None:
            thought = delta.thought or UNSET
            yield out.TextChoice(self._index, delta.text, logprobs=logprobs, reasoning_content=thought)

    def last(self, finish: Finish) -> out.TextChoice:
        """At the answer's end."""
        return out.TextChoice(self._index, "", finish_reason(finish))

    def warnings(self, finish: Finish) -> list[str]:  # noqa: ARG002
        """What there is to say of it, then."""
        return self._notes


class ChatShape(NamedTuple):
    """Of a chat."""

    tooling: Tooling = Tooling()
    begins_with: str | None = ""
    """The text of a stream's first chunk, where no calls may come; with None there is a null in any case."""
    id_prefix: str = "chatcmpl-"
    whole_object: str = "chat.completion"
    chunk_object: str = "chat.completion.chunk"

    def logprobs(self, items: Sequence[TokenLogprob], offset: int) -> ChatLogprobs:
        """Of tokens that begin so many characters into the answer."""
        return chat_logprobs(items, offset)

    def whole(self, index: int, whole: Whole, logprobs: Any) -> out.ChatChoice:
        """`logprobs` is what the method of that name gives, or None."""
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
        """What there is to say of the request."""
        return self.tooling.notes

    def warnings(self, whole: Whole) -> list[str]:
        """What there is to say of an answer: no text is empty without a reason."""
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
        """As OpenAI's answers end: a call of the function that a request named is no news."""
        reason = finish_reason(finish)
        if reason != "stop" or not has_calls or self.tooling.is_named:
            return reason
        return "function_call" if self.tooling.is_legacy else "tool_calls"

    def remarks(
        self, finish: Finish, notes: Sequence[str], *, has_text: bool, has_thought: bool, num_calls: int
    ) -> list[str]:
        """All warnings of an answer."""
        told = [*notes]
        if self.tooling.is_legacy and num_calls > 1:
            told.append(f"the answer has {num_calls} calls, and function_call holds the first; send tools for all")
        if not (has_text or num_calls or notes) and finish.reason == "stop":
            told.append(
                f"the answer has no text: the model ended it {'behind its thought' if has_thought else 'at once'}"
            )
        return told

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
        """Those that have begun; with a reader of its text where a call has one."""

    def first(self) -> out.ChatChunkChoice | None:
        """Before anything is known of the answer: where calls may come, not even that it has a text."""
        calling = self._shape.tooling.calling
        has_text = calling is None or calling.choice == "none"
        text = self._shape.begins_with if has_text or self._shape.begins_with is None else UNSET
        return out.ChatChunkChoice(self._index, out.ChatDelta(role="assistant", content=text))

    def nothing(self) -> out.ChatChunkChoice:
        """Beside something else that there is to say."""
        return out.ChatChunkChoice(self._index, out.ChatDelta())

    def chunks(self, delta: Delta, logprobs: Any) -> Iterator[out.ChatChunkChoice]:
        """Of what is new; none where nothing is. The log-probabilities are with the first."""
        self._notes += delta.notes
        self._has_text |= bool(delta.text)
        self._has_thought |= bool(delta.thought)
        for told in self._deltas(delta):
            yield out.ChatChunkChoice(self._index, told, logprobs=logprobs)
            logprobs = None
        if logprobs is not None:  # of tokens whose text is still to come
            told = out.ChatDelta(content=UNSET if self._calls else "")
            yield out.ChatChunkChoice(self._index, told, logprobs=logprobs)

    def last(self, finish: Finish) -> out.ChatChunkChoice:
        """At the answer's end."""
        reason = self._shape.ended(finish, has_calls=bool(self._calls))
        return out.ChatChunkChoice(self._index, out.ChatDelta(), reason)

    def warnings(self, finish: Finish) -> list[str]:
        """What there is to say of it, then."""
        return self._shape.remarks(
            finish,
            self._notes,
            has_text=self._has_text,
            has_thought=self._has_thought,
            num_calls=len(self._calls),
        )

    def _deltas(self, delta: Delta) -> Iterator[out.ChatDelta]:
        if delta.thought:  # alone: of a chunk with a text, Continue drops the thought and Cline turns the two round
            yield out.ChatDelta(reasoning_content=delta.thought, reasoning=delta.thought)
        if delta.text:
            yield out.ChatDelta(content=delta.text)
        for call in delta.calls:
            yield from self._function_call(call) if self._shape.tooling.is_legacy else self._tool_call(call)

    def _tool_call(self, call: CallDelta) -> Iterator[out.ChatDelta]:
        """Its head alone, then its arguments."""
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
        """In the words of before there were tools, which know one call."""
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
