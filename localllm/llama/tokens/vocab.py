"""Text to token ids and token ids to bytes, by the model's own vocabulary. Thread-safe: llama.cpp's vocab is read-only.

Knows nothing of chat templates or of streaming.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.llama.enums import vocab_kind
from localllm.llama.tokens.tokenizing import Memo, TextTokenizer

_SPM_SPACE = "\u2581"


class Vocab:
    """A view of a loaded model's vocabulary, which must outlive it. Implements `engine.backend.ModelVocabulary`."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api = api
        self._handle = handle
        self.size: int = api.llama_vocab_n_tokens(handle)
        self._adds_bos = bool(api.llama_vocab_get_add_bos(handle))
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}
        self._only_characters = _characters_without_byte_tokens(api, handle, self.size)
        self._tokenizer = TextTokenizer(api, handle)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids. A text that begins with the BOS token's own spelling gets no second BOS."""
        steps = self.tokenize_in_steps(text, add_special=add_special, parse_special=parse_special)
        return [token for step in steps for token in step]

    def tokenize_in_steps(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        memo: Memo | None = None,
        closes: bool = False,
    ) -> Iterator[list[int]]:
        """`tokenize`, in steps of some 10 ms. `memo`: for texts that have much in common.

        `closes`: a text that contains its own BOS is closed like any other, as encoders need it; a prompt, which is to
        be continued, is not.
        """
        self._check_characters(text)
        opened = add_special and parse_special and self._adds_bos and _begins(text, self.bos_text)
        closed = parse_special and closes and self._tokenizer.is_closed(text, self.piece)
        return self._tokenizer.steps(
            text,
            begin=add_special and not opened,
            end=add_special and not closed and (closes or not opened),
            parse_special=parse_special,
            memo=memo,
        )

    def fewest_tokens(self, text: str) -> int:
        """The fewest tokens of the text, by its bytes alone."""
        return self._tokenizer.fewest_tokens(len(text.encode("utf-8", "surrogatepass")))

    def fill_in_middle(self, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:
        """The prompt that makes a model write what belongs between two texts. Raises `UnsupportedParameter`.

        Prefix first, as in llama-server's /infill and the models' own papers (PSM, arXiv:2207.14255).
        """
        marks = self.infill_marks
        before, after, middle = marks["prefix"], marks["suffix"], marks["middle"]
        if before is None or after is None or middle is None:
            raise UnsupportedParameter(
                "the model has no tokens for filling in the middle; leave out suffix", param="suffix"
            )
        bos = [] if marks["bos"] is None else [marks["bos"]]
        return [*bos, before, *prefix, after, *suffix, middle]

    @functools.cached_property
    def infill_marks(self) -> dict[str, int | None]:
        """The tokens around texts with a gap, and the BOS before them; None for those that do not exist."""
        names = {"prefix": "pre", "suffix": "suf", "middle": "mid", "repository": "rep", "file": "sep"}
        found = {name: getattr(self._api, f"llama_vocab_fim_{short}")(self._handle) for name, short in names.items()}
        found["bos"] = self._api.llama_vocab_bos(self._handle) if self._adds_bos else -1
        return {name: token if token >= 0 else None for name, token in found.items()}

    def pair(self, query: Sequence[int], document: Sequence[int]) -> list[int]:
        """Input for ranking: both texts between the model's special tokens, as in llama-server's
        `format_prompt_rerank`."""
        api, handle = self._api, self._handle
        ends = [self._end] if api.llama_vocab_get_add_eos(handle) and self._end >= 0 else []
        separator = [api.llama_vocab_sep(handle)] if api.llama_vocab_get_add_sep(handle) else []
        bos = [api.llama_vocab_bos(handle)] if self._adds_bos else []
        return [*bos, *query, *ends, *separator, *document, *ends]

    @functools.cached_property
    def closing_tokens(self) -> tuple[int, ...]:
        """Tokens that `tokenize` may put after a text, so that a truncated text keeps them."""
        return tuple(token for token in (self._end, self._api.llama_vocab_sep(self._handle)) if token >= 0)

    @property
    def _end(self) -> int:
        eos: int = self._api.llama_vocab_eos(self._handle)
        return eos if eos >= 0 else int(self._api.llama_vocab_sep(self._handle))

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]:
        """The same ids; raises `InvalidParameter`, which names the first one that is not in the vocabulary."""
        for token in tokens:
            if not 0 <= token < self.size:
                raise InvalidParameter(f"token {token} is not in the vocabulary of {self.size}", param=param)
        return list(tokens)

    def token_bytes(self, token: int) -> bytes:
        """What the token stands for in text; empty for control tokens."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self.piece(token, special=False)
        return piece

    def spelled(self, token: int) -> bytes:
        """The bytes that spell the token, including control tokens."""
        return self.piece(token, special=True)

    def ends_generation(self, token: int) -> bool:
        ends = self._ends.get(token)
        if ends is None:
            ends = self._ends[token] = bool(self._api.llama_vocab_is_eog(self._handle, token))
        return ends

    @functools.cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """All tokens for which `ends_generation` is true."""
        return tuple(token for token in range(self.size) if self.ends_generation(token))

    def _check_characters(self, text: str) -> None:
        """Raises `InvalidParameter` for a character that would make llama.cpp abort."""
        known = self._only_characters
        if known is None:
            return
        for character in sorted(set(text.replace(" ", _SPM_SPACE)) - known):
            if not all(chr(byte) in known for byte in character.encode("utf-8", "surrogatepass")):
                raise InvalidParameter(
                    f"the model's vocabulary has no token for the character {character!r}; leave it out", param="prompt"
                )

    @property
    def bos_text(self) -> str:
        return self._special_text(self._api.llama_vocab_bos(self._handle))

    @property
    def eos_text(self) -> str:
        return self._special_text(self._api.llama_vocab_eos(self._handle))

    def _special_text(self, token: int) -> str:
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def piece(self, token: int, *, special: bool) -> bytes:
        """The token's bytes; with `special`, also those of control tokens, as the vocabulary spells them."""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._api.llama_token_to_piece(self._handle, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count


def _begins(text: str, special: str) -> bool:
    return bool(special) and text.startswith(special)


def _characters_without_byte_tokens(api: Any, handle: Any, size: int) -> frozenset[str] | None:
    """The characters that are tokens of a SentencePiece vocabulary without byte tokens; None for all others.

    llama.cpp spells other characters in bytes, and aborts the process when a byte is not a token either
    (`llama_vocab::byte_to_token`, an `.at()` without a catch). Byte tokens come first, so a sound vocabulary is
    recognized after a few hundred tokens.
    """
    if vocab_kind(api, handle) != "SPM":
        return None
    missing = {f"<0x{byte:02X}>".encode() for byte in range(256)}
    characters = set()
    for token in range(size):
        text = api.llama_vocab_get_text(handle, token)
        missing.discard(text)
        if not missing:
            return None
        spelled = text.decode("utf-8", "replace")
        if len(spelled) == 1:
            characters.add(spelled)
    return frozenset(characters)
