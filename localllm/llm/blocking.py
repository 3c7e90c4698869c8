"""LLM: a model in your own program, for blocking code: an `AsyncLLM` on an event loop in its own thread.

    with LLM("model.gguf") as llm:
        print(llm.chat([{"role": "user", "content": "Hello!"}]).text)

Only forwards; arguments, their checks and all behaviour are those of `AsyncLLM`.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from localllm.llm.async_llm import AsyncLLM
from localllm.llm.conversations import Conversation, opening
from localllm.llm.generating import Errors, Prompt, asker, check, in_order_blocking, window_of
from localllm.llm.keywords import LOAD, ChatArguments, CompleteArguments, LoadArguments
from localllm.llm.loop_thread import LoopThread
from localllm.llm.messages import AnyMessage, Messages
from localllm.llm.parsed import AsyncParsedStream, ParsedChat, ParsedStream
from localllm.llm.schemas import SchemaLike
from localllm.llm.stream import AsyncStream, Stream
from localllm.types import Chat, LoadedModel

F = TypeVar("F", bound=Callable[..., object])
P = ParamSpec("P")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[AsyncLLM, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[LLM, P], T]:
    """The method of `LLM` that waits for this one of `AsyncLLM`."""

    @functools.wraps(method)
    def call(self: LLM, /, *args: P.args, **given: P.kwargs) -> T:
        return self._run(method(self._llm, *args, **given))

    call.__qualname__ = call.__qualname__.removeprefix("Async")
    return call


def _told_as(method: Callable[..., object]) -> Callable[[F], F]:
    """A decorator: `help` has the parameters and the text of this method of `AsyncLLM`; editors read the source."""

    def tell(function: F) -> F:
        returns = inspect.signature(function).return_annotation
        told: Any = function
        told.__doc__ = method.__doc__
        told.__signature__ = inspect.signature(method).replace(return_annotation=returns)
        return function

    return tell


class LLM:
    """One model, blocking. Thread-safe; requests from several threads are batched.

    Arguments and errors are those of `AsyncLLM`; the model is loaded when the constructor returns. Ctrl-C cancels the
    answer being waited for and frees its slot. Dropping the last reference ends the model's process, as does the end
    of the interpreter.

    on_progress and on_event are called on this object's worker thread, named `localllm`: they must not block and
    cannot call this object. Exceptions they raise are logged.
    """

    @LOAD.spell_out
    def __init__(self, model: str | Path, **given: Unpack[LoadArguments]) -> None:
        self._llm = AsyncLLM(model, **given)
        self._thread = LoopThread("localllm", last=self._llm.close)
        # The thread must not hold a reference to this object, or it would never be collected.
        weakref.finalize(self, self._thread.end).atexit = False
        try:
            self._thread.start()
            self._run(self._llm.load())
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return self._llm._described(type(self))

    @property
    def info(self) -> LoadedModel:
        """The loaded model as it is now: on which devices its layers are, what guesses for it."""
        return self._llm.info

    tokenize = _blocking(AsyncLLM.tokenize)
    detokenize = _blocking(AsyncLLM.detokenize)
    count_tokens = _blocking(AsyncLLM.count_tokens)
    embed = _blocking(AsyncLLM.embed)
    rerank = _blocking(AsyncLLM.rerank)
    score = _blocking(AsyncLLM.score)
    select = _blocking(AsyncLLM.select)
    transcribe = _blocking(AsyncLLM.transcribe)

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> Chat: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: None = None, stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> Stream: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> ParsedChat[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: type[T], stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> ParsedStream[T]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[False] = False, **given: Unpack[ChatArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    def chat(
        self, messages: Messages, *, schema: SchemaLike, stream: Literal[True], **given: Unpack[ChatArguments]
    ) -> ParsedStream[Any]: ...

    @_told_as(AsyncLLM.chat)
    def chat(self, *args: Any, **given: Any) -> Chat | Stream:
        """Answer a conversation; with `stream`, as deltas, the last of which has `finish`. See `AsyncLLM.chat`."""
        return self._answer(self._llm.chat(*args, **given))

    @overload
    def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> Chat: ...

    @overload
    def complete(
        self, prompt: str, *, schema: None = None, stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> Stream: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> ParsedChat[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: type[T], stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> ParsedStream[T]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[False] = False, **given: Unpack[CompleteArguments]
    ) -> ParsedChat[Any]: ...

    @overload
    def complete(
        self, prompt: str, *, schema: SchemaLike, stream: Literal[True], **given: Unpack[CompleteArguments]
    ) -> ParsedStream[Any]: ...

    @_told_as(AsyncLLM.complete)
    def complete(self, *args: Any, **given: Any) -> Chat | Stream:
        """Continue a text verbatim, without a chat template. Otherwise as `chat`."""
        return self._answer(self._llm.complete(*args, **given))

    @overload
    def generate(
        self, prompts: Iterable[Prompt], *, schema: None = None, errors: Literal["raise"] = "raise",
        concurrency: int | None = None, **given: Unpack[ChatArguments],
    ) -> Generator[Chat, None, None]: ...  # fmt: skip

    @overload
    def generate(
        self, prompts: Iterable[Prompt], *, schema: SchemaLike | type[T] | None = None, errors: Errors = "raise",
        concurrency: int | None = None, **given: Unpack[ChatArguments],
    ) -> Generator[Any, None, None]: ...  # fmt: skip

    @_told_as(AsyncLLM.generate)
    def generate(
        self, prompts: Iterable[Prompt], *, schema: object = None, errors: Errors = "raise",
        concurrency: int | None = None, **given: Unpack[ChatArguments],
    ) -> Generator[Any, None, None]:  # fmt: skip
        """Answer many prompts in order. They are taken on the caller's thread. See `AsyncLLM.generate`."""
        check(prompts, errors, concurrency)
        ask = asker(self._llm._ask, schema, dict(given))
        window = window_of(self.info.slots, concurrency)
        return in_order_blocking(prompts, ask, self._thread.begin, window, errors)

    @_told_as(AsyncLLM.conversation)
    def conversation(
        self, system: str | None = None, *, messages: Sequence[AnyMessage] = (), **given: Unpack[ChatArguments]
    ) -> Conversation:
        """A conversation that grows with each `ask`, and can be forked. See `AsyncLLM.conversation`."""
        return Conversation(self.chat, opening(system, messages), dict(given))

    def close(self) -> None:
        """Unload the model and end its process; running answers fail with `Draining`. Idempotent, thread-safe."""
        self._thread.end()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, asking: Coroutine[Any, Any, Chat | AsyncStream]) -> Chat | Stream:
        answer = self._run(asking)
        if isinstance(answer, AsyncParsedStream):
            return ParsedStream(self, answer)
        return Stream(self, answer) if isinstance(answer, AsyncStream) else answer

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)
