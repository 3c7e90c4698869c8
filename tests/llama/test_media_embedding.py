"""Vectors of texts with media rows: rows that are the embeddings of tokens give what these tokens give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.engine.backend import BackendError, MediaPart, Piece
from localllm.engine.media import Extent, Planes
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import Pooling
from tests.fakes import in_planes
from tests.llama.test_embedding import assert_alike, vectors_of, whole
from tests.models import families
from tests.models.maker import write_llama

WRITERS = {"attention": write_llama, "hybrid": families.write_hybrid, "planes": families.write_planes}
TEXT = [*range(5, 90)]
ROWS = slice(20, 50)


class Case:
    """A loaded model, and the vectors that stand for its tokens."""

    def __init__(self, library: Library, path: Path, name: str) -> None:
        self.library = library
        self.model = LlamaModel(library, path, gpu_layers=0, devices=(), must_offload=False)
        self.has_planes = name == "planes"
        self.embedders: list[LlamaEmbedder] = []
        tensors = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
        self.embeddings: npt.NDArray[np.float32] = np.asarray(tensors["token_embd.weight"].data, np.float32)

    def embedder(self, pooling: Pooling) -> LlamaEmbedder:
        made = LlamaEmbedder(self.library, self.model, causal=True, pooling=pooling, ctx=512, threads=1)
        self.embedders.append(made)
        return made

    def piece(self, start: int, end: int, *, is_last: bool = False) -> Piece:
        """Rows in place of these tokens, at the same positions."""
        times = range(start - ROWS.start, end - ROWS.start)
        planes = Planes(*in_planes(times, times, times)) if self.has_planes else None
        rows = self.embeddings[TEXT[start:end]]
        media = MediaPart(rows, planes, is_causal=True, extent=None)
        return Piece(0, start, [-1 - index for index in range(start, end)], is_last, 0, media)


@pytest.fixture(scope="module", params=WRITERS)
def case(
    request: pytest.FixtureRequest, loaded_library: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Case]:
    path = WRITERS[request.param](tmp_path_factory.mktemp("media") / "m.gguf")
    case = Case(loaded_library, path, request.param)
    yield case
    for embedder in case.embedders:
        embedder.free()
    case.model.close()


def text(start: int, end: int, *, is_last: bool = False) -> Piece:
    return Piece(0, start, TEXT[start:end], is_last)


@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
def test_rows_of_tokens_give_the_vectors_of_these_tokens(case: Case, pooling: Pooling) -> None:
    embedder = case.embedder(pooling)
    wanted = vectors_of(embedder, whole([TEXT]))
    for borders in ([ROWS.start, ROWS.stop], [ROWS.start, 33, ROWS.stop]):
        assert embedder.compute([text(0, ROWS.start)]) == [None]
        for start, end in itertools.pairwise(borders):
            assert embedder.compute([case.piece(start, end)]) == [None]
        assert_alike(vectors_of(embedder, [text(ROWS.stop, len(TEXT), is_last=True)]), wanted, 1e-3)
    assert_alike(vectors_of(embedder, whole([TEXT])), wanted, 1e-5)  # nothing is left of them


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_a_picture_may_begin_and_end_a_text(case: Case, pooling: Pooling) -> None:
    embedder = case.embedder(pooling)
    shown = TEXT[ROWS]
    wanted = vectors_of(embedder, whole([shown]))
    piece = case.piece(ROWS.start, ROWS.stop, is_last=True)._replace(start=0)
    assert_alike(vectors_of(embedder, [piece]), wanted, 1e-3)


def test_rows_that_see_each_other_change_only_their_own_batch(case: Case) -> None:
    """The first row sees the last: another vector than in order."""
    embedder = case.embedder("cls")
    wanted = vectors_of(embedder, whole([TEXT[ROWS]]))
    piece = case.piece(ROWS.start, ROWS.stop, is_last=True)._replace(start=0)
    assert piece.media is not None
    together = piece._replace(media=piece.media._replace(is_causal=False, extent=Extent(0, 30, 30, False)))
    (seen,) = vectors_of(embedder, [together])
    assert np.abs(seen / np.linalg.norm(seen) - wanted[0] / np.linalg.norm(wanted[0])).max() > 1e-2
    assert_alike(vectors_of(embedder, whole([TEXT[ROWS]])), wanted, 1e-5)


def test_rows_that_do_not_fit_are_refused(case: Case) -> None:
    embedder = case.embedder("last")
    piece = case.piece(ROWS.start, ROWS.stop, is_last=True)._replace(start=0)
    assert piece.media is not None
    narrow = piece._replace(media=piece.media._replace(rows=piece.media.rows[:, :8]))
    with pytest.raises(BackendError, match="no media rows of shape"):
        embedder.compute([narrow])
    many = np.zeros((600, case.embeddings.shape[1]), np.float32)
    large = piece._replace(tokens=[-1] * 600, media=piece.media._replace(rows=many, planes=None))
    with pytest.raises(BackendError, match="at most 512"):
        embedder.compute([large])
