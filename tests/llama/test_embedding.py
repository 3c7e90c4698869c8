"""Vectors and scores of real tiny models, computed by llama.cpp, against BERT in NumPy and against themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.backend import BackendError, Piece, Vectors
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.lacking import SHORT_EMBEDDING
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab
from localllm.types import Pooling
from tests.llama.needs import needs
from tests.models import families
from tests.models.bert import NumpyBert
from tests.models.maker import write_llama

TEXTS = [[2, 40, 9, 77, 3], [2, 3], [2, *range(5, 110), 3], [2, *range(60, 80), 3], [2, *range(30, 90), 3]]
WRITERS: dict[str, Callable[[Path], Path]] = {
    "encoder": families.write_embedding,
    "reranker": families.write_reranker,
    "causal": write_llama,
    "window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
}
Load = Callable[..., LlamaEmbedder]


class Models:
    """Each file loaded once."""

    def __init__(self, library: Library, folder: Path) -> None:
        self.library = library
        self.paths = {name: write(folder / f"{name}.gguf") for name, write in WRITERS.items()}
        self.loaded: dict[str, LlamaModel] = {}
        self.embedders: list[LlamaEmbedder] = []

    def embedder(self, name: str, pooling: Pooling, *, ctx: int = 512) -> LlamaEmbedder:
        if name not in self.loaded:
            self.loaded[name] = LlamaModel(self.library, self.paths[name], gpu_layers=0, devices=(), must_offload=False)
        causal = name not in ("encoder", "reranker")
        model = self.loaded[name]
        self.embedders.append(LlamaEmbedder(self.library, model, causal=causal, pooling=pooling, ctx=ctx, threads=1))
        return self.embedders[-1]


@pytest.fixture(scope="module")
def models(loaded_library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    models = Models(loaded_library, tmp_path_factory.mktemp("embedding"))
    yield models
    for embedder in models.embedders:
        embedder.free()
    for model in models.loaded.values():
        model.close()


def whole(texts: list[list[int]]) -> list[Piece]:
    return [Piece(place, 0, text, is_last=True) for place, text in enumerate(texts)]


def vectors_of(embedder: LlamaEmbedder, pieces: list[Piece]) -> list[Vectors]:
    return [vectors for vectors in embedder.compute(pieces) if vectors is not None]


def assert_alike(some: list[Vectors], others: list[Vectors], tolerance: float) -> None:
    """Of vectors of length 1."""
    for one, other in zip(some, others, strict=True):
        assert one.shape == other.shape
        lengths = np.linalg.norm(one, axis=1, keepdims=True), np.linalg.norm(other, axis=1, keepdims=True)
        assert float(np.abs(one / lengths[0] - other / lengths[1]).max()) < tolerance


@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
def test_an_encoder_agrees_with_numpy(models: Models, pooling: Pooling) -> None:
    bert = NumpyBert(models.paths["encoder"], num_heads=families.N_HEAD)
    pool: dict[str, Callable[[Vectors], Vectors]] = {
        "none": lambda rows: rows,
        "mean": lambda rows: rows.mean(axis=0, keepdims=True),
        "cls": lambda rows: rows[:1],
        "last": lambda rows: rows[-1:],
    }
    wanted = [pool[pooling](bert.tokens(text)) for text in TEXTS]
    assert_alike(vectors_of(models.embedder("encoder", pooling), whole(TEXTS)), wanted, 1e-3)


def test_a_reranker_agrees_with_numpy(models: Models) -> None:
    bert = NumpyBert(models.paths["reranker"], num_heads=families.N_HEAD)
    scores = [float(vectors[0, 0]) for vectors in vectors_of(models.embedder("reranker", "rank"), whole(TEXTS))]
    assert scores == pytest.approx([bert.score(text) for text in TEXTS], abs=1e-3)


@pytest.mark.parametrize("name", ["encoder", "causal", "window", "recurrent", "hybrid"])
@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
def test_texts_together_give_what_each_gives_alone(models: Models, name: str, pooling: Pooling) -> None:
    embedder = models.embedder(name, pooling)
    some = [text for text in TEXTS if len(text) < 40][: embedder.max_texts]  # as many tokens as share a batch
    alone = [vectors for text in some for vectors in vectors_of(embedder, whole([text]))]
    assert 1 < sum(map(len, some)) <= embedder.together_tokens
    together = vectors_of(embedder, whole(some))
    assert_alike(together, alone, 1e-5)
    assert [len(vectors) for vectors in together] == [len(text) if pooling == "none" else 1 for text in some]


@pytest.mark.parametrize("name", ["causal", "window", "recurrent", "hybrid"])
@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
def test_a_text_in_pieces_gives_what_it_gives_whole(models: Models, name: str, pooling: Pooling) -> None:
    embedder = models.embedder(name, pooling)
    text, passing = [*range(5, 200)], [7, 8, 9]
    (wanted,) = vectors_of(embedder, whole([text]))
    (passing_alone,) = vectors_of(embedder, whole([passing]))
    assert embedder.compute([Piece(1, 0, text[:70], is_last=False)]) == [None]
    first, other = embedder.compute([Piece(1, 70, text[70:90], is_last=False), Piece(0, 0, passing, is_last=True)])
    assert first is None
    assert other is not None
    assert_alike([other], [passing_alone], 1e-3)
    assert_alike(vectors_of(embedder, [Piece(1, 90, text[90:], is_last=True)]), [wanted], 1e-3)
    assert_alike(vectors_of(embedder, whole([text])), [wanted], 1e-5)  # nothing is left of them


@pytest.mark.parametrize("pooling", ["none", "mean", "cls", "last"])
@pytest.mark.parametrize("name", ["causal", "window"])
def test_without_the_output_head_vectors_are_the_same(
    models: Models, name: str, pooling: Pooling, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(models.library, SHORT_EMBEDDING)
    pieces = whole([text for text in TEXTS if max(text) < 250])
    short = models.embedder(name, pooling)
    assert short._hidden is not None, "the head is skipped"
    of_short = vectors_of(short, pieces)
    monkeypatch.setattr("localllm.llama.hidden.NODE", b"no node is called this")
    whole_graph = models.embedder(name, pooling)
    assert whole_graph._hidden is None  # so a model with other names is embedded all the same
    assert_alike(of_short, vectors_of(whole_graph, pieces), 1e-5)


def test_a_text_as_long_as_allowed_is_computed_beside_another(models: Models) -> None:
    for name, pooling in (("encoder", "mean"), ("causal", "last")):
        embedder = models.embedder(name, pooling, ctx=512)  # type: ignore[arg-type]
        (alone,) = vectors_of(embedder, whole([[5] * 512]))
        assert alone.shape == (1, families.N_EMBD)
        assert embedder.splits_texts == (name == "causal")


def test_what_llama_cpp_refuses_is_an_error_and_the_next_texts_are_computed(models: Models) -> None:
    embedder = models.embedder("causal", "mean")
    (wanted,) = vectors_of(embedder, whole([[5, 6, 7]]))
    with pytest.raises(BackendError):
        embedder.compute([Piece(0, 0, [5, 6], is_last=False), Piece(1, 0, [99_999], is_last=True)])
    assert_alike(vectors_of(embedder, whole([[5, 6, 7]])), [wanted], 1e-6)


@pytest.mark.parametrize("text", ["[CLS]ab", "[CLS] ab", "[CLS]ab[SEP]", "ab"])
def test_a_text_that_brings_a_special_token_of_its_own_gets_no_second_one_and_keeps_the_other(
    models: Models, loaded_library: Library, text: str
) -> None:
    """Its vector was that of a text without its closing [SEP]."""
    embedder = models.embedder("encoder", "mean")
    vocab = Vocab(loaded_library.api, models.loaded["encoder"].vocab)
    right = vocab.tokenize("ab")
    assert (right[0], right[-1]) == (2, 3)
    tokens = [token for step in vocab.tokenize_in_steps(text, closes=True) for token in step]
    assert tokens == right
    wanted = NumpyBert(models.paths["encoder"], num_heads=families.N_HEAD).tokens(right).mean(axis=0, keepdims=True)
    assert_alike(vectors_of(embedder, whole([tokens])), [wanted], 1e-3)


def test_a_text_whose_special_tokens_are_not_read_gets_the_real_ones(models: Models, loaded_library: Library) -> None:
    models.embedder("encoder", "mean")
    vocab = Vocab(loaded_library.api, models.loaded["encoder"].vocab)
    tokens = vocab.tokenize("[CLS]ab", parse_special=False)
    assert (tokens[0], tokens[-1]) == (2, 3)
    assert 2 not in tokens[1:]


def test_a_pair_stands_between_the_special_tokens_of_the_vocabulary(models: Models, loaded_library: Library) -> None:
    """[CLS] query [SEP] document [SEP], as BERT's rerankers are trained; here [SEP] is the end token too."""
    models.embedder("reranker", "rank")
    vocab = Vocab(loaded_library.api, models.loaded["reranker"].vocab)
    query, document = [50, 51], [60]
    pair = vocab.pair(query, document)
    assert [token for token in pair if token > 4] == [50, 51, 60]
    assert pair[0] == 2
    assert set(pair) - {50, 51, 60} == {2, 3}
    assert vocab.tokenize("ab")[-1] in vocab.closing_tokens
