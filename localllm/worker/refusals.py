"""What the preparers share: the error to send for anything that went wrong, and when a request's time is over."""

from __future__ import annotations

import math
import traceback

from localllm.errors import InternalError, LocalLLMError


def as_ours(error: Exception) -> LocalLLMError:
    """The error itself if it is one of ours; a surprise goes to stderr, where the parent keeps it."""
    if isinstance(error, LocalLLMError):
        return error
    traceback.print_exception(error)
    # Its text may name files of ours: for the log, not for clients.
    return InternalError(f"preparing the request failed with {type(error).__name__}", reason=repr(error)[:500])


def deadline_s(arrived_s: float, timeout_s: float | None) -> float:
    """On the engine's clock; infinite without a timeout."""
    return math.inf if timeout_s is None else arrived_s + timeout_s
