"""Interface for watching what becomes of requests and workers. Does nothing itself; knows nothing of metrics."""

from __future__ import annotations

from localllm.errors import LocalLLMError
from localllm.types import Finish, LoadedModel


class Observer:
    """Called on the event loop, for every model. Override what you need; must not raise."""

    def finished(self, model_id: str, finish: Finish, *, is_batch: bool = False) -> None:
        """An answer ended with a finish reason. `is_batch`: to a request of the batch class."""

    def failed(self, model_id: str, code: str, *, is_batch: bool = False) -> None:
        """A request ended without one: rejected, failed, or `cancelled` by the client."""

    def loading(self, model_id: str, fraction: float) -> None:
        """This much of a model is loaded, from 0 to 1."""

    def ready(self, model_id: str, loaded: LoadedModel) -> None:
        """A worker has loaded its model, for the first time or again."""

    def crashed(self, model_id: str, error: LocalLLMError) -> None:
        """A worker that had answered crashed, or its replacement could not load."""

    def restarted(self, model_id: str) -> None:
        """A crashed worker is being restarted."""
