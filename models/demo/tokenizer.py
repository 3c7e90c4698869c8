"""The demo model's byte-level BPE tokenizer, trained on the corpus; every byte and digit is a token."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import tokenizers
from gguf import GGUFWriter, TokenType
from numpy.typing import NDArray
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import Split

VOCAB = 4096
SPACED = 1300
"""Number of pieces with a second token that includes a preceding space."""
SPACE = "\u0120"
"""A space in the byte-to-character mapping of byte-level BPE."""
BOS, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tools>", "</tools>")
"""Single tokens that count as text: clients see them."""

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""llama.cpp's pre-tokenizer "qwen2" (llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_QWEN2)."""

ASKED_PRACTISED = 0.15
"""How often predicting a token of a question is practised; answers always are."""

_ANSWERS = re.compile(rf"(?<={re.escape(START)}assistant\n)(.*?{re.escape(END)})", re.DOTALL)


def train(texts: Iterable[str]) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `VOCAB` tokens that splits a word into the same pieces in every position.

    Merges are learned within words; merges of a space with a word's first piece come last. So a name after a space, as
    in a question, and after a quote, as in JSON, differs in at most one token, and can be copied.
    """
    texts = list(texts)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - SPACED,
        special_tokens=[BOS, START, END, *MARKUP],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = _tokenizer(models.BPE(), Split(Regex(r"\p{L}+"), behavior="isolated"), Split(" ", behavior="isolated"))
    pieces.train_from_iterator(texts, trainer)
    model = json.loads(pieces.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    merges = [(first, second) for first, second in model["merges"]]
    spaced = _spaced(_tokenizer(models.BPE(vocab=vocab, merges=merges)), texts)
    for piece in spaced[: VOCAB - len(vocab)]:
        vocab[SPACE + piece] = len(vocab)
        merges.append((SPACE, piece))
    tokenizer = of(vocab, merges)
    missing = VOCAB - tokenizer.get_vocab_size()
    tokenizer.add_tokens([f"<|unused{number}|>" for number in range(missing)])
    return tokenizer


def of(vocab: dict[str, int], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """The tokenizer of such pieces."""
    tokenizer = _tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.add_special_tokens([BOS, START, END, *MARKUP])
    return tokenizer


def _tokenizer(model: models.Model, *splits: pre_tokenizers.PreTokenizer) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            Split(Regex(SPLIT), behavior="isolated"),
            *splits,
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _spaced(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[str]:
    """The pieces that follow a space inside a pre-token, the most frequent first."""
    counts: Counter[str] = Counter()
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        pairs = zip(encoding.tokens, encoding.tokens[1:], encoding.offsets, encoding.offsets[1:], strict=False)
        counts.update(second for first, second, before, after in pairs if first == SPACE and before[1] == after[0])
    return [piece for piece, _ in counts.most_common() if SPACE not in piece and "\u010a" not in piece]


def encode(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Concatenated conversations, each beginning with BOS: token ids, and how often predicting each is practised.

    Two vectors of the same length. An opened `<think>` belongs to the prompt, as in the chat template.
    """
    pieces, practised = [], []
    for text in texts:
        parts = _ANSWERS.split(text)
        pieces.append(BOS)
        practised.append(0.0)
        for number, part in enumerate(parts):
            if number % 2 and part.startswith("<think>\n"):
                pieces.append("<think>\n")
                practised.append(ASKED_PRACTISED)
                part = part.removeprefix("<think>\n")
            pieces.append(part)
            practised.append(1.0 if number % 2 else ASKED_PRACTISED)
    encoded = tokenizer.encode_batch_fast(pieces, add_special_tokens=False)
    ids = np.concatenate([np.array(one.ids, np.uint16) for one in encoded])
    return ids, np.repeat(np.array(practised, np.float32), [len(one.ids) for one in encoded])


def write(tokenizer: tokenizers.Tokenizer, writer: GGUFWriter) -> None:
    """The tokenizer's metadata in a GGUF file."""
    model = json.loads(tokenizer.to_str())["model"]
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    tokens = [tokenizer.id_to_token(number) for number in range(VOCAB)]
    kinds = {BOS: TokenType.CONTROL, START: TokenType.CONTROL, END: TokenType.CONTROL}
    kinds |= dict.fromkeys(MARKUP, TokenType.USER_DEFINED)
    kinds |= {token: TokenType.UNUSED for token in added if token.startswith("<|unused")}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([kinds.get(token, TokenType.NORMAL) for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(tokenizer.token_to_id(BOS))
    writer.add_eos_token_id(tokenizer.token_to_id(END))
    writer.add_eot_token_id(tokenizer.token_to_id(END))
    writer.add_add_bos_token(True)
