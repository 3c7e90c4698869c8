"""A model whose vocabulary has the tokens for it is asked for what stands between two texts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from localllm.errors import UnsupportedParameter
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

PREFIX, SUFFIX, MIDDLE = 300, 301, 302


def test_the_prompt_is_prefix_suffix_middle_as_the_models_were_trained(loaded_library: Library, tmp_path: Path) -> None:
    vocabulary = bpe()
    special = {**vocabulary.special, "fim_pre": PREFIX, "fim_suf": SUFFIX, "fim_mid": MIDDLE}
    path = write_llama(tmp_path / "fim.gguf", tokenizer=dataclasses.replace(vocabulary, special=special))
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    vocab = Vocab(loaded_library.api, model.vocab)
    plain = [vocab.tokenize(text, add_special=False) for text in ("def add(a, b):", "\n\nprint(add(1, 2))")]
    bos = vocab.tokenize("")[0]
    assert vocab.fill_in_middle(*plain) == [bos, PREFIX, *plain[0], SUFFIX, *plain[1], MIDDLE]
    assert vocab.fill_in_middle([], []) == [bos, PREFIX, SUFFIX, MIDDLE]
    model.close()


def test_a_model_without_such_tokens_says_so(loaded_library: Library, tiny_model: Path) -> None:
    model = LlamaModel(loaded_library, tiny_model, gpu_layers=0, devices=(), must_offload=False)
    vocab = Vocab(loaded_library.api, model.vocab)
    with pytest.raises(UnsupportedParameter, match="suffix"):
        vocab.fill_in_middle([5], [6])
    model.close()
