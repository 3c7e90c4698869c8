"""Shared by the threads that serve all requests: containing errors to one request, wording, deadlines."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localllm.errors import ContextLengthExceeded, InternalError, LocalLLMError


def _as_local_error(error: Exception) -> LocalLLMError:
    """The error itself if it is one of ours; anything else is logged to stderr, which the parent keeps."""
    if isinstance(error, LocalLLMError):
        return error
    traceback.print_exception(error)
    # Its text may contain our file names: for the log, not for clients.
    return InternalError(f"preparing the request failed with {type(error).__name__}", reason=repr(error)[:500])


@contextmanager
def errors_to(refuse: Callable[[LocalLLMError], None]) -> Iterator[None]:
    """Pass an error inside to `refuse`, so that it rejects one request and does not end a thread that serves all."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  see above
        refuse(_as_local_error(error))


def deadline_s(arrived_s: float, timeout_s: float | None) -> float:
    """On the engine's clock; infinite without a timeout."""
    return math.inf if timeout_s is None else arrived_s + timeout_s


def too_long(
    what: str, num_tokens: int, limit: int, remedy: str, *, param: str, item: int | None = None, at_least: bool = False
) -> ContextLengthExceeded:
    """In OpenAI's words, because clients recognize this error by its text: LiteLLM by "maximum context length is",
    LangChain by the code (which openai 3 leaves out of an exception's text), LangChain.js by "exceeds the context
    window". `what` is too long: `your messages`; `remedy` begins with a verb; `at_least`: not all tokens were counted.
    """
    where: dict[str, Any] = {} if item is None else {"item": item}
    return ContextLengthExceeded(
        f"This model's maximum context length is {limit} tokens. However, {what} resulted in "
        f"{'at least ' if at_least else ''}{num_tokens} tokens, "
        f"which exceeds the context window ({ContextLengthExceeded.code}). Please {remedy}.",
        param=param,
        prompt_tokens=num_tokens,
        context_length=limit,
        **where,
    )
