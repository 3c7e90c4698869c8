"""One streamed answer, built from the bytes of its events and their arrival times: `feed()`, then `flush()`.

Knows no network and no clock: the caller passes times, in nanoseconds of one monotonic clock.
"""

from __future__ import annotations

import itertools
from array import array
from typing import Any, NamedTuple

import msgspec

from localllm.client.sse import EventDecoder
from localllm.system.printable import one_line

MAX_MESSAGE_CHARS = 300


class Failure(NamedTuple):
    """A request without a whole answer. Kinds: `http_<status>`, `connect`, `timeout`, and those of `AnswerBuilder`."""

    kind: str
    message: str


class RequestFailed(Exception):
    """Carries a `Failure` to where it is counted."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(kind, clean(message))


class Answer(NamedTuple):
    """A whole answer."""

    started_ns: int
    """Just before the request was sent."""
    arrivals_ns: array[int]
    """When text arrived, reasoning included; the pieces of one read are one arrival. Never empty."""
    last_ns: int
    """When the last token arrived: with the last text, or with the finish reason after it."""
    ended_ns: int
    num_deltas: int
    prompt_tokens: int | None
    """None: the server reported no usage."""
    completion_tokens: int | None
    cached_tokens: int | None
    """None: the server does not report them."""

    @property
    def num_tokens(self) -> int:
        """Output tokens as the server counted them, else the number of pieces it sent."""
        return self.num_deltas if self.completion_tokens is None else self.completion_tokens

    @property
    def ttft_s(self) -> float:
        return (self.arrivals_ns[0] - self.started_ns) / 1e9

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None for an answer of one token."""
        return (self.last_ns - self.arrivals_ns[0]) / 1e9 / (self.num_tokens - 1) if self.num_tokens > 1 else None

    @property
    def gaps_s(self) -> list[float]:
        """The pauses between arrivals, as a reader of the stream sees them."""
        return [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(self.arrivals_ns)]

    @property
    def latency_s(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of this request, including the wait for the first token."""
        return self.num_tokens / max(self.latency_s, 1e-9)


class _Piece(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    """As llama-server, vLLM and DeepSeek call it."""
    reasoning: str | None = None
    """As Ollama and OpenRouter call it."""


class _Choice(msgspec.Struct):
    delta: _Piece | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    cache_n: int | None = None
    """llama-server's cached tokens."""


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class AnswerBuilder:
    """Builds an `Answer`. Raises `RequestFailed`: `not_openai`, `error_in_stream`, `cut_short`, `no_text`."""

    def __init__(self, started_ns: int) -> None:
        self._decoder = EventDecoder()
        self._started_ns = started_ns
        self._arrivals = array("q")
        self._num_deltas = 0
        self._last_ns = started_ns
        self._ended_ns = started_ns
        self._finished = False
        self._usage: _Usage | None = None
        self._cached: int | None = None
        self.is_done = False
        """Whether `[DONE]` has arrived; anything after it is ignored."""

    @property
    def num_deltas(self) -> int:
        """Pieces of text so far."""
        return self._num_deltas

    def feed(self, data: bytes, now_ns: int) -> int:
        """Take the bytes of one read; returns how many pieces of text they contained."""
        before = self._num_deltas
        for event in self._decoder.feed(data):
            self._take(event, now_ns)
        if self._num_deltas > before:
            self._arrivals.append(now_ns)
        return self._num_deltas - before

    def flush(self, now_ns: int) -> Answer:
        """End of the stream; returns the answer if it is whole."""
        for event in self._decoder.flush():
            self._take(event, now_ns)
        if not (self._finished or self.is_done):
            raise RequestFailed("cut_short", f"the stream ended in the middle, after {self._num_deltas} pieces of text")
        if not self._arrivals:
            raise RequestFailed("no_text", "the answer has no text")
        usage = self._usage
        return Answer(
            self._started_ns,
            self._arrivals,
            self._last_ns,
            self._ended_ns if self.is_done else now_ns,
            self._num_deltas,
            None if usage is None else usage.prompt_tokens,
            None if usage is None else usage.completion_tokens,
            self._cached,
        )

    def _take(self, event: str, now_ns: int) -> None:
        if self.is_done:
            return
        if event == "[DONE]":
            self.is_done, self._ended_ns = True, now_ns
            return
        try:
            chunk = _decode_chunk(event)
        except msgspec.MsgspecError as error:
            raise RequestFailed("not_openai", f"not a chunk of a completion ({error}): {event}") from error
        if chunk.error is not None:
            raise RequestFailed("error_in_stream", message_of(chunk.error))
        for choice in chunk.choices or ():
            if _has_text(choice):
                self._num_deltas += 1
                self._last_ns = now_ns
            if choice.finish_reason is not None and not self._finished:
                self._finished = True
                self._last_ns = now_ns
        if chunk.usage is not None:
            self._usage = chunk.usage
            details = chunk.usage.prompt_tokens_details
            self._cached = self._cached if details is None else details.cached_tokens
        if chunk.timings is not None and self._cached is None:
            self._cached = chunk.timings.cache_n


def _has_text(choice: _Choice) -> bool:
    piece = choice.delta
    return bool(choice.text or (piece and (piece.content or piece.reasoning_content or piece.reasoning)))


def message_of(error: Any) -> str:
    """The sentence in an error, which is a string or `{"message": ...}`, or `{"error": ...}` around either."""
    while isinstance(error, dict):
        inner = error.get("error", error.get("message"))
        if inner is None:
            break
        error = inner
    return error if isinstance(error, str) else str(error)


def clean(text: str) -> str:
    """Text from a server, made safe for a terminal: one line without control characters, truncated."""
    line = " ".join(one_line(text).split())
    return line if len(line) <= MAX_MESSAGE_CHARS else line[: MAX_MESSAGE_CHARS - 3] + "..."
