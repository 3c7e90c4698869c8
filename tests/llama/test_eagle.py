"""EAGLE-3 drafts on the real llama.cpp: they guess what the layer's formula says, and no answer is another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader

from localllm.engine.backend import Segment
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.sequence import Sequence as Request
from localllm.gguf import read_model_info
from localllm.gguf.draft_heads import GIVES_LAST, GIVES_STATES
from localllm.llama import library
from localllm.llama.eagle import LlamaEagle
from localllm.llama.headed import HeadedBackend
from localllm.llama.model import LlamaModel
from localllm.llama.next_symbols import find
from localllm.supervisor.drafting import DraftModel, draft_bytes
from localllm.types import ResolvedSampling
from localllm.types.load_options import LoadOptions
from tests.llama.test_buffer_planning import LOGGED, MIB
from tests.llama.test_drafts import SAMPLINGS, prompts
from tests.llama.test_heads import CTX, SLOTS, Headed, Run, check_lost_vectors
from tests.llama.test_interrupts import stop_after
from tests.models import families
from tests.models.eagle import HEAD, N_HEAD, write_eagle
from tests.models.headed import write_headed
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

Row = npt.NDArray[np.float32]
LAYERS = (1, 2, 3)
HEADED = ("bailingmoe3", "mimo2", "nemotron_h_moe", "qwen35moe")
MAPPED = tuple(range(310, 4, -1))
"""Tokens of a draft that knows fewer than its target, in another order."""
KINDS: dict[str, dict[str, Any]] = {
    "random": {},
    "good": {"is_good": True},
    "shared": {"is_good": True, "has": ()},
    "mapped": {"is_good": True, "has": ("output",), "tokens": MAPPED},
    "normed": {"norm_before_fc": True, "norm_before_residual": True},
}


class EagleRun(Run):
    source = "draft"


@contextmanager
def opened(
    loaded: library.Library,
    target_path: Path,
    path: Path,
    *,
    ctx: int = CTX,
    snapshots: int = 0,
    ubatch: int | None = None,
    unified: bool = False,
) -> Iterator[Headed]:
    functions, eagle = find(loaded.api), read_model_info(path).draft_head
    assert functions is not None
    assert eagle is not None
    assert eagle.problem == ""
    models = [LlamaModel(loaded, each, gpu_layers=0, devices=(), must_offload=False) for each in (target_path, path)]
    target = HeadedBackend(
        loaded, models[0], functions, layers=eagle.layers, ctx=CTX, slots=SLOTS, threads=1, batch_tokens=64,
        max_outputs=48, snapshots=snapshots, ubatch_tokens=ubatch, num_cells=SLOTS * CTX if unified else None,
    )  # fmt: skip
    draft = LlamaEagle(loaded, models[1], target, functions, ctx=ctx, threads=1, batch_tokens=64)
    yield Headed(target, draft)
    draft.free()
    target.free()
    for model in reversed(models):
        model.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("eagle") / "target.gguf", n_layer=4, scale=0.05)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_eagle(tmp_path_factory.mktemp("eagle") / f"{kind}.gguf", layers=LAYERS, **KINDS[kind])


@pytest.fixture(scope="module", params=["partitioned", "unified"])
def headed(
    request: pytest.FixtureRequest, loaded_library: library.Library, target: Path, path: Path
) -> Iterator[Headed]:
    with opened(loaded_library, target, path, unified=request.param == "unified") as both:
        yield both


def ask(run: Run, sampling: str) -> list[Request]:
    first = [run.begin(id, prompt, sampling=SAMPLINGS[sampling]) for id, prompt in enumerate(prompts())]
    run.finish()
    second = [run.begin(10 + id, [*one.tokens, 9], sampling=SAMPLINGS[sampling]) for id, one in enumerate(first)]
    for _ in range(9):
        run.step()
    run.engine.cancel(11)
    run.finish()
    return [*first, second[0], second[2]]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_answer_with_a_draft_is_the_answer_without(headed: Headed, kind: str, sampling: str) -> None:
    """Turn after turn, with one that is cancelled among its guesses."""
    plain = EagleRun(headed, guesses=False)
    expected = ask(plain, sampling)
    run = EagleRun(headed, guesses=True)
    made = ask(run, sampling)
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    num_guesses, num_right = (sum(getattr(one, name) for one in made) for name in ("num_guesses", "num_right_guesses"))
    assert num_guesses > 10
    if kind not in ("random", "normed") and sampling == "greedy":
        assert num_right > 100, "of 200 tokens"
        assert run.engine.num_steps < 0.7 * plain.engine.num_steps


@pytest.mark.parametrize(
    ("write", "layers"),
    [
        (families.write_wide_heads, (0, 1, 1)),
        (families.write_short_conv, (0, 1, 1)),
        (families.write_gated_delta, (0, 1, 2)),
        *((partial(write_headed, architecture=name), (0, 1, 2)) for name in HEADED),
    ],
)
def test_other_models_have_a_draft(
    loaded_library: library.Library, tmp_path: Path, write: Any, layers: Sequence[int]
) -> None:
    """Also those of which the draft gets what comes out of the last layer before their NextN layers."""
    path = write(tmp_path / "target.gguf")
    info = read_model_info(path)
    assert info.architecture in (GIVES_LAST if 2 in layers else GIVES_STATES)
    eagle = write_eagle(tmp_path / "eagle.gguf", layers=layers, is_good=True)
    with opened(loaded_library, path, eagle, snapshots=5) as headed:
        expected, made = (ask(EagleRun(headed, guesses=guesses), "greedy") for guesses in (False, True))
        rows = headed.target.next_rows
        assert rows is not None
        known = [rows.row(slot, place) for slot in range(SLOTS) for place in range(CTX)]
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    assert sum(one.num_guesses for one in made) > 10
    row = next(row for row in known if row is not None)
    assert all(np.abs(part).max() > 0.01 for part in row.reshape(3, -1)), "there is something of each layer"


def test_a_conversation_that_left_its_slot_and_came_back_is_guessed_on(headed: Headed) -> None:
    """Its state comes from main memory, without the vectors of its tokens: the draft begins behind it."""

    def answers(run: Run) -> list[Request]:
        first = run.begin(0, [5 + (3 * place) % 300 for place in range(120)], 30)
        run.finish()
        for id in range(1, 2 * SLOTS + 1):
            run.begin(id, [40 + id, *prompts()[1]], 10)
        run.finish()
        second = run.begin(20, [*first.tokens, 9, 10], 30)
        run.finish()
        assert second.num_cached > 20
        return [first, second]

    expected, made = (answers(EagleRun(headed, guesses=guesses, tiers=Tiers(2**26))) for guesses in (False, True))
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    assert made[1].num_guesses > 0


def test_vectors_lost_before_a_token_is_computed_are_waited_for(headed: Headed) -> None:
    check_lost_vectors(EagleRun, headed)


@pytest.mark.parametrize("length", [1, 2, 40])
def test_answers_that_share_a_prompt_are_guessed_each_in_its_slot(headed: Headed, length: int) -> None:
    """Those after the first begin from a copy, of whose tokens there are no vectors."""

    def answers(run: Run) -> list[Request]:
        prompt = [5 + (3 * place) % 300 for place in range(length)]
        first = run.begin(0, prompt, 30, ResolvedSampling(seed=0, temperature=0.9))
        for _ in range(5):
            run.step()
        more = [run.begin(id, prompt, 30, ResolvedSampling(seed=id, temperature=0.9)) for id in (1, 2)]
        run.finish()
        return [first, *more]

    expected, made = (answers(EagleRun(headed, guesses=guesses)) for guesses in (False, True))
    assert [one.tokens for one in made] == [one.tokens for one in expected]


def test_a_context_shorter_than_the_texts_is_begun_anew(
    loaded_library: library.Library, target: Path, path: Path
) -> None:
    with opened(loaded_library, target, path, ctx=64) as headed:
        expected, made = (_finished(EagleRun(headed, guesses=guesses), prompts()[0], 200) for guesses in (False, True))
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


@pytest.mark.parametrize("ctx", [64, CTX])
def test_a_target_whose_context_shifts_is_guessed_on(
    loaded_library: library.Library, target: Path, path: Path, ctx: int
) -> None:
    with opened(loaded_library, target, path, ctx=ctx) as headed:
        assert headed.target.can_shift
        expected, made = (
            _finished(EagleRun(headed, guesses=guesses, context_shift=True), prompts()[2], 300)
            for guesses in (False, True)
        )
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


def _finished(run: Run, prompt: list[int], count: int) -> Request:
    one = run.begin(0, prompt, count)
    run.finish()
    return one


def test_interrupted_prompts_change_no_answer(headed: Headed) -> None:
    """Vectors of ubatches that were kept are unknown; the draft begins behind them."""
    if not headed.target.can_be_interrupted:
        pytest.skip("the module that interrupts is not compiled")

    def answers(run: Run, stops: Iterator[int]) -> list[Request]:
        made = [run.begin(id, [5 + (7 * id + 3 * place) % 300 for place in range(150)], 40) for id in range(SLOTS)]
        for stop in stops:
            stop_after(headed.target, stop)
            run.step()
        run.finish()
        return made

    expected, lost_s = answers(EagleRun(headed, guesses=False), iter(())), headed.target.lost_s
    made = answers(EagleRun(headed, guesses=True), iter(range(5, 400, 60)))
    assert headed.target.lost_s > lost_s
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    assert all(one.num_generated == 40 for one in made)
    assert sum(one.num_guesses for one in made) > 10


def test_a_draft_that_cannot_be_computed_is_freed_and_answers_go_on(
    loaded_library: library.Library, target: Path, path: Path
) -> None:
    with opened(loaded_library, target, path) as headed:
        plain = EagleRun(headed, guesses=False)
        expected = plain.begin(0, prompts()[0])
        plain.finish()
        run = EagleRun(headed, guesses=True)
        made = run.begin(0, prompts()[0])
        for _ in range(3):
            run.engine.step()
        headed.heads._width = 5  # llama.cpp takes no such vector
        while run.engine.scheduler.has_work:
            run.engine.step()
        assert headed.heads._model.handle is None
        assert made.tokens == expected.tokens
        assert run.drafts is not None
        assert run.drafts.is_off


@pytest.mark.parametrize("first", [0, 1, 5])
def test_its_logits_are_those_of_the_formula(
    loaded_library: library.Library, target: Path, path: Path, kind: str, first: int
) -> None:
    """For tokens with vectors of the target, and for guesses, all but the first of which have the draft's own.
    llama.cpp's own implementation chains them alike (common/speculative.cpp)."""
    tokens = [(11 * place * place) % 90 + 5 for place in range(12)]
    guesses = [17, 300, 17]
    with opened(loaded_library, target, path, ubatch=7) as headed:
        headed.target.decode([Segment(0, 0, [4] * 3, 0), Segment(1, 0, tokens, 0)])
        headed.target.synchronize()
        known = headed.target.next_rows
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
    with opened(loaded_library, target, path, ubatch=7) as headed:
        headed.target.decode([Segment(slot, 0, texts[slot], slot % 2) for slot in range(SLOTS)])
        headed.target.synchronize()
        assert headed.target.next_rows is not None
        for slot, text in enumerate(texts):
            for place, token in enumerate(text):
                row = headed.target.next_rows.row(slot, place)
                assert row is not None
                np.testing.assert_array_equal(row[:64], embeddings[token])
                np.testing.assert_array_equal(row[128:], embeddings[token])
                assert np.abs(row[64:128] - embeddings[token]).max() > 1e-3


def test_a_library_without_the_functions_for_layers_still_has_those_for_nextn_layers(
    loaded_library: library.Library,
) -> None:
    class Older:
        def __getattr__(self, name: str) -> Any:
            if "layer_inp" in name:
                raise AttributeError(name)
            return getattr(loaded_library.api._lib, name)

        def __getitem__(self, name: str) -> Any:
            return loaded_library.api._lib[name]

    class Api:
        _lib = Older()

        def __getattr__(self, name: str) -> Any:
            return getattr(loaded_library.api, name)

    known, older = find(loaded_library.api), find(Api())
    assert known is not None
    assert known.reads_layers
    assert older is not None
    assert not older.reads_layers


@pytest.mark.parametrize("tokens", [None, range(1000)])
def test_the_plan_of_its_memory_covers_what_llama_cpp_allocates(
    loaded_library: library.Library, target: Path, tmp_path: Path, tokens: range | None
) -> None:
    """Of a draft most of which are logits."""
    words = bpe(20_000)
    path = write_eagle(tmp_path / "eagle.gguf", layers=LAYERS, tokenizer=words, tokens=tokens)
    large = write_llama(tmp_path / "target.gguf", n_layer=4, tokenizer=words)
    mark = loaded_library.log.mark()
    with opened(loaded_library, large, path) as headed:
        loads = [line for line in loaded_library.log.lines_since(mark) if LOGGED.search(line)]
        mark = loaded_library.log.mark()
        headed.heads.decode([Segment(0, 0, [5] * 64, 1)])
    made_for_draft = loads[[number for number, line in enumerate(loads) if "output" in line][-1] :]
    logged = sum(float(LOGGED.findall(line)[0]) for line in made_for_draft) * MIB + 4 * 64 * len(words.tokens)
    info, options = read_model_info(large), LoadOptions(slots=SLOTS, ctx=CTX)
    draft = DraftModel("eagle", path, read_model_info(path))
    planned = draft_bytes(info, options, draft) - draft.info.size_bytes
    planned -= 4 * 3 * 64 * (512 * SLOTS + 2048 + 512)  # what belongs to the target
    assert logged <= planned <= 2 * logged


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
