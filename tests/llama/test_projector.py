"""libmtmd through the bindings: chunks, positions and rows of every kind of projector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from localllm.errors import LoadFailed
from localllm.llama.lacking import MEDIA
from localllm.llama.library import Library
from localllm.llama.media.opening import open_media, why_no_media
from localllm.llama.media.projector import Pixels, Projector, RowsChunk, Samples, TextChunk
from tests.llama.needs import needs
from tests.models.media import MediaModel, MediaModelKind

WIDTH = 64
MakeModel = Callable[[MediaModelKind], MediaModel]


def _opened(library: Library, model: MediaModel) -> Projector:
    if why_no_media(library):
        with pytest.raises(LoadFailed, match="reads text only"):
            open_media(library)
    needs(library, MEDIA)
    return Projector(library, model.model, model.projector, kind=model.kind)


def _picture(width: int, height: int) -> Pixels:
    return Pixels(width, height, np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8).tobytes())


@pytest.mark.parametrize(
    ("kind", "width", "rows", "positions", "is_causal"),
    [
        ("mlp", 64, [16], [16], True),
        ("gemma3", 64, [16], [16], False),
        ("idefics3", 64, [16] * 7, [16] * 7, True),
        ("qwen2vl", 64, [32], [8], True),
        ("omni", 64, [16], [16], True),
        ("deepseek4v", 64, [17], [17], False),
        ("hunyuanvl", 64, [12], [12], True),
    ],
)
def test_a_picture_has_the_layout_of_its_size_and_rows_whatever_the_threads(
    loaded_library: Library,
    media_model: MakeModel,
    kind: MediaModelKind,
    width: int,
    rows: list[int],
    positions: list[int],
    is_causal: bool,
) -> None:
    projector = _opened(loaded_library, media_model(kind))
    assert (projector.reads_pictures, projector.reads_sounds) == (True, kind == "omni")
    picture = _picture(width, width // 2)
    chunks = projector.read(picture)
    layout = chunks.layout()
    spans = [each for each in layout if isinstance(each, RowsChunk)]
    assert [each.num_rows for each in spans] == rows
    assert [each.num_positions for each in spans] == positions
    assert {each.is_causal for each in spans} == {is_causal}
    assert str(projector.read(Pixels(picture.width, picture.height, None)).layout()) == str(layout)
    assert all(each.tokens for each in layout if isinstance(each, TextChunk))
    if kind == "qwen2vl":
        assert spans[0].planes is not None
        assert [spans[0].planes.numbers[:, row].tolist() for row in (0, 1, 8)] == [
            [0, 0, 0, 0],
            [0, 0, 1, 0],
            [0, 1, 0, 0],
        ]
    encoded = []
    for threads in (1, 2):
        projector.set_threads(threads)
        encoded.append([part[0] for part in (chunks.encode(index, 1) for index in range(len(spans)))])
    for one, other in zip(*encoded, strict=True):
        assert one.shape == (rows[0], WIDTH)
        assert np.array_equal(one, other)


def test_sound_is_cut_into_pieces_of_thirty_seconds(loaded_library: Library, media_model: MakeModel) -> None:
    projector = _opened(loaded_library, media_model("voxtral"))
    assert (projector.reads_pictures, projector.sample_rate) == (False, 16000)
    projector.set_threads(2)
    chunks = projector.read(
        [Samples(np.random.default_rng(0).standard_normal(40 * 16000).astype(np.float32).tobytes())]
    )
    spans = [each for each in chunks.layout() if isinstance(each, RowsChunk)]
    assert [(each.num_rows, each.is_causal, each.planes) for each in spans] == [(15, True, None)] * 2
    assert chunks.encode(1, 1)[0].shape == (15, WIDTH)
    with pytest.raises(ValueError, match="vision"):
        projector.read(_picture(8, 8))


def test_a_projector_for_other_positions_is_refused(loaded_library: Library, media_model: MakeModel) -> None:
    """libmtmd would end the process at the first picture."""
    pairs: list[tuple[MediaModelKind, MediaModelKind]] = [("hunyuanvl", "mlp"), ("deepseek4v", "qwen2vl")]
    for kind, other in pairs:
        wrong = media_model(kind)._replace(model=media_model(other).model)
        with pytest.raises(LoadFailed, match="counts positions otherwise"):
            _opened(loaded_library, wrong)


def test_a_vocabulary_without_the_tokens_around_tiles_is_refused(
    loaded_library: Library, media_model: MakeModel, tiny_model: Path
) -> None:
    """libmtmd would give the token -1, which stands for a row here."""
    model = media_model("idefics3")._replace(model=tiny_model)
    with pytest.raises(ValueError, match="lacks tokens"):
        _opened(loaded_library, model).read(_picture(64, 64)).layout()
