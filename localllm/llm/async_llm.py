"""AsyncLLM: a model in your own program, awaited. It owns a `Runtime` and no HTTP.

    async with AsyncLLM("model.gguf") as llm:
        print((await llm.chat([{"role": "user", "content": "Hello!"}])).text)

The model itself lives in a process of its own, as everywhere in localllm. Knows nothing of what a worker is.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from localllm.cancel import Cancel
from localllm.errors import InvalidParameter, ModelNotFound, RequestTimeout, WrongOwner
from localllm.llm import arguments as given
from localllm.llm.arguments import Asked, AskedChat, Texts
from localllm.llm.events import EventObserver, guarded
from localllm.llm.letting_go import let_go, until
from localllm.llm.messages import AnyMessage, Messages, to_messages
from localllm.llm.parsed import AsyncParsedStream, ParsedChat
from localllm.llm.schemas import SchemaLike, Shape, to_shape
from localllm.llm.stream import AsyncStream
from localllm.llm.tools import Tools, toolbox
from localllm.runtime.runtime import Answer, Runtime
from localllm.settings.config import Settings
from localllm.types import Chat, GenerationRequest, GpuLayers, LoadedModel, Pooling, SamplingParams
from localllm.types.embeddings import Embeddings
from localllm.types.load_options import LoadOptions
from localllm.types.states import ModelEvent

if TYPE_CHECKING:  # imported where it is used: commands that embed nothing start sooner
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")


class AsyncLLM:
    """One model, awaited. `async with AsyncLLM(path) as llm:` loads it; so does `await llm.load()`.

    It belongs to the event loop that loads it. Letting go of it ends its process, without waiting for that.

    ctx: tokens each slot holds. slots: requests computed together. gpu_layers: a number, "all" or "auto". pooling: how
    embeddings are made, where not as the model says. embedding_ctx: tokens of the longest text to embed. draft: a
    smaller model with the same vocabulary that guesses what comes, or "auto". options: whatever else `LoadOptions` has;
    None: as the settings say. The arguments beside it win.
    settings: nothing else is read, neither environment nor files. home: the folder of all data, and of the only
    config.toml that is read; the environment is not. With neither, this user's configuration counts.
    on_progress, on_event: called on the event loop with the fraction that is loaded, and with every `ModelEvent`; they
    must not block. What they raise is logged.
    Errors are those of `localllm.errors`: `ModelNotFound`, `LoadFailed` when loading, `RequestError`s when asking.
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
        if not isinstance(model, str | os.PathLike):
            raise InvalidParameter(f"model must be a name or a path, got {type(model).__name__}", param="model")
        given.check_callback("on_progress", on_progress)
        given.check_callback("on_event", on_event)
        self._model = model
        self._settings = given.settings_from(settings, home)
        self._options, self._given = given.load_options(
            options, self._settings, ctx=ctx, slots=slots, gpu_layers=gpu_layers, threads=threads, pooling=pooling,
            embedding_ctx=embedding_ctx, draft=draft,
        )  # fmt: skip
        self._on_progress = None if on_progress is None else guarded("on_progress", on_progress)
        self._on_event = on_event
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading: asyncio.Lock | None = None
        self._num_closes = 0
        self._runtime: Runtime | None = None
        self._loaded: LoadedModel | None = None
        self._finalizer: weakref.finalize[..., AsyncLLM] | None = None

    @property
    def info(self) -> LoadedModel:
        """What was loaded, and where its layers are."""
        if self._loaded is None:
            raise _not_loaded()
        return self._loaded

    async def load(self) -> Self:
        """Load the model unless it is loaded; returns this object. Several calls share one load."""
        self._check_owner()
        if self._loop is None or self._loading is None:
            self._loop, self._loading = asyncio.get_running_loop(), asyncio.Lock()
        num_closes = self._num_closes
        async with self._loading:
            if self._loaded is None:
                await self._load(num_closes)
        return self

    async def close(self) -> None:
        """Free the model and end its process; running answers end with `Draining`. Idempotent."""
        loading = self._loading
        if self._loop is None or loading is None or os.getpid() != self._pid:  # a fork has nothing to end
            return
        runtime, self._loaded = self._runtime, None
        self._num_closes += 1
        if self._loop.is_closed():  # nobody can wait there; it ends all the same
            if runtime is not None:
                runtime.dismiss()
        else:
            self._check_owner()
            if runtime is not None:
                await runtime.aclose()
            async with loading:  # a load that is given up has something to clean up
                pass
        if self._loaded is None:  # nobody has loaded it again meanwhile
            self._runtime = self._loop = self._loading = None
            if self._finalizer is not None:
                self._finalizer.detach()

    async def __aenter__(self) -> Self:
        return await self.load()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @overload
    async def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> Chat: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[True], **rest: Unpack[AskedChat]
    ) -> AsyncStream: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> ParsedChat[T]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[True], **rest: Unpack[AskedChat]
    ) -> AsyncParsedStream[T]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[AskedChat]
    ) -> ParsedChat[Any]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[AskedChat]
    ) -> AsyncParsedStream[Any]: ...

    async def chat(
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
        timeout: float | None = None,  # noqa: ASYNC109  the worker keeps it, too
        priority: int = 0,
        cache_prompt: bool = True,
        cancel: Cancel | None = None,
    ) -> Chat | AsyncStream:
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
        shape = to_shape(schema)
        request = given.chat_request(
            messages, shape, tools=tools, tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls,
            thinking=thinking, thinking_budget=thinking_budget, params=params, timeout=timeout, priority=priority,
            cache_prompt=cache_prompt,
        )  # fmt: skip
        return await self._ask(request, shape, given.check_cancel(cancel), stream=stream)

    @overload
    async def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> Chat: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[True], **rest: Unpack[Asked]
    ) -> AsyncStream: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> ParsedChat[T]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[True], **rest: Unpack[Asked]
    ) -> AsyncParsedStream[T]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[False] = False, **rest: Unpack[Asked]
    ) -> ParsedChat[Any]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[True], **rest: Unpack[Asked]
    ) -> AsyncParsedStream[Any]: ...

    async def complete(
        self,
        prompt: str,
        *,
        schema: object = None,
        stream: bool = False,
        thinking_budget: int | None = None,
        params: SamplingParams | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        priority: int = 0,
        cache_prompt: bool = True,
        cancel: Cancel | None = None,
    ) -> Chat | AsyncStream:
        """Continue a text as it stands, without a chat template. Otherwise as `chat`."""
        shape = to_shape(schema)
        request = given.completion_request(
            prompt, shape, thinking_budget=thinking_budget, params=params, timeout=timeout,
            priority=priority, cache_prompt=cache_prompt,
        )  # fmt: skip
        return await self._ask(request, shape, given.check_cancel(cancel), stream=stream)

    async def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text, with the model's BOS unless `add_special` is off."""
        if not isinstance(text, str):
            raise InvalidParameter(f"text must be a text, got {type(text).__name__}", param="text")
        return await self._here().tokenize(self.info.id, text, add_special=add_special)

    async def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of token ids; that of control tokens only if `special`. What is no UTF-8 becomes U+FFFD."""
        pieces = await self._here().pieces(self.info.id, given.to_tokens("tokens", tokens), special=special)
        return b"".join(pieces).decode("utf-8", "replace")

    async def count_tokens(
        self, prompt: str | Sequence[AnyMessage], *, tools: Tools | None = None, thinking: bool | None = None
    ) -> int:
        """Of the prompt that a text, or a conversation by the model's template, becomes: `usage.prompt_tokens`."""
        if isinstance(prompt, str):
            return len(await self.tokenize(prompt))
        rendering = given.rendering(thinking, toolbox(tools).shown)
        text = await self._here().render(self.info.id, to_messages(prompt), rendering)
        return len(await self.tokenize(text))

    async def embed(
        self,
        texts: Texts,
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        priority: int = 0,
    ) -> npt.NDArray[np.float32]:
        """One vector for each text, shape (texts, dimensions), float32; with pooling `none` one for each of their
        tokens, those of the first text first.

        `dimensions`: only so many numbers of each, the first, for models that are trained for that; `normalize` makes
        what is left of length 1. A text that is too long is refused, or with `truncate` cut at its end.
        """
        request = given.embedding_request(
            texts, dimensions=dimensions, normalize=normalize, truncate=truncate, timeout=timeout, priority=priority
        )
        return _array(await self._in_time(timeout, self._here().embed(self.info.id, request)))

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_n: int | None = None,
        truncate: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        priority: int = 0,
    ) -> list[tuple[int, float]]:
        """(number of the document, score), the best answer to the query first; the `top_n` best, or all.

        Scores are the model's own: higher is better, any number. Documents that are too long are refused, or with
        `truncate` cut at their end.
        """
        request = given.rerank_request(query, documents, truncate=truncate, timeout=timeout, priority=priority)
        most = given.to_top_n(top_n)
        ranking = await self._in_time(timeout, self._here().rerank(self.info.id, request))
        return sorted(enumerate(ranking.scores), key=lambda scored: -scored[1])[:most]

    async def _load(self, num_closes: int) -> None:
        if num_closes != self._num_closes:
            raise _closed_meanwhile()
        runtime = self._runtime = Runtime(self._settings)
        self._finalizer = weakref.finalize(self, let_go, runtime, asyncio.get_running_loop(), self._pid)
        self._finalizer.atexit = False  # workers end with their parent; `LLM` waits for what they save
        if self._on_event is not None:
            runtime.observe(EventObserver(self._on_event))
        try:
            loaded = await runtime.load(self._model, self._options, given=self._given, on_progress=self._on_progress)
            if num_closes != self._num_closes:
                raise _closed_meanwhile()
        except BaseException:
            await runtime.aclose()
            raise
        self._loaded = loaded

    async def _ask(
        self, request: GenerationRequest, shape: Shape[Any] | None, cancel: Cancel | None, *, stream: bool
    ) -> Chat | AsyncStream:
        submitting = self._in_time(request.timeout_s, self._here().submit(self.info.id, [request]))
        answers: list[Answer] | None = await (submitting if cancel is None else until(cancel, submitting))
        first = answers[0] if answers else None
        answer = AsyncStream(self, first, cancel) if shape is None else AsyncParsedStream(self, first, cancel, shape)
        del answers, first  # or this frame would keep an answer alive that its reader has dropped
        if stream:
            return answer
        async with answer:
            return await answer.result()

    async def _in_time(self, timeout_s: float | None, work: Coroutine[Any, Any, T]) -> T:
        """The worker counts from when it has the request; before that the model may have to be started again."""
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimeout(f"the request was not answered within {timeout_s:g} s", param="timeout") from None

    def _live(self) -> Runtime:
        if self._runtime is None or self._loaded is None:
            raise _not_loaded()
        return self._runtime

    def _here(self) -> Runtime:
        """Of a caller that may use it."""
        self._check_owner()
        return self._live()

    def _check_owner(self) -> None:
        if os.getpid() != self._pid:
            raise WrongOwner("this AsyncLLM belongs to the process that made it; make one after the fork")
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise WrongOwner(
                "this AsyncLLM was loaded on another event loop; use it there, make one for each loop, or use LLM, "
                "which any thread may call"
            )


def _closed_meanwhile() -> ModelNotFound:
    return ModelNotFound("this AsyncLLM was closed while it loaded")


def _not_loaded() -> ModelNotFound:
    return ModelNotFound("the model is not loaded; use `async with`, or call load() first")


def _array(embeddings: Embeddings) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.frombuffer(embeddings.data, "<f4").reshape(-1, embeddings.dimensions).astype(np.float32)
