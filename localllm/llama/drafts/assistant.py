"""An assistant of Gemma 4: it has no keys and values, but reads those of its target's last layers.

    first guess    the last token, and the target's vector of the token before it  ->  logits, a vector of its own
    next guesses   the token guessed, and its own vector of the guess before       ->  logits, a vector of its own

All are computed at the last token's place in the text, as the model was trained. So a stream begins with the last
token, nothing has to be caught up on, and whatever happens to the target's slots, only the vector can be missing.
"""

from __future__ import annotations

from typing import Any

from localllm.engine.backend import BackendError, Segment
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend
from localllm.llama.context import Batching
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel


class LlamaAssistant(LlamaHeads):
    """Its file fits the target (`gguf.rules.assistants`), which is empty when it is made: llama.cpp resets the target's
    cells then. It writes none: its graph stores nothing, and its own memory's functions do nothing."""

    name = "the assistant"
    param, remedy = "draft", "remove draft"
    is_own = False
    sees_last_only = True

    def __init__(self, library: Library, model: LlamaModel, target: LlamaBackend, *, threads: int, **_: Any) -> None:
        """As `LlamaHeads`, in the target's layout."""
        cells = target.cells
        assert not any(cells.length(slot) for slot in range(cells.num_slots))
        super().__init__(
            library,
            model,
            target,
            Batching(cells.num_slots),
            ctx=cells.slot_capacity,
            threads=threads,
            is_cropped=True,
            # Without flash attention values are transposed.
            flash_attn="on" if target.context.flash_attn else "off",
        )

    def earliest(self, slot: int) -> int:
        """The last token; the one after it where the vector before it is not known."""
        assert self._vectors.rows is not None
        return max(self._vectors.rows.first(slot) + 1, self._target.cells.length(slot))

    def length(self, slot: int) -> int:
        return self._lengths[slot]

    def truncate(self, slot: int, length: int) -> None:
        self._lengths[slot] = min(length, self._lengths[slot])

    def _place(self, slot: int, place: int) -> int:  # noqa: ARG002
        cells = self._target.cells
        return cells.position(slot, cells.length(slot))

    def _configure(self, params: Any) -> None:
        params.ctx_type = self._api.LLAMA_CONTEXT_TYPE_MTP  # since 0.6 others take no vectors of a target
        self._target.context.rope.apply(self._api, params)

    def _check(self) -> None:
        """Guess from a token of the target. Raises `LoadFailed`."""
        try:
            self._target.decoder.decode([Segment(0, 0, [0], 1)])
            self._target.decoder.synchronize()
            self.begins(0, 1)
            self.decode([Segment(0, 0, [0], 1)])
        except BackendError as error:
            self.free()
            raise LoadFailed(f"{error}; {self.remedy}", param=self.param) from error
        self._target.cells.truncate(0, 0)
        self.truncate(0, 0)
        self.begins(0, 0)
