"""Small self-made vocabularies in the three forms that llama.cpp knows: BPE, SentencePiece, WordPiece.

The first two hold every byte, so any text tokenizes and comes back unchanged. Knows nothing of weights.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gguf import GGUFWriter, TokenType

BOS, EOS, PAD, IM_START, IM_END = "<|bos|>", "<|eos|>", "<|pad|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (BOS, EOS, PAD, IM_START, IM_END)

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template that every vocabulary here has the tokens for."""


@dataclass(frozen=True)
class Tokenizer:
    """What goes under `tokenizer.ggml.`; `special` maps a role (`bos`, `eos`, ...) to a token id."""

    model: str
    tokens: list[str]
    types: list[int]
    special: dict[str, int]
    merges: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    flags: dict[str, bool] = field(default_factory=dict)
    pre: str = "gpt-2"
    """Of BPE: which regular expressions split a text into words."""

    def write(self, writer: GGUFWriter) -> None:
        """Add every key to a GGUF that is being written."""
        writer.add_tokenizer_model(self.model)
        if self.model == "gpt2":
            writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.merges:
            writer.add_token_merges(self.merges)
        if self.scores:
            writer.add_token_scores(self.scores)
        for role, token in self.special.items():
            writer.add_uint32(f"tokenizer.ggml.{role}_token_id", token)
        for name, value in self.flags.items():
            writer.add_bool(f"tokenizer.ggml.{name}", value)


def _letter_groups() -> Iterator[tuple[str, str]]:
    """(left, right) of merges that make every 2, then 3, then 4 letter group: 475,228 in all."""
    letters = string.ascii_lowercase
    pairs = [a + b for a, b in itertools.product(letters, letters)]
    yield from itertools.product(letters, letters)
    yield from itertools.product(pairs, letters)
    yield from itertools.product(pairs, pairs)


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each byte, in byte order (openai/gpt-2 `encoder.py`, bytes_to_unicode)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def bpe(size: int = 320) -> Tokenizer:
    """Byte-level BPE: 5 special tokens, 256 bytes, then merges up to exactly `size` tokens (at least 261)."""
    alphabet = byte_alphabet()
    merges = [("Ġ", letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    merges = list(itertools.islice(itertools.chain(merges, _letter_groups()), size - 256 - len(SPECIAL_TOKENS)))
    tokens = [*SPECIAL_TOKENS, *alphabet, *(left + right for left, right in merges)]
    if len(tokens) != size:
        raise ValueError(f"a BPE vocabulary here has from 261 to 475,000 tokens, not {size}")
    types = [TokenType.CONTROL] * len(SPECIAL_TOKENS) + [TokenType.NORMAL] * (size - len(SPECIAL_TOKENS))
    return Tokenizer(
        model="gpt2",
        tokens=tokens,
        types=[int(kind) for kind in types],
        special={"bos": 0, "eos": 1, "padding": 2, "eot": 4},
        merges=[f"{left} {right}" for left, right in merges],
        flags={"add_bos_token": True},
    )


def spm(size: int = 320) -> Tokenizer:
    """SentencePiece: unknown, 5 special tokens, 256 byte tokens, a space, then letter groups (at least 263)."""
    heads = ["<unk>", *SPECIAL_TOKENS]
    groups = (left + right for left, right in _letter_groups())
    pieces = list(itertools.islice(itertools.chain("▁", string.ascii_lowercase, groups), size - 256 - len(heads)))
    tokens = [*heads, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    if len(tokens) != size:
        raise ValueError(f"a SentencePiece vocabulary here has from 263 to 475,000 tokens, not {size}")
    types = [TokenType.UNKNOWN] + [TokenType.CONTROL] * 5 + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces)
    return Tokenizer(
        model="llama",
        tokens=tokens,
        types=[int(kind) for kind in types],
        special={"unknown": 0, "bos": 1, "eos": 2, "padding": 3, "eot": 5},
        scores=[0.0] * (256 + len(heads)) + [-float(rank) for rank in range(len(pieces))],
        flags={"add_bos_token": True, "add_space_prefix": False},
    )


def with_user_defined(tokenizer: Tokenizer, texts: Sequence[str]) -> Tokenizer:
    """The last tokens of a vocabulary give way to user-defined ones of these spellings."""
    keep = len(tokenizer.tokens) - len(texts)
    return replace(
        tokenizer,
        tokens=[*tokenizer.tokens[:keep], *texts],
        types=[*tokenizer.types[:keep], *[int(TokenType.USER_DEFINED)] * len(texts)],
        merges=[merge for merge in tokenizer.merges if merge.replace(" ", "") in tokenizer.tokens[:keep]],
    )


def wordpiece(size: int = 128) -> Tokenizer:
    """BERT's: [PAD] [UNK] [CLS] [SEP] [MASK], word starts (phantom space), then continuations without it."""
    heads = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    signs = [*string.ascii_lowercase, *string.digits, *".,!?'-"]
    groups = [left + right for left, right in itertools.islice(_letter_groups(), size)]
    tokens = [*heads, *(f"▁{sign}" for sign in signs), *string.ascii_lowercase, *groups][:size]
    types = [TokenType.CONTROL] * len(heads) + [TokenType.NORMAL] * (size - len(heads))
    return Tokenizer(
        model="bert",
        tokens=tokens,
        types=[int(kind) for kind in types],
        special={"padding": 0, "unknown": 1, "cls": 2, "bos": 2, "seperator": 3, "eos": 3, "mask": 4},
    )
