"""Pictures and sounds wherever they stand, also those whose rows or positions depend on what stands before them:
deepseek4v pads, hunyuanvl numbers pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.folder import Folder
from localllm.llama.library import Library
from tests.kvdisks import PARTS
from tests.llama.test_media_rows import Asker
from tests.models.media import KINDS, MediaModel, MediaModelKind
from tests.worker.media_readers import File, picture, sound
from tests.worker.seeing_models import SeeingModel, assert_equal, square

NUM_PROMPTS = 12
BEGIN = f"<|im_start|>system\n{'Colors, please. ' * 5}<|im_end|>\n<|im_start|>user\n"
END = "<|im_end|>\n<|im_start|>assistant\n"


Make = Callable[[MediaModelKind], MediaModel]


def _files(kind: MediaModelKind) -> list[File]:
    if kind == "voxtral":
        return [sound(1), sound(2), sound(31)]
    return [square("red"), picture(1, 40, 24), picture(2, 64, 48)]


def _cases() -> Iterator[Any]:
    for kind, unified in itertools.product(KINDS, (False, True)):
        is_quick = (kind, unified) in (("deepseek4v", False), ("hunyuanvl", True))
        marks = () if is_quick else (pytest.mark.exhaustive,)
        yield pytest.param(kind, unified, marks=marks, id=f"{kind}{', unified' * unified}")


@pytest.mark.parametrize(("kind", "unified"), [*_cases()])
def test_random_conversations_have_libmtmds_logits_fresh_cached_and_restored(
    loaded: Library, media_model: Make, kind: MediaModelKind, unified: bool, tmp_path: Path
) -> None:
    """Each continues an earlier one, behind which its prefix is found: in a slot, in main memory or on disk."""
    with SeeingModel(loaded, media_model(kind), tmp_path, unified=unified) as seeing:
        _converse(seeing, _files(kind), tmp_path)


def _converse(seeing: SeeingModel, files: list[File], tmp_path: Path) -> None:

    def new_asker() -> Asker:
        def open_disk(on_read: Callable[..., None]) -> DiskCache:
            return DiskCache(Folder(tmp_path / "kv", model="tiny", parts=PARTS, max_bytes=2**26), on_read=on_read)

        return Asker(seeing.backend, open_disk=open_disk)

    rng = np.random.default_rng(1)
    conversations: list[tuple[str | File, ...]] = [(BEGIN,)]
    parents = [0]
    for number in range(NUM_PROMPTS):
        parents.append(int(rng.integers(len(conversations))))
        text = ["x" * (number % 4)] if number % 4 else []
        conversations.append((*conversations[parents[-1]], *text, files[number % 3], END))
    prompts = [seeing.prompt(*parts) for parts in conversations]
    asker = new_asker()
    expected = [asker.answered(prompt, cached=False)[0] for prompt in prompts]
    for parts, logits in zip(conversations, expected, strict=True):
        assert_equal(logits, seeing.directly(*parts))
    num_repeated = num_cached = 0
    for number, (prompt, parent) in enumerate(zip(prompts, parents, strict=True)):
        if number % 4 == 1:  # restarted
            assert asker.engine.writeback is not None
            asker.engine.writeback.store_all()
            asker = new_asker()
        found, cached = asker.answered(prompt)
        assert_equal(found, expected[number])
        num_repeated += len(prompts[parent].ids) * (number > 0)
        num_cached += cached
    assert num_cached > 0.8 * num_repeated
    assert {span.start % 4 for prompt in prompts for span in prompt.spans} == {0, 1, 2, 3}
    chunks = {span.of.ids[-1] for prompt in prompts for span in prompt.spans}
    assert seeing.encodes == len(chunks), "encoded once, wherever they stand"


@pytest.mark.parametrize("kind", ["deepseek4v", "hunyuanvl"])
def test_a_wrong_place_would_be_seen(loaded: Library, media_model: Make, kind: MediaModelKind, tmp_path: Path) -> None:
    with SeeingModel(loaded, media_model(kind), tmp_path) as seeing:
        _see_wrong_places(seeing)


def _see_wrong_places(seeing: SeeingModel) -> None:
    asker = Asker(seeing.backend)
    parts = (BEGIN, square("red"), "x", picture(1, 40, 24), END)
    right = seeing.prompt(*parts)
    first, second = right.spans

    expected, _ = asker.answered(right, cached=False)

    def assert_seen(**changes: Any) -> None:
        wrong = right._replace(spans=[first, second._replace(of=second.of._replace(**changes))])
        with pytest.raises(AssertionError):
            assert_equal(asker.answered(wrong, cached=False)[0], expected)

    planes = second.of.planes
    if planes is None:
        assert second.of.num_skipped
        assert_seen(num_skipped=second.of.num_skipped - 1)
    else:
        assert_seen(planes=planes._replace(numbers=planes.numbers * np.array([[1], [1], [1], [0]])))
        assert_seen(planes=planes._replace(moves=np.ones_like(planes.moves)))
