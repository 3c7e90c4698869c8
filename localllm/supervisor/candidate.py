"""A model on disk that can be loaded: what a load is asked for. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from localllm.planning.draft_plan import DraftModel
from localllm.planning.projector_plan import NO_COMPANION, Companion, Projector
from localllm.planning.tuned import Tuning
from localllm.types import ModelDefaults, ModelInfo


class Candidate(NamedTuple):
    """A model on disk that can be loaded."""

    id: str
    path: Path
    info: ModelInfo
    defaults: ModelDefaults
    release: Callable[[], None]
    """Called once when its file is no longer needed, even if it is never loaded."""
    tunings: tuple[Tuning, ...] = ()
    """The fastest settings found for it."""
    draft: DraftModel | None = None
    """Its draft model, whose file is released together with this one."""
    no_draft: str = ""
    """Why `auto` found no draft model."""
    companion: Companion = NO_COMPANION
    """Its projector, or why it has none."""

    @property
    def besides(self) -> tuple[DraftModel | None, Projector | None]:
        """What is loaded with it."""
        return self.draft, self.companion.projector
