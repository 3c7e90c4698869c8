"""LLM: a model in your own program, for code that blocks: `AsyncLLM` on an event loop and a thread of its own.

    with LLM("model.gguf") as llm:
        print(llm.chat([{"role": "user", "content": "Hello!"}]).text)

Knows nothing of what `AsyncLLM` does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from localllm.cancel import Cancel
from localllm.llm.arguments import Asked, AskedChat, Texts
from localllm.llm.async_llm import AsyncLLM
from localllm.llm.loop_thread import LoopThread
from localllm.llm.messages import AnyMessage, Messages
from localllm.llm.parsed import AsyncParsedStream, ParsedChat, ParsedStream
from localllm.llm.schemas import SchemaLike
from localllm.llm.stream import AsyncStream, Stream
from localllm.llm.tools import Tools
from localllm.settings.config import Settings
from localllm.types import Chat, GpuLayers, LoadedModel, Pooling, SamplingParams
from localllm.types.load_options import LoadOptions
from localllm.types.states import ModelEvent

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")


class LLM:
    """One model, blocking. Safe to use from many threads; what they ask is computed together.

    The arguments and the errors are those of `AsyncLLM`; the model is loaded when the constructor returns. Ctrl-C ends
    the answer that is waited for, and frees its slot. Letting go of the object ends its process, as does the end of
    the interpreter.

    on_progress and on_event are called on the thread named `localllm`, which does this object's work: they must not
    block, and cannot call this object. What they raise is logged.
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
        # What runs there must not hold this object, or nobody could let go of it.
        weakref.finalize(self, self._thread.end).atexit = False
        try:
            self._thread.start()
            self._run(self._llm.load())
        except BaseException:
            self.close()
            raise

    @property
    def info(self) -> LoadedModel:
        """What was loaded, and where its layers are."""
        return self._llm.info

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> Chat: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[True], **rest: Unpack[AskedChat]
    ) -> Stream: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> ParsedChat[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[True], **rest: Unpack[AskedChat]
    ) -> ParsedStream[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> ParsedChat[Any]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[AskedChat]
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
        cancel: Cancel | None = None,
    ) -> Chat | Stream:
        """Answer a conversation; with `stream` its deltas as they come, of which the last has `finish`.

        schema: what the answer has to be; its `parsed` is the value. A type (a Struct, dataclass, TypedDict, a model of
        pydantic's ...), a JSON Schema (a dict, or JSON), or a `Structure`.
        tools: what the model may call: dicts as OpenAI has them, or Python functions with type hints. The answer's
        `calls` say what it asks for; nothing is called here. tool_choice: `auto`, `required`, `none` or a tool's name.
        thinking: whether the model shall think first, where its template has a switch; thinking_budget: the most tokens
        of that thought, which is the answer's `thought`.
        timeout: seconds; `RequestTimeout` where nothing is computed by then, else what there is, with the finish
        `timeout`. priority: lower ones wait less. cache_prompt: whether it may start from what was computed before.
        cancel: ends it from any thread; what there is comes with the finish `cancelled`.
        """
        rest: AskedChat = {
            "tools": tools, "tool_choice": tool_choice, "parallel_tool_calls": parallel_tool_calls,
            "thinking": thinking, "thinking_budget": thinking_budget, "params": params, "timeout": timeout,
            "priority": priority, "cache_prompt": cache_prompt, "cancel": cancel,
        }  # fmt: skip
        if stream:
            return self._stream(self._llm.chat(messages, schema=schema, stream=True, **rest))  # type: ignore[call-overload]
        whole: Chat = self._run(self._llm.chat(messages, schema=schema, **rest))  # type: ignore[call-overload]
        return whole

    @overload
    def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> Chat: ...

    @overload
    def complete(self, prompt: str, *, schema: None = None, stream: Literal[True], **rest: Unpack[Asked]) -> Stream: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> ParsedChat[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[True], **rest: Unpack[Asked]
    ) -> ParsedStream[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> ParsedChat[Any]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[Asked]
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
        cancel: Cancel | None = None,
    ) -> Chat | Stream:
        """Continue a text as it stands, without a chat template. Otherwise as `chat`."""
        rest: Asked = {
            "thinking_budget": thinking_budget, "params": params, "timeout": timeout, "priority": priority,
            "cache_prompt": cache_prompt, "cancel": cancel,
        }  # fmt: skip
        if stream:
            return self._stream(self._llm.complete(prompt, schema=schema, stream=True, **rest))  # type: ignore[call-overload]
        whole: Chat = self._run(self._llm.complete(prompt, schema=schema, **rest))  # type: ignore[call-overload]
        return whole

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text, with the model's BOS unless `add_special` is off."""
        return self._run(self._llm.tokenize(text, add_special=add_special))

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of token ids; that of control tokens only if `special`. What is no UTF-8 becomes U+FFFD."""
        return self._run(self._llm.detokenize(tokens, special=special))

    def count_tokens(
        self, prompt: str | Sequence[AnyMessage], *, tools: Tools | None = None, thinking: bool | None = None
    ) -> int:
        """Of the prompt that a text, or a conversation by the model's template, becomes: `usage.prompt_tokens`."""
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
        """One vector for each text, shape (texts, dimensions), float32; with pooling `none` one for each of their
        tokens. See `AsyncLLM.embed`.
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
        """(number of the document, score), the best answer to the query first. See `AsyncLLM.rerank`."""
        return self._run(
            self._llm.rerank(query, documents, top_n=top_n, truncate=truncate, timeout=timeout, priority=priority)
        )

    def close(self) -> None:
        """Free the model and end its process; running answers end with an error. Idempotent, from any thread."""
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
