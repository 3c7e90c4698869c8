"""Who wants to know what becomes of requests and workers. Does nothing itself; knows nothing of metrics."""

from __future__ import annotations

from localllm.types import Finish


class Observer:
    """Called on the event loop, for every model. Override what is of interest; it must not raise."""

    def finished(self, model_id: str, finish: Finish) -> None:
        """An answer came to its end."""

    def failed(self, model_id: str, code: str) -> None:
        """A request ended without: refused, failed, or `cancelled` by who asked."""

    def restarted(self, model_id: str) -> None:
        """A worker that had died is being started again."""
