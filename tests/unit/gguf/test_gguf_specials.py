"""The texts of special tokens, wherever in a vocabulary they stand, and whatever a file says of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localllm.errors import InvalidModelFile
from localllm.gguf import SpecialTexts, read_header, read_model_info, special_texts, values
from localllm.gguf.rules.fill_in_middle import fills_in_middle
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.mark.parametrize("most_items", [4096, 8])
def test_they_are_found_in_short_vocabularies_and_in_those_that_are_passed_over(
    model: Path, most_items: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_ARRAY_ITEMS", most_items)
    header = read_header(model)
    assert isinstance(header.metadata["tokenizer.ggml.tokens"].value, tuple) is (most_items == 4096)
    assert special_texts(header) == SpecialTexts("<|bos|>", "<|eos|>")


def test_a_file_emptied_since_its_header_was_read_is_reported_as_such(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_ARRAY_ITEMS", 8)
    path = tmp_path / "emptied.gguf"
    path.write_bytes(model.read_bytes())
    header = read_header(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidModelFile, match="the header"):
        fills_in_middle(header)


@pytest.mark.parametrize("most_items", [4096, 8])
@pytest.mark.parametrize("token", [10**6, -1])
def test_a_token_that_is_not_there_has_no_text(
    model: Path, most_items: int, token: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_ARRAY_ITEMS", most_items)
    header = read_header(model)
    key = "tokenizer.ggml.bos_token_id"
    header.metadata[key] = header.metadata[key]._replace(value=token)
    header.metadata.pop("tokenizer.ggml.eos_token_id")
    assert special_texts(header) == SpecialTexts()


def test_a_file_that_was_cut_meanwhile_is_an_error(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MAX_ARRAY_ITEMS", 8)
    path = tmp_path / "cut.gguf"
    path.write_bytes(model.read_bytes())
    header = read_header(path)
    path.write_bytes(model.read_bytes()[:200])
    with pytest.raises(InvalidModelFile):
        special_texts(header)


def with_tokens(path: Path, tokens: dict[int, str], special: dict[str, int]) -> Path:
    vocabulary = bpe(320)
    texts = [tokens.get(index, text) for index, text in enumerate(vocabulary.tokens)]
    return write_llama(path, tokenizer=replace(vocabulary, tokens=texts, special={**vocabulary.special, **special}))


@pytest.mark.parametrize("most_items", [4096, 8])
@pytest.mark.parametrize(
    ("tokens", "special", "fills_in"),
    [
        ({}, {}, False),
        ({}, {"fim_pre": 300, "fim_suf": 301, "fim_mid": 302}, True),
        ({}, {"prefix": 300, "suffix": 301, "middle": 302}, True),
        ({}, {"fim_pre": 300, "fim_suf": 301}, False),
        ({300: "<|fim_prefix|>", 301: "<|fim_suffix|>", 302: "<|fim_middle|>"}, {}, True),
        ({300: "<\uff5cfim\u2581begin\uff5c>", 301: "<\uff5cfim\u2581hole\uff5c>"}, {"fim_mid": 302}, True),
        ({300: "<|fim_prefix|>", 301: "<|fim_suffix|>", 302: "a<|fim_middle|>"}, {}, False),
    ],
)
def test_a_model_fills_in_the_middle_by_its_keys_or_by_the_names_of_its_tokens(
    tmp_path: Path,
    most_items: int,
    tokens: dict[int, str],
    special: dict[str, int],
    fills_in: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "MAX_ARRAY_ITEMS", most_items)
    path = with_tokens(tmp_path / "m.gguf", tokens, special)
    assert read_model_info(path).fills_in_middle is fills_in
