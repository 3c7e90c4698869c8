"""What a prompt is made from, and the part of a vocabulary that this needs. Knows nothing of how it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Tokens
from typing import NamedTuple, Protocol

from localllm.engine.media import MediaRows
from localllm.errors import LocalLLMError
from localllm.types import Infill, Media, MediaKind, Message, Rendering, SoundCuts
from localllm.types.states import MediaStatus

NO_RENDERING = Rendering()

Memo = dict[tuple[str, bool], list[int]]


class Tokenizer(Protocol):
    """The part of `llama.tokens.vocab.Vocab` that preparing needs."""

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...

    def tokenize_in_steps(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        memo: Memo | None = None,
        closes: bool = False,
    ) -> Iterator[list[int]]: ...

    def fewest_tokens(self, text: str) -> int: ...

    @property
    def end_tokens(self) -> tuple[int, ...]: ...

    def check_tokens(self, tokens: Tokens[int], param: str = "prompt") -> list[int]: ...

    def token_bytes(self, token: int) -> bytes: ...

    def piece(self, token: int, *, special: bool) -> bytes: ...

    def fill_in_middle(self, prefix: Tokens[int], suffix: Tokens[int]) -> list[int]: ...

    @property
    def infill_marks(self) -> dict[str, int | None]: ...


class Source(NamedTuple):
    """All that the prompt depends on: requests with equal sources share it."""

    messages: tuple[Message, ...] | None
    prompt: str | None
    prompt_tokens: tuple[int, ...] | None
    suffix: str | None
    cache_prompt: bool
    rendering: Rendering = NO_RENDERING
    infill: Infill | None = None
    wants_text: bool = False
    """Whether the prompt's text is wanted."""
    cache_salt: str = ""
    """For messages: remembered answers are separate for each salt."""
    prompt_parts: tuple[str | Media, ...] | None = None


class Head(NamedTuple):
    """The beginning of a rendered text whose tokens are known."""

    tokens: list[int]
    num_characters: int


MediaPieces = tuple[tuple[int, ...] | MediaRows, ...]
"""What stands in a prompt for one picture or sound: token ids before, between and after its rows, and the rows."""


class OmittedMedia(NamedTuple):
    """What stands in a prompt for a picture or sound of the past that cannot be read."""

    tokens: tuple[int, ...]
    note: str


class MissingFiles(NamedTuple):
    """The reader needs the bytes of these pictures and sounds."""

    digests: tuple[str, ...]


class MediaReader(Protocol):
    """Turns pictures and sounds into pieces of a prompt. Any thread; `worker.media` implements it."""

    @property
    def kinds(self) -> frozenset[MediaKind]:
        """What the model reads."""
        ...

    def status(self) -> MediaStatus:
        """What was done since the model was loaded; never slow."""
        ...

    def add(
        self,
        media: Tokens[Media],
        files: Mapping[str, bytes],
        done: Callable[[Tokens[MediaPieces | OmittedMedia] | MissingFiles | LocalLLMError], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Read headers and sizes, and call `done` on a thread of its own with the pieces of each, in order, or with
        what is wrong with one that is not of the past; never, if they are no longer wanted. Encodes nothing: rows come
        when the engine wants them.

        `files`: digest -> bytes, as far as they were sent. Without the bytes of one that is not remembered, `done` gets
        `MissingFiles`; call again with these.
        """
        ...

    def cut(
        self,
        sound: Media,
        files: Mapping[str, bytes],
        done: Callable[[SoundCuts | MissingFiles | LocalLLMError], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Find where a long sound is to be cut; otherwise as `add`. Its parts, read soon, are not decoded again."""
        ...
