"""Gemma 4's assistants on the real llama.cpp: they guess what the formula says, their target's memory stays as it is,
and no answer is another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence as Running
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.context import Attention
from localllm.llama.rope import AS_TRAINED, Rope
from localllm.planning.draft_plan import DraftModel, draft_bytes
from localllm.types import FlashAttn, KvType
from localllm.types.load_options import LoadOptions
from tests.llama.guessing import (
    CTX,
    SLOTS,
    Headed,
    Known,
    Run,
    check_interrupted,
    check_leaving,
    check_lost_vectors,
    check_one_that_fails,
    opened_draft,
    sharing_a_prompt,
    turns,
)
from tests.llama.planned import allocated_mib
from tests.llama.test_buffer_planning import MIB
from tests.llama.test_drafts import SAMPLINGS
from tests.models.assistant import FULL, KV_HEADS, WINDOWED, write_assistant, write_gemma4
from tests.models.families import N_HEAD, SLIDING_WINDOW
from tests.models.tokenizers import bpe

pytestmark = pytest.mark.pairwise

Row = npt.NDArray[np.float32]
KINDS: dict[str, dict[str, Any]] = {
    "random": {},
    "good": {"is_good": True},
    "deep": {"windowed": (True, False, True, False)},
    "windowed": {"windowed": (True, True)},
}
MOST = 32
"""Tokens that a windowed memory can take back here."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gemma4(tmp_path_factory.mktemp("assistant") / "target.gguf", scale=0.01)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_assistant(tmp_path_factory.mktemp("assistant") / f"{kind}.gguf", **KINDS[kind])


@pytest.fixture(scope="module")
def known() -> Known:
    return {}


@pytest.fixture(scope="module")
def headed(loaded_library: library.Library, target: Path, path: Path, known: Known) -> Iterator[Headed]:
    with opened_draft(loaded_library, target, path, known=known) as both:
        yield both


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_answer_with_an_assistant_is_the_answer_without(headed: Headed, kind: str, sampling: str) -> None:
    """Turn after turn, with one that is cancelled among its guesses."""
    expected, made = headed.both(turns, sampling)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10
    if kind == "good" and sampling == "greedy":
        assert made.num_right_guesses > 0.5 * made.num_guesses
        assert made.num_right_guesses > 100, "of 200 tokens"
        assert made.num_steps < 0.7 * expected.num_steps


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_texts_longer_than_the_window_and_its_cells_are_guessed_on(
    loaded_library: library.Library, tmp_path: Path, scale: float
) -> None:
    """256 cells hold the window, in which new tokens take the places of old ones; an assistant sees what is there."""
    path = write_assistant(tmp_path / "assistant.gguf", is_good=scale < 1)
    long = [5 + (7 * place * place) % 300 for place in range(600)]

    def long_turns(run: Run) -> list[Running]:
        first = [run.begin(0, long, 90), run.begin(1, long[300:], 90), run.begin(2, [17], 300)]
        run.finish()
        second = [
            run.begin(3, [*first[0].progress.tokens, 9], 40),
            run.begin(4, [*first[1].progress.tokens[:200], 8], 40),
        ]
        run.finish()
        return [*first, *second]

    target = write_gemma4(tmp_path / "target.gguf", scale=scale)
    with opened_draft(loaded_library, target, path, ctx=1024) as headed:
        expected, made = headed.both(long_turns)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10
    if scale < 1:
        assert made.num_right_guesses > 0.5 * made.num_guesses


@pytest.mark.parametrize(
    ("flash_attn", "kv_type", "num_shared"), [("off", "f16", 0), ("auto", "q8_0", 0), ("auto", "f16", 2)]
)
def test_an_assistant_takes_on_its_targets_layout(
    loaded_library: library.Library, tmp_path: Path, flash_attn: FlashAttn, kv_type: KvType, num_shared: int
) -> None:
    """Of values that are transposed, keys that are quantized, and layers that use the keys of earlier ones."""
    sizes = (64, 32) if kv_type == "q8_0" else (FULL, WINDOWED)
    target = write_gemma4(tmp_path / "target.gguf", scale=0.01, n_shared=num_shared, sizes=sizes)
    path = write_assistant(tmp_path / "assistant.gguf", is_good=True, sizes=sizes)
    with opened_draft(loaded_library, target, path, kv_type=kv_type, attention=Attention(flash_attn)) as headed:
        expected, made = headed.both(turns, "greedy")
    assert made.tokens == expected.tokens
    assert made.num_right_guesses > 0.5 * made.num_guesses > 50


def test_a_conversation_that_left_its_slot_and_came_back_is_guessed_on(headed: Headed) -> None:
    check_leaving(headed)


def test_vectors_lost_before_a_token_is_computed_are_waited_for(headed: Headed) -> None:
    check_lost_vectors(headed)


@pytest.mark.parametrize("length", [1, 2, 40])
def test_answers_that_share_a_prompt_are_guessed_each_in_its_slot(headed: Headed, length: int) -> None:
    expected, made = headed.both(sharing_a_prompt, length)
    assert made.tokens == expected.tokens


def test_interrupted_prompts_change_no_answer(headed: Headed) -> None:
    if not headed.target.decoder.can_be_interrupted:
        pytest.skip("the module that interrupts is not compiled")
    check_interrupted(headed)


def test_an_assistant_that_cannot_be_computed_is_freed_and_answers_go_on(
    loaded_library: library.Library, target: Path, path: Path, known: Known
) -> None:
    with opened_draft(loaded_library, target, path, known=known) as headed:

        def spoil() -> None:
            headed.heads._width = 5  # llama.cpp takes no such vector

        check_one_that_fails(headed, spoil)
        assert headed.heads._model.handle is None


@pytest.mark.parametrize("is_full", [False, True])
def test_guesses_leave_the_targets_memory_as_it_is(headed: Headed, is_full: bool) -> None:
    """To the byte, in all slots, also in one with a single free cell, and in those that did not guess."""
    target, draft, lengths = headed.target, headed.heads, (CTX - 1 if is_full else 100, 30, 0)
    for slot, length in enumerate(lengths):
        target.cells.truncate(slot, 0)
        draft.truncate(slot, 0)
        for start in range(0, length, 50):
            target.decoder.decode([Segment(slot, start, [5 + start] * min(50, length - start), 0)])
            target.decoder.synchronize()
    before = [bytes(target.cells.save(slot)) for slot in range(SLOTS)]
    for slot in (0, 1):
        draft.begins(slot, draft.earliest(slot))
    draft.decode([Segment(slot, 0, [9], 1) for slot in (0, 1)])
    for place in range(1, 6):
        draft.decode([Segment(0, place, [9 + place], 1)])
    assert np.isfinite(draft.logits(0)[0]).all()
    for slot in range(SLOTS):
        draft.truncate(slot, 0)
    assert [bytes(target.cells.save(slot)) for slot in range(SLOTS)] == before
    assert tuple(target.cells.length(slot) for slot in range(SLOTS)) == lengths


@pytest.mark.parametrize("ubatch", [7, 64])
@pytest.mark.parametrize("n_shared", [0, 2])
@pytest.mark.parametrize("rope", [AS_TRAINED, Rope("linear", 2.0)], ids=["trained", "scaled"])
def test_its_logits_are_those_of_the_formula(
    loaded_library: library.Library,
    tmp_path: Path,
    kind: str,
    path: Path,
    n_shared: int,
    ubatch: int,
    rope: Rope,
) -> None:
    """For a text longer than the window; guesses after the first are computed at the same place, from the assistant's
    own vectors. llama.cpp's own implementation chains them alike (common/speculative.cpp)."""
    tokens, guesses = [(11 * place * place) % 90 + 5 for place in range(40)], [17, 300, 17]
    target = write_gemma4(tmp_path / "target.gguf", n_shared=n_shared)
    with opened_draft(loaded_library, target, path, ubatch=ubatch, attention=Attention(rope=rope)) as headed:
        headed.target.decoder.decode([Segment(0, 0, [4] * 3, 0), Segment(1, 0, tokens[:-1], 1)])
        headed.target.decoder.synchronize()
        assert headed.vectors.rows is not None
        vector = headed.vectors.rows.row(1, len(tokens) - 2)
        assert vector is not None
        vector, said = vector.copy(), headed.target.decoder.logits(1)[0].copy()
        draft, made = headed.heads, list[Row]()
        assert draft.earliest(1) == len(tokens) - 1
        draft.begins(1, len(tokens) - 1)
        for place, token in enumerate([tokens[-1], *guesses]):
            draft.decode([Segment(1, place, [token], 1), *([Segment(2, 0, [5], 1)] if place == 1 else [])])
            made.append(draft.logits(0)[0].copy())
    model, assistant = Layers(target, "gemma4", rope), Layers(path, "gemma4-assistant", rope)
    vectors = model.states(tokens[:-1], n_shared)
    np.testing.assert_allclose(vectors[-1], vector, rtol=0, atol=0.03)
    logits = 30 * np.tanh(model.tensors["output.weight"] @ vectors[-1] / 30)  # the cap if the header has none
    np.testing.assert_allclose(logits, said, rtol=0, atol=0.1)
    expected = assistant.guesses(model, [tokens[-1], *guesses], vector, len(tokens) - 1)
    for row, mine in zip(made, expected, strict=True):
        np.testing.assert_allclose(row, mine, rtol=0, atol=0.1)
        assert np.std(mine) > 1


def test_the_plan_of_its_memory_covers_what_llama_cpp_allocates(
    loaded_library: library.Library, tmp_path: Path
) -> None:
    """It has no keys and values of its own."""
    words = bpe(20_000)
    path = write_assistant(tmp_path / "assistant.gguf", tokenizer=words)
    target = write_gemma4(tmp_path / "target.gguf", tokenizer=words)
    mark = loaded_library.log.mark()
    with opened_draft(loaded_library, target, path) as headed:
        lines = loaded_library.log.lines_since(mark)
        headed.target.decoder.decode([Segment(0, 0, [5] * 40, 1)])
    of_draft = lines[[number for number, line in enumerate(lines) if "output buffer size" in line][-1] :]
    logged = allocated_mib(of_draft) * MIB
    info, options = read_model_info(target), LoadOptions(slots=SLOTS, ctx=CTX)
    draft = DraftModel("assistant", path, read_model_info(path))
    assert all(layer.keys == layer.values == 0 for layer in draft.info.layer_memory)
    planned = draft_bytes(info, options, draft) - draft.info.size_bytes
    planned -= 4 * 64 * (512 * SLOTS + 2048 + 512)  # what belongs to the target
    assert logged <= planned <= logged + 4 * 32 * len(words.tokens) + 2**20


class Layers:
    """What a file computes, in NumPy (src/models/gemma4.cpp and gemma4-assistant.cpp)."""

    def __init__(self, path: Path, architecture: str, rope: Rope) -> None:
        reader = GGUFReader(path)
        self.tensors: dict[str, Row] = {tensor.name: tensor.data for tensor in reader.tensors}
        field = reader.fields[f"{architecture}.attention.sliding_window_pattern"]
        self.windowed = [bool(field.parts[index][0]) for index in field.data]
        self.keys: list[Row] = []
        """Of each layer, shape (places, heads, numbers)."""
        self.values: list[Row] = []
        self._scale = 1 / (rope.scale or 1.0)

    def states(self, tokens: Sequence[int], n_shared: int) -> Row:
        """After the last norm, of all tokens."""
        rows: Row = self.tensors["token_embd.weight"][list(tokens)] * np.float32(
            self.tensors["token_embd.weight"].shape[1] ** 0.5
        )
        num_own = len(self.windowed) - n_shared
        for layer, is_windowed in enumerate(self.windowed):
            own = self._own(layer)
            normed: Row = _normed(rows) * own["attn_norm"]
            if layer < num_own:
                keys = _heads(normed @ own["attn_k"].T, KV_HEADS[is_windowed])
                keys = _normed(keys) * own["attn_k_norm"]
                self.keys.append(np.stack([self._turned(row, place, layer) for place, row in enumerate(keys)]))
                values = _heads(normed @ own["attn_v"].T, KV_HEADS[is_windowed])
                self.values.append(_normed(values))
            else:
                source = num_own - (2 if is_windowed else 1)
                self.keys.append(self.keys[source])
                self.values.append(self.values[source])
            attended = np.stack(
                [
                    self._attended(row, place, layer, self.keys[layer][: place + 1], self.values[layer][: place + 1])
                    for place, row in enumerate(normed)
                ]
            )
            rows = self._rest(rows, attended, layer)
        result: Row = _normed(rows) * self.tensors["output_norm.weight"]
        return result

    def guesses(self, target: Layers, tokens: Sequence[int], vector: Row, place: int) -> list[Row]:
        """Logits after each of the tokens, all at this place: the last of the text, then those guessed."""
        made, embeddings = list[Row](), target.tensors["token_embd.weight"]
        for token in tokens:
            both = np.concatenate([embeddings[token] * np.float32(embeddings.shape[1] ** 0.5), vector])
            row = self.tensors["nextn.pre_projection.weight"] @ both
            for layer, is_windowed in enumerate(self.windowed):
                source = len(target.windowed) - (2 if is_windowed else 1)
                normed = _normed(row) * self._own(layer)["attn_norm"]
                attended = self._attended(normed, place, layer, target.keys[source], target.values[source])
                row = self._rest(row, attended, layer)
            row = _normed(row) * self.tensors["output_norm.weight"]
            made.append(self.tensors["token_embd.weight"] @ row)
            vector = self.tensors["nextn.post_projection.weight"] @ row
        return made

    def _own(self, layer: int) -> dict[str, Row]:
        prefix = f"blk.{layer}."
        return {
            name.removeprefix(prefix).removesuffix(".weight"): values
            for name, values in self.tensors.items()
            if name.startswith(prefix)
        }

    def _attended(self, normed: Row, place: int, layer: int, keys: Row, values: Row) -> Row:
        own, size = self._own(layer), WINDOWED if self.windowed[layer] else FULL
        query = _normed((own["attn_q"] @ normed).reshape(N_HEAD, size)) * own["attn_q_norm"]
        query = self._turned(query, place, layer)
        first = max(0, place - SLIDING_WINDOW + 1) if self.windowed[layer] else 0
        share = N_HEAD // keys.shape[1]
        keys, values = (np.repeat(each[first:], share, axis=1) for each in (keys, values))
        scores = np.einsum("hd,phd->hp", query, keys)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        result: Row = own["attn_output"] @ np.einsum("hp,phd->hd", weights, values).reshape(-1)
        return result

    def _rest(self, rows: Row, attended: Row, layer: int) -> Row:
        own = self._own(layer)
        inner = rows + _normed(attended) * own["post_attention_norm"]
        normed = _normed(inner) * own["ffn_norm"]
        gate = normed @ own["ffn_gate"].T
        gate = 0.5 * gate * (1 + np.tanh(0.79788456 * (gate + 0.044715 * gate**3)))
        fed = (gate * (normed @ own["ffn_up"].T)) @ own["ffn_down"].T
        result: Row = (inner + _normed(fed) * own["post_ffw_norm"]) * own.get("layer_output_scale", np.float32(1.0))
        return result

    def _turned(self, heads: Row, place: int, layer: int) -> Row:
        """RoPE as in NeoX; layers that see all tokens have frequencies of their own, and only these are scaled."""
        size = heads.shape[-1]
        base, factors = (1e4, 1.0) if self.windowed[layer] else (1e6, self.tensors["rope_freqs.weight"])
        scale = 1.0 if self.windowed[layer] else self._scale
        angles = place * scale * base ** (-np.arange(0, size, 2) / size) / factors
        first, second = heads[..., : size // 2].astype(np.float64), heads[..., size // 2 :].astype(np.float64)
        turned = [first * np.cos(angles) - second * np.sin(angles), first * np.sin(angles) + second * np.cos(angles)]
        return np.concatenate(turned, axis=-1).astype(np.float32)


def _normed(rows: Row) -> Row:
    normed: Row = rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + 1e-5)
    return normed


def _heads(rows: Row, count: int) -> Row:
    heads: Row = rows.reshape(len(rows), count, -1)
    return heads
