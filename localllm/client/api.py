"""The HTTP client of a localllm server, with typed results. Knows nothing about how the server was started.

Errors are raised as the server's own classes, `ServerGone` if the server does not answer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from localllm.client import replies
from localllm.client.connection import closing_connections, connect
from localllm.client.events import data_of, deltas, event_of, transcript_of, typed
from localllm.client.messages import to_json_values
from localllm.client.replies import EmbeddedTexts as EmbeddedTexts
from localllm.client.replies import ModelEntry, RankedTexts
from localllm.errors import Cancelled, InternalError, LocalLLMError, Unavailable, UnsupportedParameter, sentence_of
from localllm.system.cancel import Cancel
from localllm.types import Delta, Finish, MediaFile, Message, SamplingParams, Timings, Usage, wire
from localllm.types.states import AvailableModel, PullState
from localllm.types.transcripts import Transcript, TranscriptSegment

T = TypeVar("T")


class KeyRequired(LocalLLMError):
    """The server wants another API key, or one at all."""

    code = "invalid_api_key"


class ServerGone(Unavailable):
    """The server does not answer, or hung up before the end of its answer."""


class Client:
    """A connection to one server; a context manager. Thread-safe.

    Closing a generator early cancels its answer on the server. So does the `Cancel` passed to a call, from any thread:
    an answer then ends with a delta whose finish reason is `cancelled`; any other call raises `Cancelled`.
    """

    def __init__(self, base_url: str, token: str | None = None) -> None:
        self.url = base_url
        self.token = token
        self._http = connect(base_url, token)

    def health(self) -> bool:
        """Whether a server answers at all, whatever the state of its models. Raises nothing."""
        try:
            return self._http.get("/health").status_code in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE)
        except httpx.HTTPError:
            return False

    def has_page(self) -> bool:
        """Whether it answers a browser with the page. Raises nothing."""
        try:
            answer = self._http.get("/", headers={"accept": "text/html"})
        except httpx.HTTPError:
            return False
        return str(answer.headers.get("content-type")).startswith("text/html")

    def ready(self) -> list[str]:
        """The models that can answer now. Raises `Loading` while one is being loaded or restarted."""
        return self._get("/ready", wire.Ready).models

    def models(self) -> list[ModelEntry]:
        """The models that requests can name. Raises `LocalLLMError`s."""
        return self._get("/v1/models", replies.ModelList).data

    def model(self, id: str) -> ModelEntry:
        """One model of `models()`. Raises `ModelNotFound`."""
        return self._get(f"/v1/models/{quote(id)}", ModelEntry)

    def available(self) -> list[AvailableModel]:
        """The models on the server's machine, loaded or not. Raises `LocalLLMError`s."""
        return self._get("/localllm/models", wire.Models).models

    def max_media_bytes(self) -> int | None:
        """How large a picture or sound the server reads; None: it does not say. Raises `LocalLLMError`s."""
        limit = self._get("/localllm/models", wire.Models).max_media_bytes
        return None if limit is msgspec.UNSET else limit

    def processes(self) -> list[wire.Process]:
        """The loaded models. Raises `LocalLLMError`s."""
        return self.work().models

    def work(self) -> wire.Processes:
        """The loaded models, and the batches. Raises `LocalLLMError`s."""
        return self._get("/localllm/ps", wire.Processes)

    def load(
        self,
        model: str,
        on_progress: Callable[[float], None] = lambda _: None,
        *,
        ctx: int | None = None,
        slots: int | None = None,
        keep_alive: float | str | None = None,
        cancel: Cancel | None = None,
    ) -> str:
        """Load a model and return its id. keep_alive: how long it stays loaded when idle, in seconds or as `5m`.

        Raises `ModelNotFound`, `LoadFailed`, `Unavailable`, `Cancelled`.
        """
        asked = {"model": model, "ctx": ctx, "slots": slots, "keep_alive": keep_alive}
        with self._posted("/localllm/load", _without_none(asked), cancel) as response:
            for data in data_of(response):
                event = event_of(data, wire.LoadEvent)
                on_progress(event.fraction)
                if event.status == "ready":
                    return event.model
        raise ServerGone("the server closed the connection while it loaded the model")

    def unload(self, model: str) -> None:
        """Unload a model. Raises `ModelNotFound`."""
        with self._posted("/localllm/unload", {"model": model}) as response:
            response.read()

    def pull(
        self, model: str, on_progress: Callable[[PullState], None] = lambda _: None, *, cancel: Cancel | None = None
    ) -> AvailableModel:
        """Download a model to the server's machine. A cancelled download resumes the next time.

        Raises `ModelNotFound`, `PullFailed`s, `DiskFull`, `Cancelled`.
        """
        with self._posted("/localllm/pull", {"model": model}, cancel) as response:
            for data in data_of(response):
                event = event_of(data, wire.PullEvent)
                if event.progress:
                    on_progress(event.progress)
                if event.model:
                    return event.model
        raise ServerGone("the server closed the connection while it downloaded the model")

    def remove(self, model: str) -> None:
        """Unload and remove a model. Raises `ModelNotFound`."""
        with self._posted("/localllm/remove", {"model": model}) as response:
            response.read()

    def chat(
        self,
        model: str,
        messages: Sequence[Message],
        params: SamplingParams = SamplingParams(),  # noqa: B008  it is frozen
        *,
        files: Mapping[str, MediaFile] = MappingProxyType({}),
        timeout: float | None = None,
        priority: int | None = None,
        cache_prompt: bool | None = None,
        response_format: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        thinking_budget: int | None = None,
        cancel: Cancel | None = None,
    ) -> Generator[Delta]:
        """Stream the answer to a conversation; the last delta has `finish`. Raises `LocalLLMError`s.

        files: those of the messages' pictures and sounds, by digest. timeout: seconds. priority: lower values are
        served first. cache_prompt: whether cached prefixes may be reused. None: the server's setting. response_format,
        tools, tool_choice: in OpenAI's format. enable_thinking, reasoning_effort: whether and how much the model
        thinks first, if it can; thinking_budget: token limit of that.
        """
        return self._stream(
            "/v1/chat/completions",
            model,
            params,
            cancel,
            messages=[to_json_values(message, files) for message in messages],
            response_format=response_format,
            timeout=timeout,
            priority=priority,
            cache_prompt=cache_prompt,
            tools=tools or None,
            tool_choice=tool_choice,
            enable_thinking=enable_thinking,
            reasoning_effort=reasoning_effort,
            thinking_budget=thinking_budget,
        )

    def complete(
        self,
        model: str,
        prompt: str,
        params: SamplingParams = SamplingParams(),  # noqa: B008
        *,
        timeout: float | None = None,
        priority: int | None = None,
        cache_prompt: bool | None = None,
        response_format: Mapping[str, Any] | None = None,
        cancel: Cancel | None = None,
    ) -> Generator[Delta]:
        """Stream the continuation of a text. Otherwise as `chat`."""
        fields = {"timeout": timeout, "priority": priority, "cache_prompt": cache_prompt}
        return self._stream(
            "/v1/completions", model, params, cancel, prompt=prompt, response_format=response_format, **fields
        )

    def embed(
        self,
        model: str,
        texts: Sequence[str],
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool = False,
        cancel: Cancel | None = None,
    ) -> EmbeddedTexts:
        """The vectors of texts. Raises `LocalLLMError`s, which name a text at fault as `input[N]`, and `Cancelled`."""
        asked = {"input": texts, "dimensions": dimensions, "normalize": normalize, "truncate": truncate}
        return self._post("/v1/embeddings", {"model": model, **asked}, EmbeddedTexts, cancel)

    def rerank(
        self,
        model: str,
        query: str,
        documents: Sequence[str],
        *,
        raw_scores: bool = False,
        truncate: bool = False,
        cancel: Cancel | None = None,
    ) -> RankedTexts:
        """Scores documents by how well they answer a query. Raises as `embed`, with `documents[N]` as the name."""
        asked = {"query": query, "documents": documents, "raw_scores": raw_scores, "truncate": truncate}
        return self._post("/v1/rerank", {"model": model, **asked}, RankedTexts, cancel)

    def transcribe(
        self,
        model: str,
        sound: bytes,
        params: SamplingParams = SamplingParams(temperature=0.0),  # noqa: B008
        *,
        language: str | None = None,
        translate: bool = False,
        prompt: str | None = None,
        cancel: Cancel | None = None,
    ) -> Generator[TranscriptSegment | Transcript]:
        """Write down what is said in the file of a sound: each segment when it is whole, then the transcript.

        language: of the sound, such as `de`. translate: into English. prompt: what the model is asked, in place of
        what its kind was trained for. Raises `LocalLLMError`s, `Cancelled`.
        """
        asked: dict[str, Any] = {"model": model, "prompt": prompt, "language": language}
        asked |= {"stream": True, "response_format": "verbose_json", **msgspec.structs.asdict(params)}
        path = f"/v1/audio/{'translations' if translate else 'transcriptions'}"
        with self._posted(path, _without_none(asked), cancel, file=sound) as response:
            for made in transcript_of(response):
                yield made
                if isinstance(made, Transcript):
                    return
        raise ServerGone("the server closed the connection before the transcript ended")

    def tokenize(self, model: str, text: str, *, add_special: bool = True) -> list[int]:
        """Token ids of a text, with a leading BOS unless `add_special` is off. Raises `LocalLLMError`s."""
        asked = {"model": model, "content": text, "add_special": add_special}
        return self._post("/tokenize", asked, replies.Tokens).tokens

    def detokenize(self, model: str, tokens: Sequence[int], *, special: bool = True) -> str:
        """The text of token ids; control tokens are included only if `special`. Raises `LocalLLMError`s."""
        asked = {"model": model, "tokens": list(tokens), "special": special}
        return self._post("/detokenize", asked, replies.Content).content

    def count_tokens(
        self,
        model: str,
        prompt: str | Sequence[Message],
        *,
        files: Mapping[str, MediaFile] = MappingProxyType({}),
    ) -> int:
        """Length of the prompt of a text or, by the chat template, of a conversation. Raises `LocalLLMError`s.

        files: those of the messages' pictures and sounds, by digest.
        """
        if isinstance(prompt, str):
            return len(self.tokenize(model, prompt))
        asked = {"model": model, "messages": [to_json_values(message, files) for message in prompt]}
        return self._post("/v1/chat/completions/input_tokens", asked, replies.CountedTokens).input_tokens

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(
        self, path: str, model: str, params: SamplingParams, cancel: Cancel | None, **fields: Any
    ) -> Generator[Delta]:
        if params.logprobs is not None:
            raise UnsupportedParameter("this client does not read logprobs; use the openai package", param="logprobs")
        extras = {"stream": True, "stream_options": {"include_usage": True}, "timings": True}
        asked = _without_none({"model": model, **fields, **msgspec.structs.asdict(params), **extras})
        try:
            with self._posted(path, asked, cancel) as response:
                yield from deltas(response)
        except Cancelled:
            yield Delta(finish=Finish("cancelled", Usage(0, 0), Timings(0.0, 0.0, 0.0)))

    def _get(self, path: str, kind: type[T]) -> T:
        try:
            response = self._http.get(path)
        except httpx.HTTPError as error:
            raise _server_gone(error) from error
        if response.status_code != httpx.codes.OK:
            raise _to_error(response.content)
        return typed(response.content, kind)

    def _post(self, path: str, asked: Mapping[str, Any], kind: type[T], cancel: Cancel | None = None) -> T:
        with self._posted(path, asked, cancel) as response:
            return typed(response.read(), kind)

    @contextlib.contextmanager
    def _posted(
        self, path: str, asked: Mapping[str, Any], cancel: Cancel | None = None, *, file: bytes | None = None
    ) -> Iterator[httpx.Response]:
        """As JSON, or with a `file` as a form. Raises `Cancelled` inside the block, too, once `cancel` is used."""
        body: dict[str, Any] = {"content": _json(asked), "headers": {"content-type": "application/json"}}
        if file is not None:
            body = {"data": {name: _field(value) for name, value in asked.items()}, "files": {"file": file}}
        with contextlib.ExitStack() as stack:
            http, extensions = self._http, {}
            if cancel is not None:  # only a dedicated connection can be closed at any time
                http = stack.enter_context(connect(self.url, self.token))
                extensions = {"trace": stack.enter_context(closing_connections(cancel))}
            try:
                with http.stream("POST", path, **body, extensions=extensions) as response:
                    if response.status_code != httpx.codes.OK:
                        raise _to_error(response.read())
                    yield response
            except httpx.HTTPError as error:
                if cancel is not None and cancel.cancelled:
                    raise Cancelled("the request was cancelled") from error
                raise _server_gone(error) from error


def _json(asked: Any) -> bytes:
    try:
        return msgspec.json.encode(asked)
    except UnicodeEncodeError:  # an unpaired surrogate: escaped, so that the server replaces it and says so
        return json.dumps(msgspec.to_builtins(asked)).encode()


def _field(value: Any) -> Any:
    """A value of a form: texts as such, lists of them as repeated fields, anything else as JSON."""
    if isinstance(value, tuple | list) and all(isinstance(each, str) for each in value):
        return list(value)
    return value if isinstance(value, str) else _json(value).decode()


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _to_error(body: bytes) -> LocalLLMError:
    try:
        error = msgspec.json.decode(body, type=replies.RefusedBody).error.to_error_object()
        if error.code == KeyRequired.code:  # the server's words are for those who write HTTP
            return KeyRequired("the server requires an API key that it knows; set LOCALLLM_API_KEY, or pass --api-key")
        return replies.to_error(error)
    except msgspec.DecodeError:
        return InternalError(f"not a localllm server: it answered {body[:200]!r}")


def _server_gone(error: httpx.HTTPError) -> ServerGone:
    """httpx repeats the system's error with its number; the words are in the error that caused it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    why = sentence_of(cause, is_in_home=False) if cause is not None else str(error) or type(error).__name__
    return ServerGone(f"the server does not answer: {why}")
