"""Reports a model's state changes to a callback of the application. Knows nothing about how they are detected."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from localllm.errors import LocalLLMError
from localllm.runtime.runtime import Observer
from localllm.types import LoadedModel
from localllm.types.states import ModelEvent

T = TypeVar("T")
logger = logging.getLogger("localllm")


def guarded(name: str, callback: Callable[[T], None]) -> Callable[[T], None]:
    """The callback with its exceptions logged: a bug in the application must not end an answer."""

    def call(news: T) -> None:
        try:
            callback(news)
        except Exception:
            logger.exception("%s raised", name)

    return call


class EventObserver(Observer):
    """Calls back with each `ModelEvent`, on the event loop."""

    def __init__(self, on_event: Callable[[ModelEvent], None]) -> None:
        self._report = guarded("on_event", on_event)

    def loading(self, model_id: str, fraction: float) -> None:
        self._report(ModelEvent(kind="loading", model=model_id, fraction=fraction))

    def ready(self, model_id: str, loaded: LoadedModel) -> None:  # noqa: ARG002
        self._report(ModelEvent(kind="ready", model=model_id, fraction=1.0))

    def crashed(self, model_id: str, error: LocalLLMError) -> None:
        self._report(ModelEvent(kind="crashed", model=model_id, reason=error.message))

    def restarted(self, model_id: str) -> None:
        self._report(ModelEvent(kind="restarted", model=model_id))
