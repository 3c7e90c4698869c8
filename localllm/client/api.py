"""The HTTP client: asks a localllm server and yields typed deltas. Knows nothing of how the server was started.

Errors come out as the server's own error tree; a server that is not there as `ServerGone`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import httpx
import msgspec

from localllm.client.sse import EventDecoder
from localllm.errors import ErrorInfo, InternalError, LocalLLMError, Unavailable, UnsupportedParameter, from_info
from localllm.types import Delta, Finish, FinishReason, Message, SamplingParams, Timings, Usage

CONNECT_TIMEOUT_S = 10.0
T = TypeVar("T")


class ServerGone(Unavailable):
    """The server itself does not answer, or not to the end."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /v1/models, as far as we care; what it can do is known once it is loaded."""

    id: str
    loaded: bool = True
    ctx: int = 0
    slots: int = 0
    chat_template: bool = True


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /localllm/ps."""

    model: str
    status: str
    memory_bytes: int
    requests: int
    idle_s: float
    expires_in_s: float | None
    pid: int | None
    ctx: int | None
    slots: int | None
    layers_per_device: dict[str, int] | None


class _Embedding(msgspec.Struct, frozen=True):
    embedding: msgspec.Raw


class _Tokens(msgspec.Struct, frozen=True):
    prompt_tokens: int


class EmbeddedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What texts became, in their order."""

    data: list[_Embedding]
    usage: _Tokens
    truncated: list[int] = []
    """The numbers of those that were cut."""

    @property
    def vectors(self) -> list[msgspec.Raw]:
        """Of each, its vector as JSON: most pass it on. With pooling `none` an array of vectors."""
        return [item.embedding for item in self.data]


class RankedText(msgspec.Struct, frozen=True):
    """`index`: its number in the request."""

    index: int
    relevance_score: float


class RankedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The best first."""

    results: list[RankedText]
    usage: _Tokens
    truncated: list[int] = []
    """The numbers of those that were cut."""


class _Processes(msgspec.Struct, frozen=True):
    models: list[Process]


class _Error(msgspec.Struct, frozen=True):
    message: str
    code: str | None = None
    param: str | None = None


class _LoadEvent(msgspec.Struct, frozen=True):
    status: str = ""
    model: str = ""
    fraction: float = 0.0
    error: _Error | None = None


class _ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _Error


class _Piece(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Piece | None = None
    text: str = ""
    finish_reason: FinishReason | None = None


class _CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _CachedTokens = _CachedTokens()
    shifted_tokens: int = 0


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    timings: Timings | None = None
    error: _Error | None = None


class Client:
    """A connection to one server; a context manager. Closing a generator early cancels its answer on the server."""

    def __init__(self, base_url: str, token: str | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=base_url,
            headers=headers,
            # An answer may take its time; a server that does not even accept is not there.
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            # Certificates cost 30 ms to load, and a proxy has no business with a server on this machine.
            verify=base_url.startswith("https:"),
            trust_env=False,
        )

    def models(self) -> list[ModelEntry]:
        """What can be asked. Raises `LocalLLMError`s."""
        return self._get("/v1/models", _ModelList).data

    def model(self, id: str) -> ModelEntry:
        """One of them. Raises `ModelNotFound`."""
        return self._get(f"/v1/models/{id}", ModelEntry)

    def processes(self) -> list[Process]:
        """What is loaded. Raises `LocalLLMError`s."""
        return self._get("/localllm/ps", _Processes).models

    def load(self, model: str, on_progress: Callable[[float], None] = lambda _: None) -> str:
        """Have a model loaded; returns its id. Raises `ModelNotFound`, `LoadFailed`, `Unavailable`."""
        body = msgspec.json.encode({"model": model})
        with self._posted("/localllm/load", body) as response:
            for data in _data(response):
                event = msgspec.json.decode(data, type=_LoadEvent)
                if event.error is not None:
                    raise _tree(event.error)
                on_progress(event.fraction)
                if event.status == "ready":
                    return event.model
        raise ServerGone("the server closed the connection while it loaded the model")

    def unload(self, model: str) -> None:
        """Have a model unloaded. Raises `ModelNotFound`."""
        with self._posted("/localllm/unload", msgspec.json.encode({"model": model})) as response:
            response.read()

    def chat(self, model: str, messages: Sequence[Message], params: SamplingParams) -> Generator[Delta]:
        """The answer to a conversation, as it comes; the last delta has `finish`. Raises `LocalLLMError`s."""
        return self._stream("/v1/chat/completions", model, params, messages=list(messages))

    def complete(self, model: str, prompt: str, params: SamplingParams) -> Generator[Delta]:
        """The continuation of a text, as it comes; the last delta has `finish`. Raises `LocalLLMError`s."""
        return self._stream("/v1/completions", model, params, prompt=prompt)

    def embed(
        self,
        model: str,
        texts: Sequence[str],
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool = False,
    ) -> EmbeddedTexts:
        """The vectors of texts. Raises `LocalLLMError`s; a text at fault is `input[N]` in them."""
        asked = {"input": texts, "dimensions": dimensions, "normalize": normalize, "truncate": truncate}
        return self._post("/v1/embeddings", {"model": model, **asked}, EmbeddedTexts)

    def rerank(
        self, model: str, query: str, documents: Sequence[str], *, raw_scores: bool = False, truncate: bool = False
    ) -> RankedTexts:
        """How well documents answer a query. Raises `LocalLLMError`s; one at fault is `documents[N]` in them."""
        asked = {"query": query, "documents": documents, "raw_scores": raw_scores, "truncate": truncate}
        return self._post("/v1/rerank", {"model": model, **asked}, RankedTexts)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(self, path: str, model: str, params: SamplingParams, **fields: Any) -> Generator[Delta]:
        if params.logprobs is not None:
            raise UnsupportedParameter("this client reads no logprobs; the openai package does", param="logprobs")
        asked = {name: value for name, value in msgspec.structs.asdict(params).items() if value is not None}
        extras = {"stream": True, "stream_options": {"include_usage": True}, "timings": True}
        body = msgspec.json.encode({"model": model, **fields, **asked, **extras})
        with self._posted(path, body) as response:
            yield from _deltas(_events(response))

    def _get(self, path: str, kind: type[T]) -> T:
        try:
            response = self._http.get(path)
        except httpx.HTTPError as error:
            raise _not_there(error) from error
        if response.status_code != httpx.codes.OK:
            raise _to_error(response.content)
        return _typed(response.content, kind)

    def _post(self, path: str, asked: Mapping[str, Any], kind: type[T]) -> T:
        with self._posted(path, msgspec.json.encode(asked)) as response:
            return _typed(response.read(), kind)

    @contextlib.contextmanager
    def _posted(self, path: str, body: bytes) -> Iterator[httpx.Response]:
        try:
            with self._http.stream(
                "POST", path, content=body, headers={"content-type": "application/json"}
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise _to_error(response.read())
                yield response
        except httpx.HTTPError as error:
            raise _not_there(error) from error


def _typed(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise InternalError(f"this is not a localllm server: it answered {body[:200]!r}") from error


def _data(response: httpx.Response) -> Iterator[str]:
    """Of each event until the last."""
    decoder = EventDecoder()
    for piece in response.iter_bytes():
        for data in decoder.feed(piece):
            if data == "[DONE]":
                return
            yield data


def _events(response: httpx.Response) -> Iterator[_Chunk]:
    for data in _data(response):
        yield msgspec.json.decode(data, type=_Chunk)


def _deltas(chunks: Iterator[_Chunk]) -> Generator[Delta]:
    """Text at once; reason, timings and usage arrive in the last two chunks and leave as one `Finish`."""
    reason: FinishReason | None = None
    timings = Timings(0.0, 0.0, 0.0)
    for chunk in chunks:
        if chunk.error is not None:
            raise _tree(chunk.error)
        for choice in chunk.choices:
            text = choice.text or (choice.delta.content if choice.delta else None)
            if text:
                yield Delta(text)
            reason = choice.finish_reason or reason
        timings = chunk.timings or timings
        if chunk.usage is not None and reason is not None:
            cached = chunk.usage.prompt_tokens_details.cached_tokens
            shifted = chunk.usage.shifted_tokens
            usage = Usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens, cached, shifted)
            yield Delta(finish=Finish(reason, usage, timings))


def _to_error(body: bytes) -> LocalLLMError:
    try:
        return _tree(msgspec.json.decode(body, type=_ErrorBody).error)
    except msgspec.DecodeError:
        return InternalError(f"this is not a localllm server: it answered {body[:200]!r}")


def _tree(error: _Error) -> LocalLLMError:
    return from_info(ErrorInfo(error.code or "internal", error.message, error.param))


def _not_there(error: httpx.HTTPError) -> ServerGone:
    return ServerGone(f"the server does not answer: {error or type(error).__name__}")
