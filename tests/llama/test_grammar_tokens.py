"""Grammars read a vocabulary as llama.cpp does: pieces that make the text, marks, ends, bounded splitting."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import TokenType
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from localllm.errors import UnsupportedParameter
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens import grammar_tokens
from localllm.llama.tokens.grammar_tokens import MAX_TOKENIZED_BYTES, GrammarTokens, read_pieces
from localllm.llama.tokens.vocab import Vocab
from localllm.registry.resolve import resolve
from localllm.system import native_libraries
from tests.llama.test_tokenizing import LETTERS, VOCABULARIES
from tests.models.families import write_embedding
from tests.models.maker import write_llama
from tests.models.tokenizers import spm, with_user_defined

WITH_TAGS = with_user_defined(spm(400), ("<think>", "</think>", "  "))
NO_BYTES = dataclasses.replace(
    spm(400), types=[int(TokenType.UNUSED) if kind == 6 else kind for kind in spm(400).types]
)
NAMES = [*VOCABULARIES, "spm, tags", "demo"]


@pytest.fixture(scope="module")
def models(loaded_library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LlamaModel]]:
    folder = tmp_path_factory.mktemp("vocabularies")
    made = {**VOCABULARIES, "spm, tags": WITH_TAGS}
    paths = {
        name: write_llama(folder / f"{number}.gguf", vocab=len(tokenizer.tokens), tokenizer=tokenizer)
        for number, (name, tokenizer) in enumerate(made.items())
    }
    paths["wordpiece"] = write_embedding(folder / "bert.gguf")
    paths["demo"] = resolve("demo", folder).path
    loaded = {
        name: LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
        for name, path in paths.items()
    }
    yield loaded
    for model in loaded.values():
        model.close()


@pytest.fixture(params=["compiled", "not compiled"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "not compiled":

        def load(*_: object) -> None:
            raise native_libraries.NotCompiled("no compiler")

        monkeypatch.setattr(native_libraries, "load", load)


def allowed(tokens: GrammarTokens, regex: str) -> set[int]:
    matcher = LLMatcher(tokens.tokenizer, LLMatcher.grammar_from_regex(regex))
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("name", NAMES)
def test_the_pieces_of_a_texts_tokens_are_the_text(
    loaded_library: Library, models: dict[str, LlamaModel], name: str
) -> None:
    tokens = GrammarTokens(loaded_library.api, models[name].vocab)
    vocab = Vocab(loaded_library.api, models[name].vocab)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.one_of(st.sampled_from(LETTERS), st.text(max_size=6)), max_size=20).map("".join))
    def check(text: str) -> None:
        data = text.encode()
        split = tokens.tokenizer.tokenize_str(text)
        assert tokens.tokenizer.decode_bytes(split) == data
        assert b"".join(vocab.token_bytes(token) for token in split) == data
        by_llama = vocab.tokenize(text, add_special=False, parse_special=False)
        if tokens.tokenizer.decode_bytes(by_llama) == data:  # no space was written into it
            assert split == by_llama

    check()


@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_way_reads_what_the_slow_one_does(
    loaded_library: Library, models: dict[str, LlamaModel], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    try:
        library = native_libraries.load("vocabulary", grammar_tokens.open_library)
    except native_libraries.NotCompiled as error:
        pytest.skip(str(error))
    monkeypatch.setattr(grammar_tokens, "BYTES_A_TOKEN", 1)  # too little room: what is needed is asked for again
    api, handle = loaded_library.api, models[name].vocab
    assert read_pieces(library, api, handle) == read_pieces(None, api, handle)


@pytest.mark.parametrize("name", NAMES)
def test_no_text_may_hold_a_special_token_and_all_end_tokens_may_end_it(
    loaded_library: Library, models: dict[str, LlamaModel], name: str
) -> None:
    tokens = GrammarTokens(loaded_library.api, models[name].vocab)
    vocab = Vocab(loaded_library.api, models[name].vocab)
    free = allowed(tokens, "(?s:.*)")
    ends = set(vocab.end_tokens)
    assert ends
    assert set(tokens.end_tokens) == ends <= free
    special = {token for token in range(vocab.size) if not vocab.token_bytes(token)}
    assert special & free == ends & special
    assert special <= dict(tokens.special).keys()
    for text in ("<|im_start|>", "<think>"):
        one = vocab.tokenize(text, add_special=False, parse_special=True)
        if len(one) == 1 and text.startswith(("<|im", "<think>")):
            assert one[0] not in allowed(tokens, "(?s:.*)") - ends
    assert not allowed(tokens, "a") & ends


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("name", ["bpe, regular expressions of the library", "spm, space before", "demo"])
@pytest.mark.parametrize("text", ["a" * 1_000_000, "日" * 300_000, "the word, " * 50_000])
def test_a_forced_text_of_a_megabyte_comes_in_parts_that_make_it(
    loaded_library: Library, models: dict[str, LlamaModel], name: str, text: str
) -> None:
    """One call of the library for all of it would recurse a million times, and end the process."""
    tokens = GrammarTokens(loaded_library.api, models[name].vocab)
    split = tokens.tokenizer.tokenize_str(text)
    made = tokens.tokenizer.decode_bytes(split)
    assert text.encode().startswith(made)
    assert MAX_TOKENIZED_BYTES // 2 < len(made) <= MAX_TOKENIZED_BYTES


def test_a_vocabulary_that_does_not_spell_every_text_has_no_grammars(
    loaded_library: Library, models: dict[str, LlamaModel], tmp_path: Path
) -> None:
    api = loaded_library.api
    path = write_llama(tmp_path / "m.gguf", vocab=len(NO_BYTES.tokens), tokenizer=NO_BYTES)
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    try:
        for handle in (model.vocab, models["wordpiece"].vocab):
            with pytest.raises(UnsupportedParameter, match="cannot spell every text"):
                GrammarTokens(api, handle)
    finally:
        model.close()


def test_without_llguidance_the_reason_is_told(
    loaded_library: Library, models: dict[str, LlamaModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "llguidance", None)
    with pytest.raises(UnsupportedParameter, match="llguidance cannot be imported"):
        GrammarTokens(loaded_library.api, models["demo"].vocab)
