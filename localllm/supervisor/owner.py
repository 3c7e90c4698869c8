"""The part of the manager of all models that one managed model needs."""

from __future__ import annotations

from typing import Protocol

from localllm.supervisor.ledger import Ledger
from localllm.supervisor.observer import Observer


class Owner(Protocol):
    """The manager of this model and others."""

    observer: Observer
    ledger: Ledger

    def changed(self) -> None:
        """A request ended, a load succeeded or failed, or memory was freed."""

    def expired(self, id: str) -> None:
        """The model has not been used for its keep-alive time."""
