"""A text tokenized in steps has the tokens that llama.cpp gives it in one, whatever is spelled in it."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens import text_cuts
from localllm.llama.tokens.text_cuts import MAX_PIECE_CHARACTERS
from localllm.llama.tokens.vocab import Vocab
from localllm.registry.resolve import resolve
from tests.models.families import write_embedding
from tests.models.maker import write_llama
from tests.models.tokenizers import SPECIAL_TOKENS, Tokenizer, bpe, spm, with_user_defined

RUNS = ("  ", "    ", "        ", "\n\n", "<tool>", "</tool>", "日")
OVERLAPPING = (">>title<<", "<<end>>")
VOCABULARIES: dict[str, Tokenizer] = {
    "bpe": bpe(),
    "bpe, regular expressions of the library": dataclasses.replace(bpe(), pre="deepseek-llm"),
    "bpe, user-defined": with_user_defined(bpe(1000), RUNS),
    "bpe, overlapping": with_user_defined(bpe(400), OVERLAPPING),
    "bpe, end token": dataclasses.replace(bpe(), flags={"add_bos_token": False, "add_eos_token": True}),
    "spm": spm(1000),
    "spm, space before": dataclasses.replace(spm(1000), flags={"add_bos_token": True, "add_space_prefix": True}),
    "spm, user-defined": dataclasses.replace(
        with_user_defined(spm(400), RUNS), flags={"add_bos_token": True, "add_eos_token": True}
    ),
}
LETTERS = [
    "a",
    "the ",
    "of",
    " word",
    "  ",
    " ",
    "\n",
    "\n\n",
    "\t",
    "1",
    "1234",
    ".",
    ", ",
    "!?",
    "é",
    "日本",
    "。",
    "🙂",
    "-",
]


@pytest.fixture(scope="module")
def models(loaded_library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LlamaModel]]:
    folder = tmp_path_factory.mktemp("vocabularies")
    paths = {
        name: write_llama(folder / f"{number}.gguf", vocab=len(tokenizer.tokens), tokenizer=tokenizer)
        for number, (name, tokenizer) in enumerate(VOCABULARIES.items())
    }
    paths["wordpiece"] = write_embedding(folder / "bert.gguf")
    paths["demo"] = resolve("demo", folder).path
    loaded = {name: _load(loaded_library, path) for name, path in paths.items()}
    yield loaded
    for model in loaded.values():
        model.close()


def _load(library: Library, path: Path) -> LlamaModel:
    return LlamaModel(library, path, gpu_layers=0, devices=(), must_offload=False)


def in_one_call(api: Any, model: LlamaModel, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
    data = text.encode()
    buffer = (ctypes.c_int32 * (2 * len(data) + 8))()
    count = api.llama_tokenize(model.vocab, data, len(data), buffer, len(buffer), add_special, parse_special)
    return buffer[:count]


def spellings(name: str) -> list[str]:
    heads = ("[CLS]", "[SEP]", "[UNK]") if name == "wordpiece" else SPECIAL_TOKENS
    special = [*heads, "<think>", *(RUNS if "user" in name else ()), *(OVERLAPPING if "over" in name else ())]
    return [*special, *(text[: len(text) // 2] for text in special), *LETTERS]


@pytest.mark.parametrize("name", [*VOCABULARIES, "wordpiece", "demo"])
@pytest.mark.parametrize("piece_characters", [8, text_cuts.PIECE_CHARACTERS])
def test_every_text_has_the_tokens_that_one_call_gives_it(
    loaded_library: Library, models: dict[str, LlamaModel], monkeypatch: pytest.MonkeyPatch, name: str,
    piece_characters: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(text_cuts, "PIECE_CHARACTERS", piece_characters)
    api = loaded_library.api
    vocab = Vocab(api, models[name].vocab)

    @settings(max_examples=60)
    @given(st.lists(st.sampled_from(spellings(name)), max_size=40), st.booleans(), st.booleans())
    def check(parts: list[str], add_special: bool, parse_special: bool) -> None:
        text = "".join(parts)
        # A spelling that is read as the token gets no second one.
        has_bos = parse_special and text.startswith(vocab.bos_text) and name != "bpe, end token"
        expected = in_one_call(
            api, models[name], text, add_special=add_special and not has_bos, parse_special=parse_special
        )
        assert vocab.tokenize(text, add_special=add_special, parse_special=parse_special) == expected
        if text and vocab.fewest_tokens(text):
            assert len(expected) >= vocab.fewest_tokens(text)

    check()


@pytest.mark.parametrize("name", [*VOCABULARIES, "wordpiece", "demo"])
def test_a_long_text_takes_many_steps_and_has_the_same_tokens(
    loaded_library: Library, models: dict[str, LlamaModel], name: str
) -> None:
    text = "".join(f"the word number {number}, of them all.\n\n" for number in range(5000))
    vocab = Vocab(loaded_library.api, models[name].vocab)
    steps = list(vocab.tokenize_in_steps(text))
    assert len(steps) > len(text) / text_cuts.MAX_PIECE_CHARACTERS
    assert [token for step in steps for token in step] == in_one_call(
        loaded_library.api, models[name], text, add_special=True, parse_special=True
    )


@pytest.mark.parametrize("name", ["bpe", "spm", "spm, space before", "demo"])
@pytest.mark.parametrize("character", ["a", "1", "\n", "🙂"])
def test_a_run_of_one_character_is_cut_and_comes_back_whole(
    loaded_library: Library, models: dict[str, LlamaModel], name: str, character: str
) -> None:
    text = "x" + character * (3 * MAX_PIECE_CHARACTERS)
    vocab = Vocab(loaded_library.api, models[name].vocab)
    steps = list(vocab.tokenize_in_steps(text, add_special=False))
    assert len(steps) >= 3
    data = b"".join(vocab.piece(token, special=False) for step in steps for token in step)
    assert data.decode().removeprefix(" " if "before" in name else "") == text


def test_twenty_thousand_special_tokens_are_found_one_by_one(
    loaded_library: Library, models: dict[str, LlamaModel]
) -> None:
    vocab = Vocab(loaded_library.api, models["bpe"].vocab)
    end, letter = vocab.tokenize("<|im_end|>x", add_special=False)
    assert vocab.tokenize("<|im_end|>x" * 20_000, add_special=False) == [end, letter] * 20_000


def test_a_memo_is_asked_for_a_text_that_was_tokenized_before(
    loaded_library: Library, models: dict[str, LlamaModel]
) -> None:
    vocab = Vocab(loaded_library.api, models["bpe"].vocab)
    text = "<|im_start|>user\nhello there" * 3
    memo: dict[tuple[str, bool], list[int]] = {}
    first, second = (list(vocab.tokenize_in_steps(text, memo=memo)) for _ in range(2))
    assert first == second
    assert len(memo) == 1


def test_no_number_of_bytes_is_too_many_for_a_vocabulary_that_drops_some(
    loaded_library: Library, models: dict[str, LlamaModel]
) -> None:
    assert Vocab(loaded_library.api, models["wordpiece"].vocab).fewest_tokens("a" * 10**6) == 0
    assert Vocab(loaded_library.api, models["demo"].vocab).fewest_tokens("a" * 10**6) > 10**4
