"""What the handlers share: the runtime, the limits, and whether we are starting or ending. `main` is the one writer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localllm.config import Settings
from localllm.errors import Draining, Loading, LocalLLMError, ModelNotFound, Unavailable
from localllm.runtime import Runtime
from localllm.types import LoadedModel


@dataclass
class ServerState:
    """Lives as long as the server."""

    runtime: Runtime
    settings: Settings
    loading: str | None = None
    """The model that is being loaded at start."""
    draining: bool = False

    def admit(self) -> None:
        """Whether a request for an answer makes sense now. Raises `Loading`, `Draining`."""
        if self.draining:
            raise Draining("the server is shutting down")
        if self.loading is not None:
            raise Loading(f"the model {Path(self.loading).name} is still loading; try again in a moment")

    def seen_by_client(self, error: LocalLLMError) -> LocalLLMError:
        """At shutdown the workers end before the last answers do: that is no crash."""
        return Draining("the server is shutting down") if self.draining and isinstance(error, Unavailable) else error

    def model(self, model_id: str) -> LoadedModel:
        """The loaded model of that id. Raises `ModelNotFound`."""
        loaded = self.runtime.loaded()
        for model in loaded:
            if model.id == model_id:
                return model
        names = ", ".join(model.id for model in loaded) or "none"
        raise ModelNotFound(f"the model {model_id!r} is not loaded; loaded: {names}", param="model")
