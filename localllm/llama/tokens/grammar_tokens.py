"""A model's vocabulary for grammars: its tokens' bytes, its end tokens, its way of splitting texts.

Tokens that are not text (control tokens, unknown ones, and user-defined ones that look like control tokens) are marked,
so that no grammar of texts allows them. Texts that a grammar forces are tokenized by llama.cpp itself, up to
`MAX_TOKENIZED_BYTES`: its regular expressions recurse, and a grammar may force a megabyte. Knows nothing of grammars.
"""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from localllm.errors import UnsupportedParameter
from localllm.llama.enums import token_attributes, vocab_kind
from localllm.system import native_libraries

if TYPE_CHECKING:
    from llguidance import LLTokenizer

ABI = 1
MAX_TOKENIZED_BYTES = 4096
"""Bytes of a forced text at a time: more tokens than any step computes, in a millisecond."""
LEFT_OUT = 16
"""Last tokens dropped from a text cut there, since they may differ once it continues."""
BYTES_A_TOKEN = 16
"""Initial room per piece; real vocabularies need 6."""
MAX_CALLS = 32
"""Calls of llama.cpp for one text."""
_MARK_BEFORE = b"\x02"
"""Text after it is tokenized as in the middle of a text; the same as in `tokenizing`."""
_MARK = b"\xff"
"""Prefix of entries that are not text in llguidance's vocabularies."""


class Pieces(NamedTuple):
    """All tokens of a vocabulary."""

    texts: list[bytes]
    attributes: list[int]
    """Bits, as `enums.TokenAttributes` names them."""
    ends: list[int]
    """The tokens that end an answer."""


class GrammarTokens:
    """For one loaded vocabulary, which must outlive it. Any thread may use `tokenizer`."""

    def __init__(self, api: Any, handle: Any) -> None:
        """Holds the GIL for a quarter of a second at 152,000 tokens. Raises `UnsupportedParameter` with the reason why
        grammars are unavailable: llguidance cannot be imported, or the vocabulary cannot spell every text."""
        try:
            from llguidance import LLTokenizer
        except ImportError as error:
            raise no_grammars(f"llguidance cannot be imported ({error}); install localllm again") from error
        try:
            self._library: Any = native_libraries.load("vocabulary", open_library)
        except native_libraries.NotCompiled:
            self._library = None
        pieces = read_pieces(self._library, api, handle)
        if not pieces.ends:
            raise no_grammars("the model has no token that ends an answer")
        if vocab_kind(api, handle) == "WPM" or not _spells_every_byte(api, handle, pieces.texts):
            raise no_grammars("the model's vocabulary cannot spell every text")
        bits = token_attributes(api)
        never_text = bits.control | bits.unknown
        self._tokenize = _Tokenize(self._library, api, handle, pieces)
        """Called by the tokenizer as long as it lives."""
        try:
            self.tokenizer: LLTokenizer = LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]
                tokens=[
                    _MARK + text if _is_marked(text, attribute, never_text, bits.user_defined) else text
                    for text, attribute in zip(pieces.texts, pieces.attributes, strict=True)
                ],
                vocab_ptr=self._tokenize.vocab,
                tokenize_fptr=self._tokenize.function,
                eos_token=pieces.ends,
                slices=[],
            )
        except ValueError as error:
            raise no_grammars("the model's vocabulary splits texts in a way that grammars cannot follow") from error
        self.size = len(pieces.texts)
        self.end_tokens = tuple(pieces.ends)
        self.special = tuple(
            (token, text)
            for token, (text, attribute) in enumerate(zip(pieces.texts, pieces.attributes, strict=True))
            if text and _is_marked(text, attribute, never_text, bits.user_defined)
        )
        """Tokens that occur in no text: number and spelling."""


def no_grammars(reason: str) -> UnsupportedParameter:
    """The error for structured requests to a model that supports none."""
    return UnsupportedParameter(f"structured answers are not available: {reason}")


def read_pieces(library: Any, api: Any, handle: Any) -> Pieces:
    """Reads all tokens: with the compiled `library`, or slowly without it."""
    size = api.llama_vocab_n_tokens(handle)
    ends, attributes, is_end = np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size, np.uint8)
    if library is None:
        texts = [_piece(api, handle, token) for token in range(size)]
        return Pieces(
            texts,
            [api.llama_vocab_get_attr(handle, token) for token in range(size)],
            [token for token in range(size) if api.llama_vocab_is_eog(handle, token)],
        )
    room = BYTES_A_TOKEN * size
    while True:
        buffer = np.empty(room, np.uint8)
        needed = library.lv_pieces(
            handle,
            size,
            *(_address(api, name) for name in ("llama_token_to_piece", "llama_vocab_get_attr", "llama_vocab_is_eog")),
            buffer.ctypes.data,
            room,
            ends.ctypes.data,
            attributes.ctypes.data,
            is_end.ctypes.data,
        )
        if needed <= room:
            break
        room = needed
    data, places = buffer.tobytes(), [0, *ends.tolist()]
    texts = [data[begin:end] for begin, end in itertools.pairwise(places)]
    return Pieces(texts, attributes.tolist(), np.flatnonzero(is_end).tolist())


def open_library(path: Path) -> Any:
    """Raises `OSError` if the file is not a library, `ValueError` if it was built for another version of localllm."""
    library: Any = ctypes.CDLL(str(path))
    library.lv_abi.restype = ctypes.c_int32
    if (abi := library.lv_abi()) != ABI:
        raise ValueError(f"{path} has version {abi} of the interface, not {ABI}; install localllm again")
    pointer, number, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    library.lv_pieces.argtypes = [pointer, number, *[pointer] * 4, size, *[pointer] * 3]
    library.lv_pieces.restype = size
    text = ctypes.c_char_p
    library.lv_create.argtypes = [pointer, pointer, text, pointer, number, text, number, number]
    library.lv_create.restype = pointer
    library.lv_destroy.argtypes, library.lv_destroy.restype = [pointer], None
    return library


class _Tokenize:
    """`llama_tokenize` of one vocabulary as a C function and its first argument: bounded, and exact.

    llama.cpp writes a space before a SentencePiece text and after its user-defined tokens; here the tokens' pieces are
    the text. `native/vocabulary` does the same.
    """

    def __init__(self, library: Any, api: Any, handle: Any, pieces: Pieces) -> None:
        self._library = library
        mark = _MARK_BEFORE if vocab_kind(api, handle) == "SPM" else b""
        if library is not None:
            ends = np.cumsum([len(text) for text in pieces.texts], dtype=np.int64)
            self.vocab: int = library.lv_create(
                handle,
                _address(api, "llama_tokenize"),
                b"".join(pieces.texts),
                ends.ctypes.data,
                len(ends),
                mark,
                MAX_TOKENIZED_BYTES,
                LEFT_OUT,
            )
            self.function = ctypes.cast(library.lv_tokenize, ctypes.c_void_p).value
            return
        self.vocab = ctypes.cast(handle, ctypes.c_void_p).value or 0
        self._api = api
        self._handle = handle
        self._texts = pieces.texts
        self._of_byte = {text[0]: token for token, text in reversed([*enumerate(pieces.texts)]) if len(text) == 1}
        self._mark = mark
        self._mark_tokens = self._call(mark, parse_special=False)
        number, flag = ctypes.c_int32, ctypes.c_bool
        kind = ctypes.CFUNCTYPE(number, *[ctypes.c_void_p] * 2, number, ctypes.c_void_p, number, flag, flag)
        self._callback = kind(self._tokenize)
        self.function = ctypes.cast(self._callback, ctypes.c_void_p).value

    def __del__(self) -> None:
        if self._library is not None:
            self._library.lv_destroy(self.vocab)

    def _tokenize(self, _: int, text: int, length: int, found: int, room: int, __: bool, parse_special: bool) -> int:
        data = ctypes.string_at(text, min(length, MAX_TOKENIZED_BYTES))
        if length > MAX_TOKENIZED_BYTES:
            data = data.decode("utf-8", "ignore").encode()
        tokens, is_whole = self._exact(data, parse_special=parse_special)
        if (not is_whole or length > MAX_TOKENIZED_BYTES) and len(tokens) > 2 * LEFT_OUT:
            del tokens[-LEFT_OUT:]
        if len(tokens) > room:
            return -len(tokens)
        ctypes.memmove(found, (ctypes.c_int32 * len(tokens))(*tokens), 4 * len(tokens))
        return len(tokens)

    def _exact(self, data: bytes, *, parse_special: bool) -> tuple[list[int], bool]:
        tokens: list[int] = []
        for _ in range(MAX_CALLS):
            if not data:
                break
            length, num_mark = len(data), len(self._mark_tokens)
            behind = self._call(self._mark + data, parse_special=parse_special)
            for token in behind[num_mark:] if behind[:num_mark] == self._mark_tokens else ():
                piece = self._texts[token]
                if not piece or not data.startswith(piece):
                    break
                tokens.append(token)
                data = data[len(piece) :]
            if len(data) == length:
                tokens += [self._of_byte[data[0]]] if data[0] in self._of_byte else []
                data = data[1:]
        return tokens, not data

    def _call(self, data: bytes, *, parse_special: bool) -> list[int]:
        tokens = (ctypes.c_int32 * (len(data) + 16))()
        count = self._api.llama_tokenize(self._handle, data, len(data), tokens, len(tokens), False, parse_special)
        return tokens[: max(count, 0)]


def _address(api: Any, name: str) -> int | None:
    return ctypes.cast(getattr(api._lib, name), ctypes.c_void_p).value


def _piece(api: Any, handle: Any, token: int) -> bytes:
    room = 64
    while True:
        buffer = ctypes.create_string_buffer(room)
        count = api.llama_token_to_piece(handle, token, buffer, room, 0, True)
        if count >= 0:
            return buffer.raw[:count]
        room = -count


def _is_marked(text: bytes, attribute: int, never_text: int, user_defined: int) -> bool:
    """Whether a token is not text: as `llguidance.llamacpp` decides, and unknown tokens, which answers omit too."""
    if attribute & never_text:
        return True
    return bool(attribute & user_defined) and text.startswith(b"<") and text.endswith(b">")


def _spells_every_byte(api: Any, handle: Any, texts: list[bytes]) -> bool:
    """llama.cpp aborts the process on a byte that a SentencePiece vocabulary lacks."""
    return vocab_kind(api, handle) != "SPM" or len({text for text in texts if len(text) == 1}) == 256
