"""Tokenizes with llama.cpp in small steps, with the tokens that one call for the whole text would give.

Special tokens are found here, long texts are cut at token boundaries, and llama.cpp gets what lies between. So a caller
can stop between two steps or let others go first. Knows nothing of requests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from localllm.llama.enums import TokenAttributes, token_attributes, vocab_kind
from localllm.llama.tokens.special_tokens import SpecialToken, SpecialTokens
from localllm.llama.tokens.text_cuts import TextCuts, find_delimiters

_MARK = "\x02"
"""Prefix for pieces that continue a SentencePiece text: llama.cpp puts a space before its input, and none after this.
"""

Memo = dict[tuple[str, bool], list[int]]
"""Pieces and their tokens: texts of one request share prefixes."""


class TextTokenizer:
    """For one loaded vocabulary. Thread-safe."""

    def __init__(self, api: Any, handle: Any) -> None:
        self._api = api
        self._handle = handle
        self._kind = vocab_kind(api, handle)
        self._bits = bits = token_attributes(api)
        size = api.llama_vocab_n_tokens(handle)
        texts: list[bytes] = [api.llama_vocab_get_text(handle, token) for token in range(size)]
        attributes: list[int] = [api.llama_vocab_get_attr(handle, token) for token in range(size)]
        self._control = _special_tokens(texts, attributes, bits, bits.control | bits.user_defined | bits.unknown, 0)
        self._user_defined = _special_tokens(texts, attributes, bits, bits.user_defined, bits.control | bits.unknown)
        self._mark = ""
        self._bos, self._eos = self._ends()
        self._longest = self._longest_token_bytes(texts, attributes)
        self._mark_tokens: list[int] = []
        self._cuts = self._find_cuts(texts, attributes)

    def steps(
        self, text: str, *, begin: bool, end: bool, parse_special: bool, memo: Memo | None = None
    ) -> Iterator[list[int]]:
        """The text's tokens, some at each step of about 10 ms; an empty step only continues the search.

        `begin`, `end`: whether to add the vocabulary's tokens before and after texts.
        """
        if begin:
            yield self._bos
        special = self._control if parse_special else self._user_defined
        if special is None:
            yield self._call(text, parse_special=parse_special)
        else:
            for part in special.cut(text):
                if isinstance(part, int):
                    yield [part]
                elif part:
                    for piece in self._cuts.pieces(part):
                        tokens = None if memo is None else memo.get(piece)
                        if tokens is None:
                            tokens = self._go_on(piece.text) if piece.continues else self._call(piece.text)
                            if memo is not None:
                                memo[piece] = tokens
                        yield tokens
                else:
                    yield []
        if end:
            yield self._eos

    def is_closed(self, text: str, piece: Callable[..., bytes]) -> bool:
        """Whether the text already ends with what would be added after it. `piece`: the bytes of a token."""
        spelled = b"".join(piece(token, special=True) for token in self._eos).decode("utf-8", "replace")
        return bool(spelled) and text.endswith(spelled)

    def fewest_tokens(self, num_bytes: int) -> int:
        """The fewest tokens for that many bytes; 0 if the vocabulary drops some characters or merges any number."""
        return 0 if self._longest is None else -(-num_bytes // self._longest)

    def _go_on(self, text: str) -> list[int]:
        """Tokens of a piece that continues a fragment."""
        return self._call(self._mark + text)[len(self._mark_tokens) :]

    def _call(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        room = 1 << (len(data) + 8).bit_length()  # ctypes creates a type for each length
        while True:
            buffer = (ctypes.c_int32 * room)()
            count = self._api.llama_tokenize(self._handle, data, len(data), buffer, room, add_special, parse_special)
            if count >= 0:
                return buffer[:count]
            room = -count  # more tokens than bytes: llama.cpp returns how many

    def _ends(self) -> tuple[list[int], list[int]]:
        """What `add_special` puts before and after a text."""
        both = self._call("", add_special=True)
        num_before = 1 if self._kind == "WPM" or self._api.llama_vocab_get_add_bos(self._handle) else 0
        return both[:num_before], both[num_before:]

    def _longest_token_bytes(self, texts: Sequence[bytes], attributes: Sequence[int]) -> int | None:
        """Bytes of the longest token; None if a token may stand for any number."""
        strip_bits = self._bits.strips_left | self._bits.strips_right
        strips = any(attribute & strip_bits for attribute in attributes)
        if strips or self._kind not in ("SPM", "BPE") or b"<dna>" in texts:
            return None
        known = set(texts)
        if not known >= _HEX_BYTES and (self._kind == "SPM" or not known >= _NEEDED_LETTERS):
            return None
        if not (self._call(" ") and self._call("\t") and self._call("\n")):
            return None
        return max(map(len, texts))

    def _find_cuts(self, texts: Sequence[bytes], attributes: Sequence[int]) -> TextCuts:
        nowhere = TextCuts("", may_force=False)
        if self._kind is None or b"<dna>" in texts:
            return nowhere
        special = self._bits.control | self._bits.user_defined | self._bits.unknown
        plain = (text for text, attribute in zip(texts, attributes, strict=True) if not attribute & special)
        joined = b"\0".join(plain).decode("utf-8", "replace")
        known = set(texts)
        if self._kind == "BPE" and not known >= _HEX_BYTES and len(known & _BYTE_LETTERS) > 128:
            joined = joined.translate(_BYTE_OF).encode("latin-1", "replace").decode("utf-8", "replace")
        joined = joined.replace("\u2581", " ")
        if self._kind == "SPM":
            # llama.cpp aborts on a character that has neither a token nor byte tokens, such as the mark.
            if not known >= _HEX_BYTES or _MARK in joined:
                return nowhere
            self._mark, self._mark_tokens = _MARK, self._call(_MARK)
        delimiters = find_delimiters(joined, self._call, self._go_on)
        if self._kind == "UGM":  # two unknown characters in a row form one token, so only known ones may cut
            delimiters = " " if " " in delimiters else ""
        return TextCuts(delimiters, may_force=self._kind in ("SPM", "BPE"))


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary (GPT-2's `bytes_to_unicode`)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


_LETTERS = _byte_letters()
_BYTE_OF = {ord(letter): byte for byte, letter in enumerate(_LETTERS)} | {0: 0}
_BYTE_LETTERS = {letter.encode() for letter in _LETTERS}
_NEEDED_LETTERS = {_LETTERS[byte].encode() for byte in range(0xF5) if byte not in (0xC0, 0xC1)}
"""Letters for the bytes that UTF-8 uses."""
_HEX_BYTES = {f"<0x{byte:02X}>".encode() for byte in range(256)}


def _special_tokens(
    texts: Sequence[bytes], attributes: Sequence[int], bits: TokenAttributes, wanted: int, unwanted: int
) -> SpecialTokens | None:
    """The tokens with these attributes; None if only llama.cpp can find them."""
    try:
        return SpecialTokens(
            SpecialToken(token, text.decode(), bool(attribute & bits.strips_left), bool(attribute & bits.strips_right))
            for token, (text, attribute) in enumerate(zip(texts, attributes, strict=True))
            if attribute & wanted and not attribute & unwanted
        )
    except ValueError:  # includes UnicodeDecodeError
        return None
