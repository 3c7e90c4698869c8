"""LLM and AsyncLLM: a model in your own Python program. They own a `Runtime` and no HTTP.

    with LLM("model.gguf") as llm:
        print(llm.chat([{"role": "user", "content": "Hello!"}]).text)

The model itself lives in a process of its own, as everywhere in localllm. Knows nothing of what a worker is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import msgspec

from localllm import config
from localllm.embeddings import EmbeddingRequest, Embeddings, RerankRequest
from localllm.errors import InvalidParameter, ModelNotFound
from localllm.runtime import Answer, Runtime
from localllm.types import (
    Chat,
    Delta,
    GpuLayers,
    LoadedModel,
    LoadOptions,
    Message,
    Pooling,
    SamplingParams,
    TokenLogprob,
)  # fmt: skip

if TYPE_CHECKING:  # imported where it is used: commands that embed nothing start sooner
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
AnyMessage = Message | Mapping[str, str]
Texts = Sequence[str] | Sequence[Sequence[int]]
"""As text, or as token ids."""


class AsyncLLM:
    """One model, awaited. `async with AsyncLLM(path) as llm:` loads it; so does `await llm.load()`.

    ctx: tokens each slot holds. slots: requests computed together. gpu_layers: a number, "all" or "auto". pooling: how
    embeddings are made, where not as the model says. embedding_ctx: tokens of the longest text to embed. options:
    whatever else `LoadOptions` has; the arguments beside it win.
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
        options: LoadOptions | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self._model = model
        given = {
            "ctx": ctx,
            "slots": slots,
            "gpu_layers": gpu_layers,
            "threads": threads,
            "pooling": pooling,
            "embedding_ctx": embedding_ctx,
        }
        changed = {name: value for name, value in given.items() if value not in (None, "auto")}
        self._options: LoadOptions = msgspec.structs.replace(options or LoadOptions(), **changed)
        self._on_progress = on_progress
        self._runtime: Runtime | None = None
        self._loaded: LoadedModel | None = None

    @property
    def info(self) -> LoadedModel:
        """What was loaded, and where its layers are."""
        if self._loaded is None:
            raise ModelNotFound("the model is not loaded; use `async with`, or call load() first")
        return self._loaded

    async def load(self) -> Self:
        """Load the model unless it is loaded; returns this object."""
        if self._loaded is None:
            runtime = Runtime(config.load())
            self._loaded = await runtime.load(self._model, self._options, on_progress=self._on_progress)
            self._runtime = runtime
        return self

    async def close(self) -> None:
        """Free the model and end its process. Idempotent."""
        runtime, self._runtime, self._loaded = self._runtime, None, None
        if runtime is not None:
            await runtime.aclose()

    async def __aenter__(self) -> Self:
        return await self.load()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @overload
    async def chat(
        self, messages: Sequence[AnyMessage], *, stream: Literal[False] = False, params: SamplingParams | None = None
    ) -> Chat: ...

    @overload
    async def chat(
        self, messages: Sequence[AnyMessage], *, stream: Literal[True], params: SamplingParams | None = None
    ) -> Answer: ...

    async def chat(
        self, messages: Sequence[AnyMessage], *, stream: bool = False, params: SamplingParams | None = None
    ) -> Chat | Answer:
        """Answer a conversation; with `stream` its deltas as they come, of which the last has `finish`."""
        turns = [_message(message) for message in messages]
        answer = await self._live().chat(self.info.id, turns, params or SamplingParams())
        return answer if stream else await _whole(answer)

    @overload
    async def complete(
        self, prompt: str, *, stream: Literal[False] = False, params: SamplingParams | None = None
    ) -> Chat: ...

    @overload
    async def complete(self, prompt: str, *, stream: Literal[True], params: SamplingParams | None = None) -> Answer: ...

    async def complete(
        self, prompt: str, *, stream: bool = False, params: SamplingParams | None = None
    ) -> Chat | Answer:
        """Continue a text as it stands, without a chat template."""
        answer = await self._live().complete(self.info.id, prompt, params or SamplingParams())
        return answer if stream else await _whole(answer)

    async def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text, with the model's BOS unless `add_special` is off."""
        return await self._live().tokenize(self.info.id, text, add_special=add_special)

    async def embed(
        self, texts: Texts, *, dimensions: int | None = None, normalize: bool = True, truncate: bool = False
    ) -> npt.NDArray[np.float32]:
        """One vector for each text, shape (texts, dimensions), float32; with pooling `none` one for each of their
        tokens, those of the first text first.

        `dimensions`: only so many numbers of each, the first, for models that are trained for that; `normalize` makes
        what is left of length 1. A text that is too long is refused, or with `truncate` cut at its end.
        """
        if isinstance(texts, str):
            raise InvalidParameter("give a list of texts, not one text", param="input")
        are_texts = all(isinstance(text, str) for text in texts)
        request = EmbeddingRequest(
            texts=tuple(str(text) for text in texts) if are_texts else None,
            tokens=None if are_texts else tuple(tuple(text) for text in texts if not isinstance(text, str)),
            dimensions=dimensions,
            normalize=normalize,
            truncate=truncate,
        )
        if request.tokens is not None and len(request.tokens) < len(texts):
            raise InvalidParameter("give texts or token arrays, not both in one list", param="input")
        return _array(await self._live().embed(self.info.id, request))

    async def rerank(
        self, query: str, documents: Sequence[str], *, top_n: int | None = None, truncate: bool = False
    ) -> list[tuple[int, float]]:
        """(number of the document, score), the best answer to the query first; the `top_n` best, or all.

        Scores are the model's own: higher is better, any number. Documents that are too long are refused, or with
        `truncate` cut at their end.
        """
        request = RerankRequest(query=query, documents=tuple(documents), truncate=truncate)
        ranking = await self._live().rerank(self.info.id, request)
        return sorted(enumerate(ranking.scores), key=lambda scored: -scored[1])[:top_n]

    def _live(self) -> Runtime:
        if self._runtime is None:
            raise ModelNotFound("the model is not loaded; use `async with`, or call load() first")
        return self._runtime


class LLM:
    """One model, blocking: `AsyncLLM` on an event loop and a thread of its own. Safe to use from many threads.

    The arguments and the errors are those of `AsyncLLM`; the model is loaded when the constructor returns.
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
        options: LoadOptions | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self._llm = AsyncLLM(
            model,
            ctx=ctx,
            slots=slots,
            gpu_layers=gpu_layers,
            threads=threads,
            pooling=pooling,
            embedding_ctx=embedding_ctx,
            options=options,
            on_progress=on_progress,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="localllm", daemon=True)
        self._thread.start()
        try:
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
        self, messages: Sequence[AnyMessage], *, stream: Literal[False] = False, params: SamplingParams | None = None
    ) -> Chat: ...

    @overload
    def chat(
        self, messages: Sequence[AnyMessage], *, stream: Literal[True], params: SamplingParams | None = None
    ) -> Iterator[Delta]: ...

    def chat(
        self, messages: Sequence[AnyMessage], *, stream: bool = False, params: SamplingParams | None = None
    ) -> Chat | Iterator[Delta]:
        """Answer a conversation; with `stream` its deltas as they come, of which the last has `finish`."""
        if stream:
            return self._iterate(self._run(self._llm.chat(messages, stream=True, params=params)))
        return self._run(self._llm.chat(messages, params=params))

    @overload
    def complete(
        self, prompt: str, *, stream: Literal[False] = False, params: SamplingParams | None = None
    ) -> Chat: ...

    @overload
    def complete(
        self, prompt: str, *, stream: Literal[True], params: SamplingParams | None = None
    ) -> Iterator[Delta]: ...

    def complete(
        self, prompt: str, *, stream: bool = False, params: SamplingParams | None = None
    ) -> Chat | Iterator[Delta]:
        """Continue a text as it stands, without a chat template."""
        if stream:
            return self._iterate(self._run(self._llm.complete(prompt, stream=True, params=params)))
        return self._run(self._llm.complete(prompt, params=params))

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text, with the model's BOS unless `add_special` is off."""
        return self._run(self._llm.tokenize(text, add_special=add_special))

    def embed(
        self, texts: Texts, *, dimensions: int | None = None, normalize: bool = True, truncate: bool = False
    ) -> npt.NDArray[np.float32]:
        """One vector for each text, shape (texts, dimensions), float32; with pooling `none` one for each of their
        tokens. See `AsyncLLM.embed`.
        """
        return self._run(self._llm.embed(texts, dimensions=dimensions, normalize=normalize, truncate=truncate))

    def rerank(
        self, query: str, documents: Sequence[str], *, top_n: int | None = None, truncate: bool = False
    ) -> list[tuple[int, float]]:
        """(number of the document, score), the best answer to the query first. See `AsyncLLM.rerank`."""
        return self._run(self._llm.rerank(query, documents, top_n=top_n, truncate=truncate))

    def close(self) -> None:
        """Free the model and end its process. Idempotent."""
        if self._loop.is_closed():
            return
        self._run(self._llm.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise ModelNotFound("this LLM is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _iterate(self, answer: Answer) -> Iterator[Delta]:
        """Leaving the loop early cancels the answer."""

        async def following() -> Delta | None:
            return await anext(answer, None)

        try:
            while (delta := self._run(following())) is not None:
                yield delta
        finally:
            if not self._loop.is_closed():
                self._run(answer.aclose())


def _array(embeddings: Embeddings) -> npt.NDArray[np.float32]:
    import numpy as np

    return np.frombuffer(embeddings.data, "<f4").reshape(-1, embeddings.dimensions).astype(np.float32)


def _message(message: AnyMessage) -> Message:
    if isinstance(message, Message):
        return message
    if not {"role", "content"} <= message.keys() or not isinstance(message["content"], str):
        raise InvalidParameter("each message needs the strings role and content", param="messages")
    return Message(message["role"], message["content"])


async def _whole(answer: Answer) -> Chat:
    parts: list[str] = []
    logprobs: list[TokenLogprob] = []
    prompt_logprobs: list[TokenLogprob] = []
    async with answer:
        async for delta in answer:
            parts.append(delta.text)
            logprobs += delta.logprobs
            prompt_logprobs += delta.prompt_logprobs
            if delta.finish is not None:
                return Chat("".join(parts), delta.finish, tuple(logprobs), tuple(prompt_logprobs))
    raise AssertionError("an answer ends with a finish or an error")
