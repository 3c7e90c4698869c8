"""The texts of special tokens, wherever in a vocabulary they stand, and whatever a file says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from localllm.errors import InvalidModelFile
from localllm.gguf import SpecialTexts, read_header, special_texts, values
from tests.models.maker import write_llama


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
