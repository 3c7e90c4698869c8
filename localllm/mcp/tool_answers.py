"""Implements the offered tools with a client of a localllm server. Blocking; knows nothing of MCP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.mcp.offered import (
    AskChat,
    AskEmbed,
    AskModels,
    AskRerank,
    ChatAnswer,
    ModelInfo,
    Models,
    RankedDocument,
    Ranking,
    Vectors,
)
from localllm.system.cancel import Cancel
from localllm.types import Message, SamplingParams

if TYPE_CHECKING:
    from localllm.client.api import Client

PROGRESS_EVERY_S = 0.2
"""Minimum seconds between progress reports of an answer."""
MAX_NAMED_MODELS = 20
"""Maximum number of names in an error message."""

OnProgress = Callable[[int, "int | None", str], None]
"""Reports tokens so far, their maximum, and the new text."""
Connect = Callable[[], "tuple[Client, str | None]"]
"""Waits for the server; returns the client and the default model. Raises `LocalLLMError`s."""


def ignore_progress(_num_tokens: int, _most: int | None, _news: str) -> None:
    """Ignore progress."""


class Answering:
    """The tools. Thread-safe; the first caller waits for the server."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._connected: tuple[Client, str | None] | None = None

    def answer(
        self, asked: msgspec.Struct, cancel: Cancel, on_progress: OnProgress = ignore_progress
    ) -> ChatAnswer | Vectors | Ranking | Models:
        """Runs a tool, chosen by the type of its arguments. Raises `LocalLLMError`s, and `Cancelled`."""
        if isinstance(asked, AskChat):
            return self._chat(asked, cancel, on_progress)
        if isinstance(asked, AskEmbed):
            return self._embed(asked, cancel)
        if isinstance(asked, AskRerank):
            return self._rerank(asked, cancel)
        assert isinstance(asked, AskModels)
        return self._models()

    def _server(self) -> tuple[Client, str | None]:
        with self._lock:
            if self._connected is None:
                self._connected = self._connect()
            return self._connected

    def _client_and_model(self, named: str | None) -> tuple[Client, str]:
        """Raises `InvalidParameter` if no model is named and there is no unique default."""
        client, default = self._server()
        model = named or default
        if model is not None:
            return client, model
        loaded = client.ready()
        if len(loaded) == 1:
            return client, loaded[0]
        names = ", ".join(loaded[:MAX_NAMED_MODELS])
        what = f"loaded models: {names}" if loaded else "none is loaded; list_models lists those on this machine"
        raise InvalidParameter(f"name the model in `model`: {what}", param="model")

    def _chat(self, asked: AskChat, cancel: Cancel, on_progress: OnProgress) -> ChatAnswer:
        client, model = self._client_and_model(asked.model)
        messages = [] if asked.system is None else [Message("system", asked.system)]
        messages.append(Message("user", asked.prompt))
        params = SamplingParams(temperature=asked.temperature, seed=asked.seed, max_tokens=asked.max_tokens)
        schema = {"name": "answer", "schema": asked.schema}
        deltas = client.chat(
            model,
            messages,
            params,
            response_format=None if asked.schema is None else {"type": "json_schema", "json_schema": schema},
            enable_thinking=asked.thinking,
            cancel=cancel,
        )
        text, thoughts, news, num_tokens, reported_s, finish = "", "", "", 0, 0.0, None
        for delta in deltas:
            text, thoughts, news = text + delta.text, thoughts + delta.thought, news + delta.text
            num_tokens, finish = num_tokens + delta.num_tokens, delta.finish or finish
            if time.monotonic() - reported_s >= PROGRESS_EVERY_S and num_tokens:
                on_progress(num_tokens, asked.max_tokens, news)
                reported_s, news = time.monotonic(), ""
        if finish is None:
            raise LocalLLMError("the server ended the answer without a finish reason")
        usage = finish.usage
        return ChatAnswer(
            text=text,
            model=model,
            finish_reason=finish.reason,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            document=_document(text) if asked.schema is not None and finish.reason == "stop" else None,
            thoughts=thoughts,
        )

    def _embed(self, asked: AskEmbed, cancel: Cancel) -> Vectors:
        client, model = self._client_and_model(asked.model)
        found = client.embed(model, asked.texts, dimensions=asked.dimensions, truncate=asked.truncate, cancel=cancel)
        vectors = [msgspec.json.decode(vector, type=list[float]) for vector in found.vectors]
        return Vectors(vectors=vectors, model=model, tokens=found.usage.prompt_tokens, truncated=found.truncated)

    def _rerank(self, asked: AskRerank, cancel: Cancel) -> Ranking:
        client, model = self._client_and_model(asked.model)
        found = client.rerank(model, asked.query, asked.documents, truncate=asked.truncate, cancel=cancel)
        best = found.results[: asked.top_n]
        results = [RankedDocument(each.index, each.relevance_score, asked.documents[each.index]) for each in best]
        return Ranking(results=results, model=model)

    def _models(self) -> Models:
        client, default = self._server()
        models = [
            ModelInfo(
                name=each.id,
                loaded=each.loaded,
                context_tokens=each.ctx or None,
                capabilities=each.capabilities,
            )
            for each in client.models()
        ]
        return Models(models=models, default=default)


def _document(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
