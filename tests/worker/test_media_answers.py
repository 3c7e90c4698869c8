"""Pictures and sounds from a file to logits: through decoding, encoding and the engine, against libmtmd's own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.llama.library import Library
from tests.llama.test_media_rows import Asker
from tests.models.media import KINDS, WORDS, MediaModel, MediaModelKind
from tests.worker.media_readers import File, sound
from tests.worker.seeing_models import WORD_TOKENS, SeeingModel, assert_equal, square

BEFORE, AFTER = "<|im_start|>user\nWhat is it?", "<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(params=[
    kind if kind in ("gemma3", "qwen2vl") else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS
])  # fmt: skip
def seeing(
    request: pytest.FixtureRequest, loaded: Library, media_model: Callable[[MediaModelKind], MediaModel], tmp_path: Path
) -> Iterator[SeeingModel]:
    with SeeingModel(loaded, media_model(request.param), tmp_path) as model:
        yield model


def _files(kind: MediaModelKind) -> dict[str, File]:
    """Word that answers it -> file."""
    return {"high": sound(3)} if kind == "voxtral" else {color: square(color) for color in ("red", "cyan")}


def test_logits_are_those_of_libmtmds_own_way_and_the_words_are_right(seeing: SeeingModel) -> None:
    asker = Asker(seeing.backend)
    for word, file in _files(seeing.made.kind).items():
        prompt = seeing.prompt(BEFORE, file, AFTER)
        fresh, _ = asker.answered(prompt, cached=False)
        assert np.argmax(fresh) == WORD_TOKENS[WORDS.index(word)]
        assert_equal(fresh, seeing.directly(BEFORE, file, AFTER))
        again, num_cached = asker.answered(seeing.prompt(BEFORE, file, AFTER))
        assert num_cached in (0, len(prompt.ids) - 1)
        assert_equal(again, fresh)
