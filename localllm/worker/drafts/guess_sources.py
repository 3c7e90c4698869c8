"""The door to this room: what guesses tokens for a model, chosen before its load and made after it.

    GuessLoader     which vectors the model must keep, then the draft model or the model's own NextN layers
    GuessSources    what was loaded, what it is asked through, and why there is no more

A draft that was found by itself (`auto`) costs the model nothing but a note if it cannot be used; one that the user
named is an error. Knows nothing of how tokens are guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from localllm.engine.backend import BackendError
from localllm.engine.speculation.drafts import Drafts, HeadStreams
from localllm.engine.speculation.guesser import Experience, Speculator
from localllm.engine.speculation.proposers import DraftTarget, Proposers
from localllm.engine.threads.team import Team
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend
from localllm.llama.drafts.making import LlamaDraft, LlamaHeads
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.planning.tuned import AS_TUNED
from localllm.types import SourceName
from localllm.worker.drafts.draft_model import check_layers, load_draft
from localllm.worker.drafts.nextn_context import kept_for, load_heads
from localllm.worker.messages import Load


class GuessLoader:
    """Used once, in the order of its methods."""

    def __init__(self, library: Library, load: Load) -> None:
        self._library = library
        self._load = load
        self._draft, self._no_draft = load.draft, load.no_draft
        self.kept = kept_for(library, load)
        """The model's vectors that guesses need; None if none does."""
        self.loads_heads = self.kept is not None and load.draft is None
        """Whether the model's own NextN layers are to be loaded."""

    def check(self, model: LlamaModel) -> None:
        """Give up a draft that needs vectors which llama.cpp does not give out. Raises `LoadFailed` if it was named."""
        if self._draft is not None:
            try:
                check_layers(self._library, self._draft, model, self._load.info.architecture)
            except LoadFailed as error:
                self._excuse(error)
                self.kept = None

    def sources(self, model: LlamaModel, backend: LlamaBackend | None, threads: int) -> GuessSources:
        """Loads what guesses beside the model. Raises `LoadFailed` for a draft that was named."""
        draft: LlamaDraft | LlamaHeads | None = None
        if self._draft is not None and backend is not None:
            try:
                draft = load_draft(self._library, self._load, self._draft, model, backend, threads)
            except LoadFailed as error:
                self._excuse(error)
        heads, no_heads = load_heads(self._library, model, self._load, backend, threads)
        if backend is not None and backend.vectors is not None and draft is None and heads is None:
            backend.vectors.stop()
        return GuessSources(self._load, backend, draft, heads, self._no_draft, no_heads)

    def _excuse(self, error: LoadFailed) -> None:
        if self._load.options.draft != "auto":
            raise error
        self._draft, self._no_draft = None, error.message


class GuessSources:
    """What guesses for a model in memory."""

    def __init__(
        self,
        load: Load,
        backend: LlamaBackend | None,
        draft: LlamaDraft | LlamaHeads | None,
        heads: LlamaHeads | None,
        no_draft: str,
        no_heads: str,
    ) -> None:
        """`no_draft` and `no_heads`: why there are none."""
        self._load = load
        self._backend = backend
        self._ahead = heads if draft is None else draft
        """What guesses for all sequences together."""
        self.no_draft, self.no_heads = no_draft, no_heads
        self.draft_id = "" if load.draft is None or draft is None else load.draft.id
        """Empty: no draft model."""
        self.drafted_by: SourceName | None = "draft" if draft is not None else "mtp" if heads is not None else None

    @property
    def is_off(self) -> bool:
        """Whether nothing guesses."""
        return self._backend is None or bool(self.why_off)

    @property
    def why_off(self) -> str:
        """Why nothing guesses; empty for an encoder, too."""
        if self._backend is None:
            return ""
        if self._load.options.speculation == "off":
            return AS_TUNED if "speculation" in self._load.tuned_settings else "as requested"
        if not self._backend.cells.max_rollback:
            return f"a {self._backend.cells.memory_kind} memory of this architecture cannot roll back wrong guesses"
        return ""

    @property
    def names(self) -> tuple[SourceName, ...]:
        """All sources; none if nothing guesses."""
        if self.is_off:
            return ()
        return ("lookup", "prediction") if self.drafted_by is None else ("lookup", "prediction", self.drafted_by)

    def experience(self) -> Experience | None:
        """What sequences pass on to later ones; None if nothing guesses. Asked once a draft that fails was dropped."""
        return None if self.is_off else Experience(drafted_by=self.drafted_by)

    def proposers(self, team: Team, on_drop: Callable[[str], None]) -> Proposers:
        """For the engine. `on_drop` is called with the reason when the draft fails: while it warms up, or later."""
        make = None if self._ahead is None else partial(self._drafts, team=team, on_drop=on_drop)
        return Proposers(None if self.is_off else Speculator(), make)

    def drop(self) -> None:
        """Keep nothing for a draft that failed."""
        self.drafted_by = None
        if self._backend is not None and self._backend.vectors is not None:
            self._backend.vectors.stop()

    def _drafts(self, target: DraftTarget, *, team: Team, on_drop: Callable[[str], None]) -> Drafts:
        """The draft model or the heads, warmed up. Raises `LoadFailed` if a draft that was named cannot compute; others
        are dropped."""
        load, ahead = self._load, self._ahead
        assert ahead is not None
        of = load.info
        size_bytes = sum(of.layer_bytes[-1:]) + of.other_bytes if load.draft is None else load.draft.info.size_bytes
        streams = HeadStreams(ahead) if isinstance(ahead, LlamaHeads) else None
        drafts = Drafts(ahead, target, share=size_bytes / of.size_bytes, streams=streams, team=team, on_drop=on_drop)
        try:
            drafts.warm_up()
        except BackendError as error:
            if load.options.draft not in (None, "auto"):
                raise LoadFailed(f"the draft is loaded but cannot compute: {error}", param="draft") from error
            drafts.drop(error)
        return drafts
