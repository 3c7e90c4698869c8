"""AsyncLLM: a model in your own program, awaited. It owns a `Runtime` and no HTTP.

    async with AsyncLLM("model.gguf") as llm:
        print((await llm.chat([{"role": "user", "content": "Hello!"}])).text)

The model runs in a child process, as everywhere in localllm. Knows nothing about workers.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from msgspec.structs import replace

from localllm.documents.completing import with_texts
from localllm.documents.reading import DocumentLimits, DocumentReader
from localllm.errors import InvalidParameter, NotLoaded, RequestTimeout, WrongOwner
from localllm.llm import arguments, keywords
from localllm.llm.adapters import adapter_texts, named
from localllm.llm.arguments import Texts
from localllm.llm.ending import end_abandoned, until_cancelled
from localllm.llm.events import EventObserver, guarded
from localllm.llm.generating import Errors, Prompts, asker, check, in_order, window_of
from localllm.llm.keywords import (
    ChatArguments,
    CompleteArguments,
    EmbedArguments,
    LoadArguments,
    RerankArguments,
    TranscribeArguments,
)
from localllm.llm.messages import AnyMessage, Messages, to_conversation
from localllm.llm.parsed import AsyncParsedStream, ParsedChat
from localllm.llm.schemas import SchemaLike, SchemaShape, to_shape
from localllm.llm.scoring import Scoring
from localllm.llm.stream import AsyncStream
from localllm.llm.tools import Tools, toolbox
from localllm.llm.transcripts import transcribed
from localllm.llm.vectors import array_of
from localllm.runtime.runtime import Answer, Runtime
from localllm.types import Chat, GenerationRequest, LoadedModel
from localllm.types.conversation import Conversation
from localllm.types.transcripts import Transcript

if TYPE_CHECKING:  # imported on use: commands that embed nothing start faster
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")


class AsyncLLM(Scoring):
    """One model, awaited. `async with AsyncLLM(path) as llm:` loads it; so does `await llm.load()`.

    Bound to the event loop that loads it, on which `on_progress` and `on_event` are called. Dropping the last reference
    ends the model's process without waiting for it.

    Errors are those of `localllm.errors`: `ModelNotFound` and `LoadFailed` on load, `RequestError`s on requests.
    """

    @keywords.LOAD.spell_out
    def __init__(self, model: str | Path, **given: Unpack[LoadArguments]) -> None:
        asked = keywords.LOAD.filled("__init__", given)
        if not isinstance(model, str | os.PathLike):
            raise InvalidParameter(f"model must be a name or a path, got {type(model).__name__}", param="model")
        on_progress, self._on_event = asked["on_progress"], asked["on_event"]
        arguments.check_callback("on_progress", on_progress)
        arguments.check_callback("on_event", self._on_event)
        self._model = model
        self._settings = arguments.settings_from(asked["settings"], asked["home"])
        self._adapters = adapter_texts(asked["adapters"])
        self._name = ""
        """Of the model under its adapters, once it is loaded."""
        self._given = arguments.load_overrides(self._settings, asked)
        self._on_progress = None if on_progress is None else guarded("on_progress", on_progress)
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loading: asyncio.Lock | None = None
        self._num_closes = 0
        self._runtime: Runtime | None = None
        self._loaded: LoadedModel | None = None
        self._documents = DocumentReader(DocumentLimits.of(self._settings))
        self._finalizer: weakref.finalize[..., AsyncLLM] | None = None

    def __repr__(self) -> str:
        return self._described(type(self))

    def _described(self, kind: type) -> str:
        """The `repr` of an object of that class with this model."""
        loaded = self._loaded
        state = f"ctx={loaded.ctx}, slots={loaded.slots}" if loaded else "closed" if self._num_closes else "not loaded"
        return f"<{kind.__name__} {str(self._model)!r}, {state}>"

    @property
    def info(self) -> LoadedModel:
        """The loaded model as it is now: on which devices its layers are, what guesses for it."""
        if (loaded := self._loaded) is None:
            raise self._not_loaded()
        return next((model for model in self._loaded_runtime().loaded() if model.id == loaded.id), loaded)

    async def load(self) -> Self:
        """Load the model unless it is loaded; returns this object. Concurrent calls share one load."""
        self._check_owner()
        if self._loop is None or self._loading is None:
            self._loop, self._loading = asyncio.get_running_loop(), asyncio.Lock()
        num_closes = self._num_closes
        async with self._loading:
            if self._loaded is None:
                await self._load(num_closes)
        return self

    async def close(self) -> None:
        """Unload the model and end its process; running answers fail with `Draining`. Idempotent."""
        loading = self._loading
        if os.getpid() != self._pid:  # in a fork: the model belongs to the parent
            return
        if self._loop is None or loading is None:
            return
        self._documents.close()
        self._documents = DocumentReader(self._documents.limits)
        runtime, self._loaded = self._runtime, None
        self._num_closes += 1
        if self._loop.is_closed():  # nothing can be awaited there, but the process ends
            if runtime is not None:
                runtime.dismiss()
        else:
            self._check_owner()
            if runtime is not None:
                await runtime.aclose()
            async with loading:  # an abandoned load still has to clean up
                pass
        if self._loaded is None:  # unless it was loaded again meanwhile
            self._runtime = self._loop = self._loading = None
            if self._finalizer is not None:
                self._finalizer.detach()

    async def __aenter__(self) -> Self:
        return await self.load()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @overload
    async def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> Chat: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> AsyncStream: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> ParsedChat[T]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> AsyncParsedStream[T]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    async def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> AsyncParsedStream[Any]: ...

    @keywords.CHAT.spell_out
    async def chat(
        self, messages: Messages, *, schema: object = None, stream: bool = False, **given: Unpack[ChatArguments]
    ) -> Chat | AsyncStream:
        """Answer a conversation; with `stream`, as deltas, the last of which has `finish`.

        schema: the shape of the answer, whose value is `parsed`: a type (a Struct, dataclass, TypedDict, pydantic model
        ...), a JSON Schema (a dict or JSON text), or a `Structure`.
        """
        asked, shape = keywords.CHAT.filled("chat", given), to_shape(schema)
        return await self._ask(arguments.chat_request(messages, shape, asked), shape, asked, stream=stream)

    @overload
    async def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> Chat: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> AsyncStream: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> ParsedChat[T]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> AsyncParsedStream[T]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    async def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> AsyncParsedStream[Any]: ...

    @keywords.COMPLETE.spell_out
    async def complete(
        self, prompt: str, *, schema: object = None, stream: bool = False, **given: Unpack[CompleteArguments]
    ) -> Chat | AsyncStream:
        """Continue a text verbatim, without a chat template. Otherwise as `chat`."""
        asked, shape = keywords.COMPLETE.filled("complete", given), to_shape(schema)
        return await self._ask(arguments.completion_request(prompt, shape, asked), shape, asked, stream=stream)

    @overload
    def generate(
        self, prompts: Prompts, *, schema: None = None, errors: Literal["raise"] = "raise",
        concurrency: int | None = None, **given: Unpack[ChatArguments],
    ) -> AsyncGenerator[Chat, None]: ...  # fmt: skip

    @overload
    def generate(
        self, prompts: Prompts, *, schema: SchemaLike | type[T] | None = None, errors: Errors = "raise",
        concurrency: int | None = None, **given: Unpack[ChatArguments],
    ) -> AsyncGenerator[Any, None]: ...  # fmt: skip

    def generate(
        self, prompts: Prompts, *, schema: object = None, errors: Errors = "raise", concurrency: int | None = None,
        **given: Unpack[ChatArguments],
    ) -> AsyncGenerator[Any, None]:  # fmt: skip
        """Answer many prompts, of a list or any iterator, also an asynchronous one; the answers come in the same order.

        A text is continued verbatim, as by `complete`; a list of messages is answered, as by `chat`. A prompt is taken
        when there is room for it, so an endless iterator takes bounded memory. All are of the batch class, unless
        `batch` is False. Leaving the loop and closing it cancels what is under way.

        errors: `return` yields a prompt's `LocalLLMError` in its place, instead of raising it. concurrency: prompts
        that are taken before the first of them is read; by default four for each slot.
        """
        check(prompts, errors, concurrency)
        ask = asker(self._ask, schema, dict(given))
        return in_order(prompts, ask, window_of(self.info.slots, concurrency), errors)

    async def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text; starts with the model's BOS token unless `add_special` is off."""
        if not isinstance(text, str):
            raise InvalidParameter(f"text must be a string, got {type(text).__name__}", param="text")
        return await self._owned_runtime().tokenize(self.info.id, text, add_special=add_special)

    async def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of token ids; control tokens are included only if `special`. Invalid UTF-8 becomes U+FFFD."""
        pieces = await self._owned_runtime().pieces(
            self.info.id, arguments.to_tokens("tokens", tokens), special=special
        )
        return b"".join(pieces).decode("utf-8", "replace")

    async def count_tokens(
        self, prompt: str | Sequence[AnyMessage], *, tools: Tools | None = None, thinking: bool | None = None
    ) -> int:
        """Length of the prompt for a text or, through the chat template, a conversation: `usage.prompt_tokens`."""
        if isinstance(prompt, str):
            return len(await self.tokenize(prompt))
        rendering = arguments.rendering(thinking, toolbox(tools).definitions)
        runtime, conversation = self._owned_runtime(), to_conversation(prompt)
        read = await with_texts(self._documents, conversation.messages, conversation.files)
        whole = Conversation(read.messages, conversation.notes + read.notes, read.files)
        return (await runtime.count(self.info.id, whole, rendering)).tokens

    @keywords.EMBED.spell_out
    async def embed(self, texts: Texts, **given: Unpack[EmbedArguments]) -> npt.NDArray[np.float32]:
        """One vector per text, shape (texts, dimensions), float32; with pooling `none` one per token, in order."""
        asked = keywords.EMBED.filled("embed", given)
        request = arguments.embedding_request(texts, asked)
        return array_of(await self._in_time(asked["timeout"], self._owned_runtime().embed(self.info.id, request)))

    @keywords.RERANK.spell_out
    async def rerank(
        self, query: str, documents: Sequence[str], **given: Unpack[RerankArguments]
    ) -> list[tuple[int, float]]:
        """(index of the document, score), best match first. Scores are the model's own: higher is better, unbounded."""
        asked = keywords.RERANK.filled("rerank", given)
        request = arguments.rerank_request(query, documents, asked)
        most = arguments.to_top_n(asked["top_n"])
        ranking = await self._in_time(asked["timeout"], self._owned_runtime().rerank(self.info.id, request))
        return sorted(enumerate(ranking.scores), key=lambda scored: -scored[1])[:most]

    @keywords.TRANSCRIBE.spell_out
    async def transcribe(self, sound: str | Path | bytes, **given: Unpack[TranscribeArguments]) -> Transcript:
        """Write down what is said in a sound, a file's path or bytes, by a model that hears. Long ones are cut at
        silences, into segments that are answered on all slots; one whose text is incomplete has `cut_short`.
        """
        asked = keywords.TRANSCRIBE.filled("transcribe", given)
        work = transcribed(self._owned_runtime(), lambda: self.info, sound, asked)
        return await self._in_time(asked["timeout"], work)

    async def _load(self, num_closes: int) -> None:
        if num_closes != self._num_closes:
            raise self._not_loaded()
        runtime = self._runtime = Runtime(self._settings)
        self._finalizer = weakref.finalize(self, end_abandoned, runtime, asyncio.get_running_loop(), self._pid)
        self._finalizer.atexit = False  # workers end with their parent; `LLM` waits until they have saved their state
        if self._on_event is not None:
            runtime.observe(EventObserver(self._on_event))
        try:
            load = partial(runtime.load, given=self._given, on_progress=self._on_progress)
            loaded = await runtime.routes.first(self._model, load)
            name = await named(runtime.adapters, str(self._model), loaded, self._adapters)
            if num_closes != self._num_closes:
                raise self._not_loaded()
        except BaseException:
            await runtime.aclose()
            raise
        self._loaded, self._name = loaded, name

    async def _ask(
        self, request: GenerationRequest, shape: SchemaShape[Any] | None, asked: CompleteArguments, *, stream: bool
    ) -> Chat | AsyncStream:
        cancel = arguments.check_cancel(asked["cancel"])
        if not stream and cancel is None:  # `cancel` returns what there is
            request = replace(request, comes_whole=True)
        self._owned_runtime()
        adapters = None if asked["adapters"] is None else adapter_texts(asked["adapters"])
        submitting = self._in_time(request.timeout_s, self._submit(request, adapters))
        answers: list[Answer] | None = await (submitting if cancel is None else until_cancelled(cancel, submitting))
        first = answers[0] if answers else None
        answer = AsyncStream(self, first, cancel) if shape is None else AsyncParsedStream(self, first, cancel, shape)
        del answers, first  # this frame must not keep an answer alive that its reader has dropped
        if stream:
            return answer
        async with answer:
            return await answer.result()

    async def _whole(self, request: GenerationRequest) -> GenerationRequest:
        """With the texts of its documents."""
        if request.messages is None or not any(message.media for message in request.messages):
            return request
        read = await with_texts(self._documents, request.messages, request.media)
        notes = request.notes + read.notes
        return replace(request, messages=read.messages, media=read.files, notes=notes, documents=read.taken)

    async def _submit(self, request: GenerationRequest, adapters: Sequence[str] | None) -> list[Answer]:
        return await self._send(await self._whole(request), adapters)

    async def _send(self, request: GenerationRequest, adapters: Sequence[str] | None) -> list[Answer]:
        """`adapters`: in place of the model's."""
        runtime = self._owned_runtime()
        name = self._name if adapters is None else await named(runtime.adapters, self.info.id, self.info, adapters)
        return await runtime.submit_in_turn(name, request)

    async def _in_time(self, timeout_s: float | None, work: Coroutine[Any, Any, T]) -> T:
        """The worker's clock starts when the request arrives there; a restart of the model may come before that."""
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimeout(f"the request was not answered within {timeout_s:g} s", param="timeout") from None

    def _loaded_runtime(self) -> Runtime:
        if self._runtime is None or self._loaded is None:
            raise self._not_loaded()
        return self._runtime

    def _not_loaded(self) -> NotLoaded:
        if self._num_closes:
            return NotLoaded("the model was closed; make a new LLM, or call load() of an AsyncLLM again")
        return NotLoaded("the model is not loaded; use `async with`, or call load() first")

    def _owned_runtime(self) -> Runtime:
        """The runtime, for a caller on the right process and event loop."""
        self._check_owner()
        return self._loaded_runtime()

    def _check_owner(self) -> None:
        if os.getpid() != self._pid:
            raise WrongOwner("this AsyncLLM belongs to the process that made it; make one after the fork")
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise WrongOwner(
                "this AsyncLLM was loaded on another event loop; use it there, make one per loop, or use LLM, "
                "which any thread may call"
            )
