"""Who wants to know what becomes of requests and workers. Does nothing itself; knows nothing of metrics."""

from __future__ import annotations

from localllm.errors import LocalLLMError
from localllm.types import Finish, LoadedModel


class Observer:
    """Called on the event loop, for every model. Override what is of interest; it must not raise."""

    def finished(self, model_id: str, finish: Finish) -> None:
        """An answer came to its end."""

    def failed(self, model_id: str, code: str) -> None:
        """A request ended without: refused, failed, or `cancelled` by who asked."""

    def loading(self, model_id: str, fraction: float) -> None:
        """So much of a model is loaded, from 0 to 1."""

    def ready(self, model_id: str, loaded: LoadedModel) -> None:
        """A worker has loaded its model, for the first time or again."""

    def crashed(self, model_id: str, error: LocalLLMError) -> None:
        """A worker that had answered has died, or the one after it could not load."""

    def restarted(self, model_id: str) -> None:
        """A worker that had died is being started again."""
