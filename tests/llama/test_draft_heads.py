"""Drafts that guess from hidden states on the real llama.cpp: no answer is another, whatever happens to its slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from localllm.gguf import read_model_info
from localllm.gguf.rules.target_states import GIVES_LAST, GIVES_STATES
from localllm.llama import library
from localllm.llama.drafts.dflash import LlamaBlocks
from localllm.llama.drafts.next_symbols import find
from localllm.planning.draft_plan import DraftModel, draft_bytes
from localllm.types.load_options import LoadOptions
from tests.llama.guessing import (
    CTX,
    DFLASHES,
    EAGLES,
    LAYERS,
    SLOTS,
    Headed,
    Known,
    check_interrupted,
    check_leaving,
    check_lost_vectors,
    check_one_that_fails,
    one_answer,
    opened_draft,
    sharing_a_prompt,
    turns,
)
from tests.llama.needs import guess_functions
from tests.llama.planned import allocated_mib
from tests.llama.test_buffer_planning import MIB
from tests.llama.test_drafts import SAMPLINGS
from tests.models import families
from tests.models.dflash import write_dflash
from tests.models.eagle import write_eagle
from tests.models.headed import write_headed
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe

pytestmark = pytest.mark.pairwise

Row = npt.NDArray[np.float32]
HEADED = ("bailingmoe3", "mimo2", "nemotron_h_moe", "qwen35moe")
WRITERS: dict[str, tuple[Callable[..., Path], dict[str, dict[str, Any]]]] = {
    "eagle3": (write_eagle, EAGLES),
    "dflash": (write_dflash, DFLASHES),
}
KINDS = [f"{architecture} {kind}" for architecture, (_, kinds) in WRITERS.items() for kind in kinds]
LEAST_RIGHT = {"eagle3 good": 100, "eagle3 shared": 100, "eagle3 mapped": 100, "dflash good": 60, "dflash mapped": 100,
               "dflash dflash2": 60}  # fmt: skip
"""Guesses that are right, of 200 greedy tokens."""


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


@pytest.fixture(scope="module")
def known() -> dict[str, Known]:
    """What the target says without guesses, for each layout."""
    return {"partitioned": {}, "unified": {}}


@pytest.fixture(scope="module", params=["partitioned", "unified"])
def headed(
    request: pytest.FixtureRequest,
    loaded_library: library.Library,
    target: Path,
    path: Path,
    known: dict[str, Known],
) -> Iterator[Headed]:
    num_cells = SLOTS * CTX if request.param == "unified" else None
    with opened_draft(loaded_library, target, path, num_cells=num_cells, known=known[request.param]) as both:
        yield both


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_answer_with_a_draft_is_the_answer_without(headed: Headed, kind: str, sampling: str) -> None:
    """Turn after turn, with one that is cancelled among its guesses."""
    expected, made = headed.both(turns, sampling)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10
    if kind in LEAST_RIGHT and sampling == "greedy":
        assert made.num_right_guesses > LEAST_RIGHT[kind]
        assert made.num_steps < 0.7 * expected.num_steps


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
    with opened_draft(loaded_library, path, eagle, snapshots=5) as headed:
        expected, made = headed.both(turns, "greedy")
        rows = headed.vectors.rows
        assert rows is not None
        known = [rows.row(slot, place) for slot in range(SLOTS) for place in range(CTX)]
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10
    row = next(row for row in known if row is not None)
    assert all(np.abs(part).max() > 0.01 for part in row.reshape(3, -1)), "there is something of each layer"


def test_a_conversation_that_left_its_slot_and_came_back_is_guessed_on(headed: Headed) -> None:
    check_leaving(headed)


def test_vectors_lost_before_a_token_is_computed_are_waited_for(headed: Headed) -> None:
    check_lost_vectors(headed)


@pytest.mark.parametrize("length", [1, 2, 40])
def test_answers_that_share_a_prompt_are_guessed_each_in_its_slot(headed: Headed, length: int) -> None:
    expected, made = headed.both(sharing_a_prompt, length)
    assert made.tokens == expected.tokens


def test_a_context_shorter_than_the_texts_is_begun_anew(
    loaded_library: library.Library, target: Path, path: Path, known: dict[str, Known]
) -> None:
    with opened_draft(loaded_library, target, path, draft_ctx=64, known=known["partitioned"]) as headed:
        expected, made = headed.both(one_answer, 0, 200)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


@pytest.mark.parametrize("draft_ctx", [64, CTX])
def test_a_target_whose_context_shifts_is_guessed_on(
    loaded_library: library.Library, target: Path, path: Path, known: dict[str, Known], draft_ctx: int
) -> None:
    with opened_draft(loaded_library, target, path, draft_ctx=draft_ctx, known=known["partitioned"]) as headed:
        assert headed.target.cells.can_shift
        expected, made = headed.both(one_answer, 2, 300, context_shift=True)
    assert made.tokens == expected.tokens
    assert made.num_guesses > 10


def test_interrupted_prompts_change_no_answer(headed: Headed) -> None:
    """The draft begins behind the ubatches that were kept."""
    if not headed.target.decoder.can_be_interrupted:
        pytest.skip("the module that interrupts is not compiled")
    check_interrupted(headed)


def test_a_draft_that_cannot_be_computed_is_freed_and_answers_go_on(
    loaded_library: library.Library, target: Path, path: Path, known: dict[str, Known]
) -> None:
    with opened_draft(loaded_library, target, path, known=known["partitioned"]) as headed:
        heads = headed.heads

        def spoil() -> None:
            if isinstance(heads, LlamaBlocks):
                heads._block = msgspec.structs.replace(heads._block, mask=10**6)  # no such token
            else:
                heads._width = 5  # llama.cpp takes no such vector

        check_one_that_fails(headed, spoil)
        assert heads._model.handle is None


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

    known, older = guess_functions(loaded_library), find(Api())
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
    with opened_draft(loaded_library, large, path):
        lines = loaded_library.log.lines_since(mark)
    of_draft = lines[[number for number, line in enumerate(lines) if "output buffer size" in line][-1] :]
    logged = allocated_mib(of_draft) * MIB + 4 * 64 * len(words.tokens)
    info, options = read_model_info(large), LoadOptions(slots=SLOTS, ctx=CTX)
    draft = DraftModel("eagle", path, read_model_info(path))
    planned = draft_bytes(info, options, draft) - draft.info.size_bytes
    planned -= 4 * 3 * 64 * (512 * SLOTS + 2048 + 512)  # what belongs to the target
    assert logged <= planned <= 2 * logged
