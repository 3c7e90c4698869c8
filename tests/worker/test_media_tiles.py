"""Equal tiles of a picture are encoded together: the same rows, in calls of bounded time, while they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.random_projector import write_random_projector
from localllm.llama.library import Library
from localllm.worker.media.encoder_messages import Encode
from localllm.worker.media.encoder_process import EncoderProcess
from tests.models.media import MediaModel, MediaModelKind
from tests.worker.media_readers import WIDTH, File, open_test_reader, picture, read, rows_of, spans

TILE, TILES = 64, 4
TOLERANCE = 1e-5
"""Of the largest number, where the same was computed in other batches."""


@pytest.fixture(scope="module")
def tiled(media_model: Callable[[MediaModelKind], MediaModel], tmp_path_factory: pytest.TempPathFactory) -> MediaModel:
    """A picture is four tiles and an overview, which its projector encodes together."""
    path = tmp_path_factory.mktemp("tiled") / "mmproj-tiled.gguf"
    write_random_projector(path, output_width=WIDTH, tile=TILE, tiles=TILES, layers=2, width=128)
    return media_model("mlp")._replace(projector=path)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tiles of each call so far."""
    exchange, found = EncoderProcess._exchange, list[int]()

    def counted(process: EncoderProcess, id: int, message: Any, deadline_s: float) -> Any:
        answer = exchange(process, id, message, deadline_s)
        if isinstance(message, Encode):
            found.append(len(getattr(answer, "rows", ())))
        return answer

    monkeypatch.setattr(EncoderProcess, "_exchange", counted)
    return found


def _wide(seed: int) -> File:
    return picture(seed, TILE * TILES, TILE)


def test_tiles_that_are_encoded_together_have_the_rows_of_single_ones(
    loaded: Library, tiled: MediaModel, calls: list[int], tmp_path: Path
) -> None:
    def rows(folder: str, **options: float) -> list[Any]:
        reader = open_test_reader(loaded, tiled, tmp_path / folder, **options)
        return [rows_of(span) for span in spans(read(reader, _wide(1))[0])]

    together = rows("together", media_call_s=3600.0)
    assert [count for count in calls if count] == [1, TILES]
    calls.clear()
    single = rows("single", media_call_s=0.0)
    assert [count for count in calls if count] == [1] * (TILES + 1)
    for one, other in zip(together, single, strict=True):
        assert one.shape == (4, WIDTH)
        assert np.abs(one - other).max() <= TOLERANCE * np.abs(other).max()


def test_a_picture_that_nobody_wants_any_more_ends_between_two_calls(
    loaded: Library, tiled: MediaModel, calls: list[int], tmp_path: Path
) -> None:
    reader, is_wanted = open_test_reader(loaded, tiled, tmp_path), [True]
    [dropped] = read(reader, _wide(1), is_wanted=lambda: is_wanted[0])
    first, *others = (span.source for span in spans(dropped))
    first.want(lambda: is_wanted.__setitem__(0, False))
    for source in others:
        source.want(lambda: None)
    [other] = read(reader, _wide(2))
    assert all(rows_of(span) is not None for span in spans(other))
    assert reader.counters.encodes == 1 + TILES + 1
    assert all(source.rows is None for source in others)
