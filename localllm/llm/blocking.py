"""LLM: a model in your own program, for blocking code: an `AsyncLLM` on an event loop in its own thread.

    with LLM("model.gguf") as llm:
        print(llm.chat([{"role": "user", "content": "Hello!"}]).text)

Only forwards; all behaviour is in `AsyncLLM`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from localllm.llm.arguments import AnswerArguments, ChatArguments, Texts
from localllm.llm.async_llm import AsyncLLM
from localllm.llm.loop_thread import LoopThread
from localllm.llm.messages import AnyMessage, Messages
from localllm.llm.parsed import AsyncParsedStream, ParsedChat, ParsedStream
from localllm.llm.schemas import SchemaLike
from localllm.llm.stream import AsyncStream, Stream
from localllm.llm.tools import Tools
from localllm.settings.config import Settings
from localllm.system.cancel import Cancel
from localllm.types import Chat, GpuLayers, LoadedModel, Pooling, SamplingParams, Speculative
from localllm.types.load_options import LoadOptions
from localllm.types.states import ModelEvent

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")


class LLM:
    """One model, blocking. Thread-safe; requests from several threads are batched.

    Arguments and errors are those of `AsyncLLM`; the model is loaded when the constructor returns. Ctrl-C cancels the
    answer being waited for and frees its slot. Dropping the last reference ends the model's process, as does the end
    of the interpreter.

    on_progress and on_event are called on this object's worker thread, named `localllm`: they must not block and
    cannot call this object. Exceptions they raise are logged.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        ctx: int | None = None,
        slots: int | None = None,
        gpu_layers: GpuLayers = "auto",
        threads: int | None = None,
        pooling: Pooling | None = None,
        embedding_ctx: int | None = None,
        draft: str | Path | None = None,
        options: LoadOptions | None = None,
        settings: Settings | None = None,
        home: str | Path | None = None,
        on_progress: Callable[[float], None] | None = None,
        on_event: Callable[[ModelEvent], None] | None = None,
    ) -> None:
        self._llm = AsyncLLM(
            model,
            ctx=ctx,
            slots=slots,
            gpu_layers=gpu_layers,
            threads=threads,
            pooling=pooling,
            embedding_ctx=embedding_ctx,
            draft=draft,
            options=options,
            settings=settings,
            home=home,
            on_progress=on_progress,
            on_event=on_event,
        )
        self._thread = LoopThread("localllm", last=self._llm.close)
        # The thread must not hold a reference to this object, or it would never be collected.
        weakref.finalize(self, self._thread.end).atexit = False
        try:
            self._thread.start()
            self._run(self._llm.load())
        except BaseException:
            self.close()
            raise

    @property
    def info(self) -> LoadedModel:
        """The loaded model, and on which devices its layers are."""
        return self._llm.info

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[ChatArguments]
    ) -> Chat: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[True], **rest: Unpack[ChatArguments]
    ) -> Stream: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[ChatArguments]
    ) -> ParsedChat[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[True], **rest: Unpack[ChatArguments]
    ) -> ParsedStream[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[ChatArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[ChatArguments]
    ) -> ParsedStream[Any]: ...

    def chat(
        self,
        messages: Messages,
        *,
        schema: object = None,
        stream: bool = False,
        tools: Tools | None = None,
        tool_choice: str = "auto",
        parallel_tool_calls: bool = True,
        thinking: bool | None = None,
        thinking_budget: int | None = None,
        params: SamplingParams | None = None,
        timeout: float | None = None,
        priority: int = 0,
        cache_prompt: bool = True,
        prediction: str | None = None,
        speculative: bool | Speculative | None = None,
        cancel: Cancel | None = None,
    ) -> Chat | Stream:
        """Answer a conversation; with `stream`, as deltas, the last of which has `finish`.

        schema: the shape of the answer, whose value is `parsed`: a type (a Struct, dataclass, TypedDict, pydantic model
        ...), a JSON Schema (a dict or JSON text), or a `Structure`.
        tools: what the model may call: dicts in OpenAI's format, or Python functions with type hints. Requested calls
        are in the answer's `calls`; none is executed here. tool_choice: `auto`, `required`, `none` or a tool's name.
        thinking: whether the model thinks first, if its template can switch; thinking_budget: token limit of `thought`.
        timeout: seconds; `RequestTimeout` if no token was computed by then, else the partial answer with the finish
        reason `timeout`. priority: lower values are served first. cache_prompt: whether cached prefixes may be reused.
        prediction: text that the answer probably repeats, for speed; speculative: `False` or limits of guessing.
        cancel: ends the answer from any thread; the partial answer has the finish reason `cancelled`.
        """
        rest: ChatArguments = {
            "tools": tools, "tool_choice": tool_choice, "parallel_tool_calls": parallel_tool_calls,
            "thinking": thinking, "thinking_budget": thinking_budget, "params": params, "timeout": timeout,
            "priority": priority, "cache_prompt": cache_prompt, "prediction": prediction, "speculative": speculative,
            "cancel": cancel,
        }  # fmt: skip
        if stream:
            return self._stream(self._llm.chat(messages, schema=schema, stream=True, **rest))  # type: ignore[call-overload]
        whole: Chat = self._run(self._llm.chat(messages, schema=schema, **rest))  # type: ignore[call-overload]
        return whole

    @overload
    def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[AnswerArguments]
    ) -> Chat: ...

    @overload
    def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[True], **rest: Unpack[AnswerArguments]
    ) -> Stream: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[AnswerArguments]
    ) -> ParsedChat[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[True], **rest: Unpack[AnswerArguments]
    ) -> ParsedStream[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[AnswerArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[AnswerArguments]
    ) -> ParsedStream[Any]: ...

    def complete(
        self,
        prompt: str,
        *,
        schema: object = None,
        stream: bool = False,
        thinking_budget: int | None = None,
        params: SamplingParams | None = None,
        timeout: float | None = None,
        priority: int = 0,
        cache_prompt: bool = True,
        prediction: str | None = None,
        speculative: bool | Speculative | None = None,
        cancel: Cancel | None = None,
    ) -> Chat | Stream:
        """Continue a text verbatim, without a chat template. Otherwise as `chat`."""
        rest: AnswerArguments = {
            "thinking_budget": thinking_budget, "params": params, "timeout": timeout, "priority": priority,
            "cache_prompt": cache_prompt, "prediction": prediction, "speculative": speculative, "cancel": cancel,
        }  # fmt: skip
        if stream:
            return self._stream(self._llm.complete(prompt, schema=schema, stream=True, **rest))  # type: ignore[call-overload]
        whole: Chat = self._run(self._llm.complete(prompt, schema=schema, **rest))  # type: ignore[call-overload]
        return whole

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text; starts with the model's BOS token unless `add_special` is off."""
        return self._run(self._llm.tokenize(text, add_special=add_special))

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of token ids; control tokens are included only if `special`. Invalid UTF-8 becomes U+FFFD."""
        return self._run(self._llm.detokenize(tokens, special=special))

    def count_tokens(
        self, prompt: str | Sequence[AnyMessage], *, tools: Tools | None = None, thinking: bool | None = None
    ) -> int:
        """Length of the prompt for a text or, through the chat template, a conversation: `usage.prompt_tokens`."""
        return self._run(self._llm.count_tokens(prompt, tools=tools, thinking=thinking))

    def embed(
        self,
        texts: Texts,
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> npt.NDArray[np.float32]:
        """One vector per text, shape (texts, dimensions), float32; with pooling `none` one per token.

        See `AsyncLLM.embed`.
        """
        return self._run(
            self._llm.embed(
                texts, dimensions=dimensions, normalize=normalize, truncate=truncate, timeout=timeout, priority=priority
            )
        )

    def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        truncate: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> list[tuple[int, float]]:
        """(index of the document, score), best match first. See `AsyncLLM.rerank`."""
        return self._run(
            self._llm.rerank(query, documents, top_n=top_n, truncate=truncate, timeout=timeout, priority=priority)
        )

    def close(self) -> None:
        """Unload the model and end its process; running answers fail with `Draining`. Idempotent, thread-safe."""
        self._thread.end()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(self, asking: Coroutine[Any, Any, AsyncStream]) -> Stream:
        stream = self._run(asking)
        return ParsedStream(self, stream) if isinstance(stream, AsyncParsedStream) else Stream(self, stream)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)
