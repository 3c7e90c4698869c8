"""A file's header may state a pooling, which is meant for embeddings: guesses are made as without it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.backend import Segment
from localllm.gguf import read_model_info
from localllm.llama import library
from tests.llama.guessing import LAYERS, Headed, opened_draft, opened_heads
from tests.models.assistant import write_assistant, write_gemma4
from tests.models.builder import Builder
from tests.models.dflash import write_dflash
from tests.models.eagle import write_eagle
from tests.models.headed import write_headed
from tests.models.maker import write_llama

LAST = 3
"""LLAMA_POOLING_TYPE_LAST"""
DRAFTS: dict[str, tuple[Callable[..., Path], Callable[..., Path]]] = {
    "assistant": (write_gemma4, write_assistant),
    "eagle3": (partial(write_llama, n_layer=4), partial(write_eagle, layers=LAYERS)),
    "dflash": (partial(write_llama, n_layer=4), partial(write_dflash, layers=LAYERS)),
}


def stating_pooling(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files written from now on state a pooling."""
    close = Builder.close

    def closed(builder: Builder) -> None:
        builder.keys({"pooling_type": LAST})
        close(builder)

    monkeypatch.setattr(Builder, "close", closed)


def logits_of_guesses(opened: AbstractContextManager[Headed]) -> npt.NDArray[np.float32]:
    """Of one made from the target's vectors, and of one from the draft's own, where a draft makes them one by one."""
    tokens = [(11 * place * place) % 90 + 5 for place in range(12)]
    with opened as headed:
        target, heads = headed.target, headed.heads
        target.decoder.decode([Segment(0, 0, tokens, 1)])
        target.decoder.synchronize()
        first = heads.earliest(0)
        heads.begins(0, first)
        heads.decode([Segment(0, 0, [*tokens[first:], 9], 1)])
        made = [heads.logits(0)[0].copy()]
        if not heads.guesses_at_once:
            heads.decode([Segment(0, heads.length(0), [17], 1)])
            made.append(heads.logits(0)[0].copy())
    return np.stack(made)


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("stated_by", ["target", "draft"])
def test_drafts_guess_as_without_a_stated_pooling(
    loaded_library: library.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, stated_by: str
) -> None:
    writers = dict(zip(("target", "draft"), DRAFTS[kind], strict=True))
    paths = {name: write(tmp_path / f"{name}.gguf") for name, write in writers.items()}
    expected = logits_of_guesses(opened_draft(loaded_library, paths["target"], paths["draft"]))
    stating_pooling(monkeypatch)
    paths[stated_by] = writers[stated_by](tmp_path / "pooled.gguf")
    assert read_model_info(paths[stated_by]).pooling == "last"
    made = logits_of_guesses(opened_draft(loaded_library, paths["target"], paths["draft"]))
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-3)


def test_nextn_layers_guess_as_without_a_stated_pooling(
    loaded_library: library.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = logits_of_guesses(opened_heads(loaded_library, write_headed(tmp_path / "plain.gguf", "qwen35moe")))
    stating_pooling(monkeypatch)
    path = write_headed(tmp_path / "pooled.gguf", "qwen35moe")
    assert read_model_info(path).pooling == "last"
    np.testing.assert_allclose(logits_of_guesses(opened_heads(loaded_library, path)), plain, rtol=0, atol=1e-3)
