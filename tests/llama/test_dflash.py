"""DFlash drafts on the real llama.cpp guess what the formula says, also with a Markov head, a selector, or a window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.engine.backend import BackendError, Segment
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.types import DraftBlock
from tests.llama.guessing import DFLASHES, LAYERS, MAPPED, SLOTS, opened_draft
from tests.models.dflash import GROUP, HEAD, KERNEL, N_HEAD, TOP_K, write_dflash
from tests.models.headed import write_headed
from tests.models.maker import write_llama

Row = npt.NDArray[np.float32]
KINDS: dict[str, dict[str, Any]] = {
    **DFLASHES,
    "mapped": {"tokens": MAPPED, "has": ("output",)},
    "anchor": {"form": "dspark", "tokens": MAPPED},
    "selects": {"form": "dflash2", "has": ()},
    "causal selects": {"form": "dflash2", "extra": {"attention.causal": True}, "window": 12},
    "sections": {"sections": (8, 0, 0, 0)},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("dflash") / "target.gguf", n_layer=4, scale=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_its_guesses_are_those_of_the_formula(
    loaded_library: library.Library, target: Path, tmp_path: Path, kind: str
) -> None:
    """For several slots at once, in streams that begin within the text and go on after guesses."""
    path = write_dflash(tmp_path / "draft.gguf", layers=LAYERS, **KINDS[kind])
    texts = [[(11 * place * place + 7 * slot) % 90 + 5 for place in range(30)] for slot in range(SLOTS)]
    formula = Formula(path, target)
    with opened_draft(loaded_library, target, path, ubatch=7) as headed:
        for slot in range(SLOTS):
            headed.target.decoder.decode([Segment(slot, 0, texts[slot], 0)])
            headed.target.decoder.synchronize()
        known, draft = headed.vectors.rows, headed.heads
        assert known is not None
        rows = [[known.row(slot, place) for place in range(30)] for slot in range(SLOTS)]
        assert [draft.earliest(slot) for slot in range(SLOTS)] == [0] * SLOTS
        firsts = [0, 3, 0]
        for slot, first in enumerate(firsts):
            draft.begins(slot, first)
        draft.decode([Segment(slot, 0, texts[slot][firsts[slot] : 9], 0) for slot in range(SLOTS)])
        for slots, end, count in (([0, 1, 2], 12, 3), ([0, 2], 20, 7), ([1], 12, 1), ([0, 1], 27, 2)):
            starts = [draft.length(slot) for slot in slots]
            draft.decode(
                [
                    Segment(slot, start, texts[slot][firsts[slot] + start : end + 1], count)
                    for slot, start in zip(slots, starts, strict=True)
                ]
            )
            for number, slot in enumerate(slots):
                assert draft.length(slot) == end - firsts[slot]
                made = draft.logits(number)
                vectors = np.stack([row for row in rows[slot][firsts[slot] : end] if row is not None])
                expected = formula.logits(vectors, texts[slot][end], count)
                assert len(made) == len(expected) == count
                for row, mine in zip(made, expected, strict=True):
                    np.testing.assert_array_equal(np.isfinite(row), np.isfinite(mine))
                    np.testing.assert_allclose(row[np.isfinite(row)], mine[np.isfinite(mine)], rtol=0, atol=0.03)


def test_drafts_of_models_with_positions_in_several_dimensions(loaded_library: library.Library, tmp_path: Path) -> None:
    """Their vectors need four numbers for a position."""
    path = write_headed(tmp_path / "target.gguf", "qwen35moe")
    dflash = write_dflash(tmp_path / "draft.gguf", layers=(0, 1, 2), sections=(8, 0, 0, 0))
    formula = Formula(dflash, path)
    with opened_draft(loaded_library, path, dflash, snapshots=5) as headed:
        headed.target.decoder.decode([Segment(1, 0, list(range(20, 50)), 0)])
        headed.target.decoder.synchronize()
        assert headed.vectors.rows is not None
        rows = [headed.vectors.rows.row(1, place) for place in range(30)]
        headed.heads.decode([Segment(1, 0, list(range(20, 51)), 4)])
        made = [row.copy() for row in headed.heads.logits(0)]
    for row, mine in zip(made, formula.logits(np.stack([row for row in rows if row is not None]), 50, 4), strict=True):
        np.testing.assert_allclose(row, mine, rtol=0, atol=0.03)


def test_a_token_without_a_vector_is_an_error(loaded_library: library.Library, target: Path, tmp_path: Path) -> None:
    """Nothing is guessed from what is not there."""
    path = write_dflash(tmp_path / "draft.gguf", layers=LAYERS)
    with (
        opened_draft(loaded_library, target, path) as headed,
        pytest.raises(BackendError, match="no vector of a token"),
    ):
        headed.heads.decode([Segment(0, 0, [5, 6], 1)])


@pytest.mark.parametrize(
    ("how", "block"),
    [
        ({}, DraftBlock(num_guesses=7, mask=2)),
        ({"leave_out": ("block_size",)}, DraftBlock(num_guesses=15, mask=2)),
        ({"form": "dspark", "block": 5}, DraftBlock(num_guesses=5, mask=2, is_anchor_first=True)),
        ({"form": "dspark", "extra": {"sample_from_anchor": False}}, DraftBlock(num_guesses=7, mask=2)),
        (
            {"form": "dflash2", "extra": {"attention.causal": True}},
            DraftBlock(num_guesses=7, mask=2, is_causal=True, num_candidates=TOP_K),
        ),
    ],
)
def test_what_a_file_says_of_its_block(tmp_path: Path, how: dict[str, Any], block: DraftBlock) -> None:
    info = read_model_info(write_dflash(tmp_path / "draft.gguf", layers=LAYERS, **how))
    assert info.draft_head is not None
    assert info.draft_head.block == block
    assert info.causal, "it is no encoder"


class Formula:
    """What a file computes, in NumPy (src/models/dflash.cpp)."""

    def __init__(self, path: Path, target: Path) -> None:
        reader = GGUFReader(path)
        self._own = {tensor.name: tensor.data for tensor in reader.tensors}
        others = {tensor.name: tensor.data for tensor in GGUFReader(target).tensors}
        self._embeddings: Row = self._own.get("token_embd.weight", others["token_embd.weight"])
        self._output: Row = self._own.get("output.weight", others["output.weight"])
        info = read_model_info(path)
        assert info.draft_head is not None
        assert info.draft_head.block is not None
        self._block, self._num_layers, self._window = info.draft_head.block, info.num_layers, info.sliding_window

    def logits(self, vectors: Row, anchor: int, count: int) -> list[Row]:
        """Of `count` guesses after token `anchor`, with the target's vectors of all tokens before it."""
        own, block = self._own, self._block
        tokens = [anchor] + [block.mask] * (count - block.is_anchor_first)
        kept = _normed(vectors @ own["fc.weight"].T) * own["enc.output_norm.weight"]
        hidden = self._embeddings[tokens]
        for number in range(self._num_layers):
            hidden = self._layer(number, kept, hidden)
        hidden = _normed(hidden) * own["output_norm.weight"]
        rows = hidden @ self._output.T
        if "d2t" in own:
            rows = self._placed(rows, -np.inf)
        if "markov_w1.weight" in own:
            rows = self._chained(rows, anchor)
        if "selector_hidden.weight" in own:
            return self._selected(rows, hidden, anchor)
        return list(rows[len(tokens) - count :])

    def _placed(self, rows: Row, others: float) -> Row:
        found = np.full((len(rows), len(self._embeddings)), others, np.float32)
        found[:, self._own["d2t"]] = rows
        return found

    def _chained(self, rows: Row, token: int) -> Row:
        own, rows = self._own, rows.copy()
        for place in range(not self._block.is_anchor_first, len(rows)):
            bias = (own["markov_w2.weight"] @ own["markov_w1.weight"][token])[None]
            rows[place] += (self._placed(bias, 0.0) if "d2t" in own else bias)[0]
            token = int(rows[place].argmax())
        return rows

    def _selected(self, rows: Row, hidden: Row, token: int) -> list[Row]:
        own, found = self._own, list[Row]()
        for place in range(1, len(rows)):
            candidates = np.argsort(-rows[place])[:TOP_K]
            gate = own["selector_hidden.weight"] @ hidden[place]
            scores = own["selector_successor.weight"][candidates] @ (own["selector_predecessor.weight"][token] * gate)
            row = np.full(rows.shape[1], -np.inf, np.float32)
            row[candidates] = scores + rows[place][candidates]
            found.append(row)
            token = int(row.argmax())
        return found

    def _layer(self, number: int, kept: Row, hidden: Row) -> Row:
        prefix = f"blk.{number}."
        own = {
            name.removeprefix(prefix).removesuffix(".weight"): each
            for name, each in self._own.items()
            if name.startswith(prefix)
        }
        num_kept, num = len(kept), len(hidden)
        normed, conv = self._convolved(own, "attn", _normed(hidden) * own["attn_norm"])
        queries = _turned(_heads(normed @ own["attn_q"].T, own["attn_q_norm"]), num_kept)
        keys = np.concatenate(
            [
                _turned(_heads(kept @ own["attn_k"].T, own["attn_k_norm"]), 0),
                _turned(_heads(normed @ own["attn_k"].T, own["attn_k_norm"]), num_kept),
            ]
        )
        values = (np.concatenate([kept, normed]) @ own["attn_v"].T).reshape(-1, N_HEAD, HEAD)
        scores = np.einsum("qhd,khd->hqk", queries, keys) / HEAD**0.5
        behind = np.arange(num_kept, num_kept + num)[:, None] - np.arange(num_kept + num)[None]
        is_hidden = (behind < 0) & self._block.is_causal
        if self._window and number % 2 == 0:
            is_hidden |= behind >= self._window
        scores = np.where(is_hidden[None], -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        attended = np.einsum("hqk,khd->qhd", weights, values).reshape(num, -1) @ own["attn_output"].T
        hidden = hidden + conv(attended)
        normed, conv = self._convolved(own, "ffn", _normed(hidden) * own["ffn_norm"])
        gate, up = normed @ own["ffn_gate"].T, normed @ own["ffn_up"].T
        result: Row = hidden + conv((gate / (1 + np.exp(-gate)) * up) @ own["ffn_down"].T)
        return result

    def _convolved(self, own: dict[str, Row], part: str, rows: Row) -> tuple[Row, Any]:
        """The rows of a layer's part as its first convolution leaves them, and its second one."""
        if f"{part}_conv_base" not in own:
            return rows, lambda each: each
        dynamic = (rows @ own[f"{part}_conv_proj"].T).reshape(len(rows), 2, KERNEL, -1)
        weights = np.repeat(dynamic, GROUP, axis=3) + own[f"{part}_conv_base"][None]

        def apply(side: int, each: Row) -> Row:
            result = np.zeros_like(each)
            for tap in range(min(KERNEL, len(each))):
                moved = np.concatenate([np.zeros_like(each[:tap]), each[: len(each) - tap]])
                result += weights[:, side, tap] * moved
            return result

        return apply(0, rows), lambda each: apply(1, each)


def _normed(rows: Row) -> Row:
    normed: Row = rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + 1e-5)
    return normed


def _heads(rows: Row, norm: Row) -> Row:
    heads: Row = _normed(rows.reshape(-1, N_HEAD, HEAD)) * norm
    return heads


def _turned(rows: Row, first: int) -> Row:
    """RoPE over the halves of each head (NeoX), of rows at consecutive places from `first` on."""
    angles = np.arange(first, first + len(rows))[:, None, None] * 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    one, two = rows[..., : HEAD // 2], rows[..., HEAD // 2 :]
    turned: Row = np.concatenate(
        [one * np.cos(angles) - two * np.sin(angles), one * np.sin(angles) + two * np.cos(angles)], axis=-1
    ).astype(np.float32)
    return turned
