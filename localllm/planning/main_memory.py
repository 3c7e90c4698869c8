"""The main memory of one model: planned before its load, then by what its worker reports. Knows no processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from localllm.errors import InvalidParameter
from localllm.planning import tuned
from localllm.planning.draft_plan import DraftModel, beside, draft_bytes, states_bytes
from localllm.planning.needs import embedding_bytes, need_bytes
from localllm.planning.projector_plan import Projector, projector_bytes
from localllm.planning.tuned import Tuning
from localllm.types import AppliedAdapter, LoadedModel, ModelInfo
from localllm.types.load_options import LoadOptions


class MainMemory:
    """What it needs if no layers are on devices."""

    def __init__(
        self,
        info: ModelInfo,
        options: LoadOptions,
        draft: DraftModel | None,
        tunings: Sequence[Tuning],
        projector: Projector | None = None,
    ) -> None:
        """Until it is loaded, the most that any of these tunings may need. Raises `InvalidParameter`, `LoadFailed`."""
        self.projector_bytes = projector_bytes(projector, options)
        """What an encoder of pictures and sounds needs, reserved from the load on."""
        self._info = info
        self._possible = tuned.possible(tunings, options)
        self.draft = draft
        self._embedding_bytes = embedding_bytes(info, options)
        self._draft_bytes = 0 if draft is None else draft_bytes(info, options, draft)
        self._states_bytes = 0 if draft is None else states_bytes(info, options, draft)
        self._bytes = self._planned()
        self.embeds = not info.causal
        """Whether it embeds. Embedding is counted only once it was requested, unless the model does nothing else."""
        self._adapters: dict[str, int] = {}
        """Sizes of the adapters that requests have named, by digest."""
        self._adapter_limit_mb = options.lora_mb

    @property
    def slots_bytes(self) -> int:
        """What generating text needs, with the draft and the projector."""
        return self._bytes + self.projector_bytes

    @property
    def texts_bytes(self) -> int:
        """What embedding needs beside that."""
        return self._embedding_bytes if self.embeds else 0

    @property
    def adapter_bytes(self) -> int:
        """What adapters need, in main memory or where the layers are that they change."""
        return min(sum(self._adapters.values()), self._adapter_limit_mb * 10**6)

    def use_adapters(self, together: Iterable[AppliedAdapter]) -> None:
        """Count these from now on. Raises `InvalidParameter` if they have no room together."""
        sizes = {each.digest: each.size_bytes for each in together if each.scale}
        total = sum(sizes.values())
        if total > self._adapter_limit_mb * 10**6:
            raise InvalidParameter(
                f"the request's adapters take {total / 1e6:,.0f} MB; at most {self._adapter_limit_mb:,} MB are loaded "
                "at a time (lora_mb)",
                param="model",
            )
        self._adapters |= sizes

    def drop_draft(self) -> None:
        """Count no draft from now on: it will not be loaded."""
        self.draft = None
        self._draft_bytes = self._states_bytes = 0
        self._bytes = self._planned()

    def _planned(self) -> int:
        return max(need_bytes(self._info, beside(self.draft, each)) for each in self._possible) + self._draft_bytes

    def take(self, loaded: LoadedModel, options: LoadOptions) -> None:
        """Count what its worker holds now. A draft that failed is freed, but not the buffers in which llama.cpp
        hands out its target's vectors. NextN layers that do not guess have no cache and no buffers."""
        if loaded.projector is None:
            self.projector_bytes = 0
        if "mtp" not in loaded.sources:
            options = msgspec.structs.replace(options, mtp="off")
        self._bytes = need_bytes(self._info, options, loaded.flash_attn)
        self._bytes += self._draft_bytes if loaded.draft else self._states_bytes
