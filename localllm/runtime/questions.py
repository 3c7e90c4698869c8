"""Short questions to a model's worker: tokens of texts, prompts of conversations, what slots hold.

Does not know which worker answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.types import Media, MediaFile, Message, PromptCount, Rendering, SoundCuts
from localllm.types.conversation import Conversation
from localllm.types.states import SlotTransfer

NO_RENDERING = Rendering()


class Questions(ABC):
    """Each is asked of the model with that id, which is loaded if it is not."""

    _settings: Settings

    @abstractmethod
    async def _call(self, model_id: str, method: str, *args: object, files: tuple[MediaFile, ...] = ()) -> Any: ...

    async def tokenize(
        self, model_id: str, text: str, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Token ids of a text; with the model's BOS if `add_special`, its control tokens as such if `parse_special`."""
        most, size_bytes = self._settings.max_tokenize_bytes, len(text.encode("utf-8", "surrogatepass"))
        if size_bytes > most > 0:
            raise InvalidParameter(
                f"the text has {size_bytes} bytes; at most {most} may be tokenized at a time (max_tokenize_bytes); "
                "send it in parts",
                param="content",
            )
        tokens: list[int] = await self._call(model_id, "tokenize", text, add_special, parse_special)
        return tokens

    async def pieces(self, model_id: str, tokens: Sequence[int], *, special: bool = True) -> list[bytes]:
        """The bytes of each token; those of control tokens only if `special`. Raises `InvalidParameter`."""
        pieces: list[bytes] = await self._call(model_id, "pieces", tuple(tokens), special)
        return pieces

    async def render(
        self, model_id: str, messages: Sequence[Message], rendering: Rendering = NO_RENDERING, *, marker: str = ""
    ) -> str:
        """The prompt that a conversation becomes, with `marker` or what it is for each picture and sound. Raises
        `NoChatTemplate`, `TemplateError`."""
        return str(await self._call(model_id, "render", tuple(messages), rendering, marker))

    async def count(self, model_id: str, said: Conversation, rendering: Rendering = NO_RENDERING) -> PromptCount:
        """How many tokens a conversation's prompt has, with rows of media. Raises as `render`, `InvalidParameter`."""
        args = (said.messages, rendering, self._settings.max_tokenize_bytes)
        return PromptCount(*await self._call(model_id, "count", *args, files=said.files))

    async def cut_sound(self, model_id: str, sound: Media, file: MediaFile) -> SoundCuts:
        """Where a long sound is to be cut, to be read in parts. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return msgspec.convert(await self._call(model_id, "cut", sound, files=(file,)), SoundCuts)

    async def save_slot(self, model_id: str, slot: int, name: str) -> SlotTransfer:
        """Write an idle slot's content to a file of that name, for `restore_slot` of the same model and settings.

        Raises `SlotNotFound`, `SlotBusy`, `InvalidParameter`, `UnsupportedParameter` without a disk, `DiskFull`.
        """
        return msgspec.convert(await self._call(model_id, "save_slot", slot, name), SlotTransfer)

    async def restore_slot(self, model_id: str, slot: int, name: str) -> SlotTransfer:
        """Make an idle slot hold what was saved; prompts with the same prefix start from it. Raises as `save_slot`."""
        return msgspec.convert(await self._call(model_id, "restore_slot", slot, name), SlotTransfer)

    async def keep(self, model_id: str) -> int:
        """Store what the model's slots hold on disk; returns how many had something new.

        Raises `UnsupportedParameter` if it was loaded without a disk.
        """
        return int(await self._call(model_id, "keep"))

    async def erase_slot(self, model_id: str, slot: int) -> int:
        """Empty an idle slot; how many tokens it held. Raises `SlotNotFound`, `SlotBusy`."""
        return int(await self._call(model_id, "erase_slot", slot))
