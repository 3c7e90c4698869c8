"""EAGLE-3 drafts on the real llama.cpp compute what the layer's formula says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.engine.backend import Segment
from localllm.llama import library
from tests.llama.guessing import EAGLES, LAYERS, SLOTS, opened_draft
from tests.models.eagle import HEAD, N_HEAD, write_eagle
from tests.models.maker import write_llama

Row = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("eagle") / "target.gguf", n_layer=4, scale=0.05)


@pytest.fixture(scope="module", params=EAGLES)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = str(request.param)
    return write_eagle(tmp_path_factory.mktemp("eagle") / f"{kind}.gguf", layers=LAYERS, **EAGLES[kind])


@pytest.mark.parametrize("first", [0, 1, 5])
def test_its_logits_are_those_of_the_formula(
    loaded_library: library.Library, target: Path, path: Path, first: int
) -> None:
    """For tokens with vectors of the target, and for guesses, all but the first of which have the draft's own.
    llama.cpp's own implementation chains them alike (common/speculative.cpp)."""
    tokens = [(11 * place * place) % 90 + 5 for place in range(12)]
    guesses = [17, 300, 17]
    with opened_draft(loaded_library, target, path, ubatch=7) as headed:
        headed.target.decoder.decode([Segment(0, 0, [4] * 3, 0), Segment(1, 0, tokens, 0)])
        headed.target.decoder.synchronize()
        known = headed.vectors.rows
        assert known is not None
        rows = [known.row(1, place) for place in range(len(tokens))]
        features = np.stack([row for row in rows if row is not None])
        draft = headed.heads
        assert draft.earliest(1) == 1
        draft.begins(1, first + 1)
        made = []
        draft.decode([Segment(1, 0, tokens[first + 1 : 8], 1)])
        made.append(draft.logits(0)[-1].copy())
        draft.decode([Segment(1, 7 - first, tokens[8:12], 4), Segment(2, 0, [5], 0, 3)])
        made += [row.copy() for row in draft.logits(0)]
        for place, guess in enumerate(guesses):
            draft.decode([Segment(1, 11 - first + place, [guess], 1)])
            made.append(draft.logits(0)[-1].copy())
    layer = Layer(path, target)
    expected = layer.logits([*tokens[first + 1 :], guesses[0]], features[first:], guesses[1:])
    for row, mine in zip(made, expected[6 - first :], strict=True):
        np.testing.assert_array_equal(np.isfinite(row), np.isfinite(mine))
        np.testing.assert_allclose(row[np.isfinite(row)], mine[np.isfinite(row)], rtol=0, atol=0.03)
        assert row.argmax() == mine.argmax()


def test_the_first_layers_input_is_the_embedding_of_each_token(
    loaded_library: library.Library, target: Path, tmp_path: Path
) -> None:
    """Of all tokens, with and without logits, of prompts longer than a ubatch and of several slots."""
    path = write_eagle(tmp_path / "eagle.gguf", layers=(0, 2, 0))
    texts = [[(7 * slot + 3 * place * place) % 90 + 5 for place in range(20)] for slot in range(SLOTS)]
    embeddings = Layer(path, target).embeddings
    with opened_draft(loaded_library, target, path, ubatch=7) as headed:
        headed.target.decoder.decode([Segment(slot, 0, texts[slot], slot % 2) for slot in range(SLOTS)])
        headed.target.decoder.synchronize()
        assert headed.vectors.rows is not None
        for slot, text in enumerate(texts):
            for place, token in enumerate(text):
                row = headed.vectors.rows.row(slot, place)
                assert row is not None
                np.testing.assert_array_equal(row[:64], embeddings[token])
                np.testing.assert_array_equal(row[128:], embeddings[token])
                assert np.abs(row[64:128] - embeddings[token]).max() > 1e-3


class Layer:
    """What a file computes, in NumPy: the encoder, one decoder layer and the output head (src/models/eagle3.cpp)."""

    def __init__(self, path: Path, target: Path) -> None:
        reader = GGUFReader(path)
        self._own = {tensor.name: tensor.data for tensor in reader.tensors}
        others = {tensor.name: tensor.data for tensor in GGUFReader(target).tensors}
        self.embeddings: Row = self._own.get("token_embd.weight", others["token_embd.weight"])
        self._output: Row = self._own.get("output.weight", others["output.weight"])
        self._keeps_normed = bool(reader.fields["eagle3.norm_before_residual"].parts[-1][0])

    def logits(self, tokens: Sequence[int], features: Row, guesses: Sequence[int]) -> list[Row]:
        """After each of the tokens, with the vectors of the ones before them, and then of the guesses."""
        own, made, keys, values = self._own, list[Row](), list[Row](), list[Row]()
        if "enc.output_norm.weight" in own:
            features = _normed(features) * own["enc.output_norm.weight"]
        vector = None
        for place, token in enumerate((*tokens, *guesses)):
            if place < len(tokens):
                vector = own["fc.weight"] @ features[place]
            assert vector is not None
            vector = self._layer(self.embeddings[token], vector, place, keys, values)
            row = self._output @ (_normed(vector) * own["output_norm.weight"])
            if "d2t" in own:
                all_rows = np.full(len(self.embeddings), -np.inf, np.float32)
                all_rows[own["d2t"]] = row
                row = all_rows
            made.append(row)
        return made

    def _layer(self, embedding: Row, vector: Row, place: int, keys: list[Row], values: list[Row]) -> Row:
        own = {name.removeprefix("blk.0.").removesuffix(".weight"): each for name, each in self._own.items()}
        normed = _normed(vector) * own["attn_norm_2"]
        both = np.concatenate([_normed(embedding) * own["attn_norm"], normed])
        query, key = (_turned(own[name] @ both, place) for name in ("attn_q", "attn_k"))
        keys.append(key)
        values.append((own["attn_v"] @ both).reshape(N_HEAD, HEAD))
        scores = np.einsum("hd,phd->hp", query, np.stack(keys)) / HEAD**0.5
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        attended = np.einsum("hp,phd->hd", weights, np.stack(values)).reshape(-1)
        inner = own["attn_output"] @ attended + (normed if self._keeps_normed else vector)
        gated = _normed(inner) * own["ffn_norm"]
        gate, up = own["ffn_gate"] @ gated, own["ffn_up"] @ gated
        result: Row = inner + own["ffn_down"] @ (gate / (1 + np.exp(-gate)) * up)
        return result


def _normed(rows: Row) -> Row:
    normed: Row = rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + 1e-5)
    return normed


def _turned(row: Row, place: int) -> Row:
    """RoPE over a head's pairs of numbers, of neighbours, or of halves as in NeoX: `ROPE_TYPE` of the architecture."""
    heads = row.reshape(N_HEAD, HEAD).astype(np.float64)
    angles = place * 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    first, second = heads[:, 0::2], heads[:, 1::2]
    turned = np.empty_like(heads)
    turned[:, 0::2] = first * np.cos(angles) - second * np.sin(angles)
    turned[:, 1::2] = first * np.sin(angles) + second * np.cos(angles)
    return turned.astype(np.float32)
