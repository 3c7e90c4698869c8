"""Interface for what the owner of a session learns of it. Does nothing itself; knows nothing of processes."""

from __future__ import annotations

from localllm.types import Finish, LoadedModel


class SessionObserver:
    """Called on the session's event loop. Override what you need; must not raise."""

    def loading(self, fraction: float) -> None:
        """This much of the model is loaded, from 0 to 1."""

    def reported(self, loaded: LoadedModel) -> None:
        """The worker reported its model again, after the report with which it became ready."""

    def ended(self, end: Finish | str, *, is_batch: bool = False) -> None:
        """A request ended: its finish, or an error code. `is_batch`: of the batch class."""

    def embedded(self) -> None:
        """A request for embeddings was answered."""

    def called(self) -> None:
        """A short call is over."""

    def died(self) -> None:
        """A session that had answered ended without being closed."""
