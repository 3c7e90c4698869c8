"""An answer as lines of Ollama's chat or generate stream, or as one object. Knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET

from localllm.server.answers.remarks import finish_reason
from localllm.server.apis.ollama import replies as out
from localllm.types import CallDelta, Delta, Finish, TokenLogprob, whole_calls

Line = out.ChatReply | out.GenerateReply


class Story:
    """The lines of one answer, in order; afterwards `whole` is the same as one reply."""

    def __init__(self, model: str, started_s: float, *, is_chat: bool, load_s: float = 0.0) -> None:
        """`model`: the name the client used. `started_s`: time of the request. `load_s`: time until it was accepted."""
        self._model = model
        self._is_chat = is_chat
        self._started_s = started_s
        self._load_s = load_s
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._unsent: Sequence[TokenLogprob] = ()
        """Log-probabilities that the last line has."""
        self._pieces: dict[int, list[CallDelta]] = {}
        """Calls that are not complete yet."""
        self._calls: list[out.CallObject] = []
        self._broken: list[str] = []
        """The text of truncated calls, so that nothing of an answer is lost."""
        self._ending: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join(self._texts)

    def warn(self, warnings: Iterable[str]) -> None:
        """A header has the warnings."""

    def begin(self, num_prompt_tokens: int) -> Iterable[Line]:  # noqa: ARG002  the last line has it
        """No line precedes the first token."""
        return ()

    def feed(self, delta: Delta) -> Iterator[Line]:
        """Each call is sent complete, in its own line before the last, where clients do not look for calls."""
        self._texts.append(delta.text)
        self._thoughts.append(delta.thought)
        self._logprobs += delta.logprobs
        logprobs = delta.logprobs  # sent with the first of these lines
        for text, thought in (("", delta.thought), (delta.text, "")):
            if text or thought:
                yield self.line(text=text, thought=thought, logprobs=logprobs)
                logprobs = ()
        made = list(self._complete(delta))
        if made:
            objects = [each for each in made if isinstance(each, out.CallObject)]
            broken = [each for each in made if isinstance(each, str)]
            self._calls += objects
            self._broken += broken
            yield self.line(text="\n".join(broken), calls=objects, logprobs=logprobs)
            logprobs = ()
        if delta.finish is not None:
            self._unsent = logprobs
        elif logprobs:
            yield self.line(logprobs=logprobs)

    def end(self, finish: Finish, cache_miss: str | None = None) -> Iterator[Line]:  # noqa: ARG002
        """The last line. Raises `Draining` if the server cut the answer short."""
        total_s = time.perf_counter() - self._started_s
        self._ending = {"reason": finish_reason(finish), **out.metrics(finish, self._load_s, total_s)}
        yield self.line(logprobs=self._unsent, **self._ending)

    def whole(self) -> Line:
        """The complete reply, after the end."""
        return self.line(
            text=self.text + "\n".join(self._broken),
            thought="".join(self._thoughts),
            calls=self._calls,
            logprobs=self._logprobs,
            **self._ending,
        )

    def line(
        self,
        *,
        text: str = "",
        thought: str = "",
        calls: Sequence[out.CallObject] = (),
        logprobs: Sequence[TokenLogprob] = (),
        reason: str = "",
        **metrics: Any,
    ) -> Line:
        """`reason`: why the answer ended."""
        common: dict[str, Any] = {
            "model": self._model,
            "created_at": out.now(),
            "done": bool(reason),
            "done_reason": reason or UNSET,
            "logprobs": out.logprobs(logprobs) if logprobs else UNSET,
            **metrics,
        }
        if not self._is_chat:
            return out.GenerateReply(response=text, thinking=thought or UNSET, **common)
        message = out.ReplyMessage(content=text, thinking=thought or UNSET, tool_calls=list(calls) or UNSET)
        return out.ChatReply(message=message, **common)

    def _complete(self, delta: Delta) -> Iterator[out.CallObject | str]:
        """Calls that are complete now: a call ends when the next one begins or the answer ends."""
        for piece in delta.calls:
            self._pieces.setdefault(piece.index, []).append(piece)
        for index in list(self._pieces) if delta.finish is not None else list(self._pieces)[:-1]:
            (call,) = whole_calls(self._pieces.pop(index))
            yield out.call_object(index, call) or f"{call.name} {call.arguments}"
