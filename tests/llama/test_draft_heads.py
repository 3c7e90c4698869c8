"""Drafts that guess from hidden states on the real llama.cpp: no answer is another, whatever happens to its slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.cache.kvcache import Tiers
from localllm.engine.sequence import Sequence as Request
from localllm.gguf import read_model_info
from localllm.gguf.target_states import GIVES_LAST, GIVES_STATES
from localllm.llama import library
from localllm.llama.blocks import LlamaBlocks
from localllm.llama.headed import HeadedBackend
from localllm.llama.model import LlamaModel
from localllm.llama.next_symbols import find
from localllm.supervisor.drafting import DraftModel, draft_bytes
from localllm.types import ResolvedSampling
from localllm.types.load_options import LoadOptions
from localllm.worker.drafting import maker_of
from tests.llama.test_buffer_planning import LOGGED, MIB
from tests.llama.test_drafts import SAMPLINGS, prompts
from tests.llama.test_heads import CTX, SLOTS, Headed, Run, check_lost_vectors
from tests.llama.test_interrupts import stop_after
from tests.models import families
from tests.models.dflash import write_dflash
from tests.models.eagle import write_eagle
from tests.models.headed import write_headed
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

Row = npt.NDArray[np.float32]
LAYERS = (1, 2, 3)
HEADED = ("bailingmoe3", "mimo2", "nemotron_h_moe", "qwen35moe")
MAPPED = tuple(range(310, 4, -1))
"""Tokens of a draft that knows fewer than its target, in another order."""
EAGLES: dict[str, dict[str, Any]] = {
    "random": {},
    "good": {"is_good": True},
    "shared": {"is_good": True, "has": ()},
    "mapped": {"is_good": True, "has": ("output",), "tokens": MAPPED},
    "normed": {"norm_before_fc": True, "norm_before_residual": True},
}
DFLASHES: dict[str, dict[str, Any]] = {
    "random": {"has": ()},
    "good": {"is_good": True},
    "pairs": {"is_good": True, "block": 2},
    "windowed": {"window": 12, "extra": {"attention.causal": True}},
    "mapped": {"is_good": True, "form": "dspark", "tokens": MAPPED},
    "dspark": {"form": "dspark", "extra": {"sample_from_anchor": False}},
    "dflash2": {"is_good": True, "form": "dflash2"},
}
WRITERS: dict[str, tuple[Callable[..., Path], dict[str, dict[str, Any]]]] = {
    "eagle3": (write_eagle, EAGLES),
    "dflash": (write_dflash, DFLASHES),
}
KINDS = [f"{architecture} {kind}" for architecture, (_, kinds) in WRITERS.items() for kind in kinds]
LEAST_RIGHT = {"eagle3 good": 100, "eagle3 shared": 100, "eagle3 mapped": 100, "dflash good": 60, "dflash mapped": 100,
               "dflash dflash2": 60}  # fmt: skip
"""Guesses that are right, of 200 greedy tokens."""


class DraftRun(Run):
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
    functions, head = find(loaded.api), read_model_info(path).draft_head
    assert functions is not None
    assert head is not None
    assert head.problem == ""
    models = [LlamaModel(loaded, each, gpu_layers=0, devices=(), must_offload=False) for each in (target_path, path)]
    target = HeadedBackend(
        loaded, models[0], functions, layers=head.layers, ctx=CTX, slots=SLOTS, threads=1, batch_tokens=64,
        max_outputs=48, snapshots=snapshots, ubatch_tokens=ubatch, num_cells=SLOTS * CTX if unified else None,
    )  # fmt: skip
    draft = maker_of(head)(loaded, models[1], target, functions, ctx=ctx, threads=1, batch_tokens=64)
    yield Headed(target, draft)
    draft.free()
    target.free()
    for model in reversed(models):
        model.close()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("drafts") / "target.gguf", n_layer=4, scale=0.05)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write, kinds = WRITERS[kind.split()[0]]
    return write(tmp_path_factory.mktemp("drafts") / f"{kind}.gguf", layers=LAYERS, **kinds[kind.split()[1]])


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
    plain = DraftRun(headed, guesses=False)
    expected = ask(plain, sampling)
    run = DraftRun(headed, guesses=True)
    made = ask(run, sampling)
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    num_guesses, num_right = (sum(getattr(one, name) for one in made) for name in ("num_guesses", "num_right_guesses"))
    assert num_guesses > 10
    if kind in LEAST_RIGHT and sampling == "greedy":
        assert num_right > LEAST_RIGHT[kind]
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
        expected, made = (ask(DraftRun(headed, guesses=guesses), "greedy") for guesses in (False, True))
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

    expected, made = (answers(DraftRun(headed, guesses=guesses, tiers=Tiers(2**26))) for guesses in (False, True))
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    assert made[1].num_guesses > 0


def test_vectors_lost_before_a_token_is_computed_are_waited_for(headed: Headed) -> None:
    check_lost_vectors(DraftRun, headed)


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

    expected, made = (answers(DraftRun(headed, guesses=guesses)) for guesses in (False, True))
    assert [one.tokens for one in made] == [one.tokens for one in expected]


def test_a_context_shorter_than_the_texts_is_begun_anew(
    loaded_library: library.Library, target: Path, path: Path
) -> None:
    with opened(loaded_library, target, path, ctx=64) as headed:
        expected, made = (_finished(DraftRun(headed, guesses=guesses), prompts()[0], 200) for guesses in (False, True))
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


@pytest.mark.parametrize("ctx", [64, CTX])
def test_a_target_whose_context_shifts_is_guessed_on(
    loaded_library: library.Library, target: Path, path: Path, ctx: int
) -> None:
    with opened(loaded_library, target, path, ctx=ctx) as headed:
        assert headed.target.can_shift
        expected, made = (
            _finished(DraftRun(headed, guesses=guesses, context_shift=True), prompts()[2], 300)
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

    expected, lost_s = answers(DraftRun(headed, guesses=False), iter(())), headed.target.lost_s
    made = answers(DraftRun(headed, guesses=True), iter(range(5, 400, 60)))
    assert headed.target.lost_s > lost_s
    assert [one.tokens for one in made] == [one.tokens for one in expected]
    assert all(one.num_generated == 40 for one in made)
    assert sum(one.num_guesses for one in made) > 10


def test_a_draft_that_cannot_be_computed_is_freed_and_answers_go_on(
    loaded_library: library.Library, target: Path, path: Path
) -> None:
    with opened(loaded_library, target, path) as headed:
        plain = DraftRun(headed, guesses=False)
        expected = plain.begin(0, prompts()[0])
        plain.finish()
        run = DraftRun(headed, guesses=True)
        made = run.begin(0, prompts()[0])
        for _ in range(3):
            run.engine.step()
        heads = headed.heads
        if isinstance(heads, LlamaBlocks):
            heads._block = msgspec.structs.replace(heads._block, mask=10**6)  # no such token
        else:
            heads._width = 5  # llama.cpp takes no such vector
        while run.engine.scheduler.has_work:
            run.engine.step()
        assert heads._model.handle is None
        assert made.tokens == expected.tokens
        assert run.drafts is not None
        assert run.drafts.is_off


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


@pytest.mark.parametrize("write", [write_eagle, write_dflash, partial(write_dflash, form="dflash2")])
@pytest.mark.parametrize("tokens", [None, range(1000)])
def test_the_plan_of_its_memory_covers_what_llama_cpp_allocates(
    loaded_library: library.Library, target: Path, tmp_path: Path, tokens: range | None, write: Callable[..., Path]
) -> None:
    """Of a draft most of which are logits."""
    words = bpe(20_000)
    path = write(tmp_path / "draft.gguf", layers=LAYERS, tokenizer=words, tokens=tokens)
    large = write_llama(tmp_path / "target.gguf", n_layer=4, tokenizer=words)
    mark = loaded_library.log.mark()
    with opened(loaded_library, large, path):
        loads = [line for line in loaded_library.log.lines_since(mark) if LOGGED.search(line)]
    made_for_draft = loads[[number for number, line in enumerate(loads) if "output" in line][-1] :]
    logged = sum(float(LOGGED.findall(line)[0]) for line in made_for_draft) * MIB + 4 * 64 * len(words.tokens)
    info, options = read_model_info(large), LoadOptions(slots=SLOTS, ctx=CTX)
    draft = DraftModel("eagle", path, read_model_info(path))
    planned = draft_bytes(info, options, draft) - draft.info.size_bytes
    planned -= 4 * 3 * 64 * (512 * SLOTS + 2048 + 512)  # what belongs to the target
    assert logged <= planned <= 2 * logged
