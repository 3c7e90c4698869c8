"""Draft models on the real llama.cpp: the same answer, whoever guesses, and streams that follow all that happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localllm.engine.building import build_engine
from localllm.engine.engine import StepOutput
from localllm.engine.media import MediaRows, Span
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.scheduling.row_cost import RowCost
from localllm.engine.speculation.account import Accounts
from localllm.engine.speculation.drafts import Drafts
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.proposers import DraftTarget, Proposers
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.drafts.draft_model import LlamaDraft
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab_difference import vocab_difference
from localllm.types import ResolvedSampling, Speculative
from tests.fakes import GivenRows, in_planes
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import spm
from tests.samplers import sampler

pytestmark = pytest.mark.pairwise

SLOTS, CTX = 3, 256
GREEDY = ResolvedSampling(temperature=0)


class AlwaysWorth(RowCost):
    """A target whose steps take so long that every guess pays."""

    def __init__(self) -> None:
        super().__init__(lambda _: 100.0)

    def __call__(self, _parts: Sequence[Part]) -> float:
        return 100.0

    def measured(self, _parts: Sequence[Part]) -> float:
        return 100.0

    def knows(self, _num_streams: int) -> bool:
        return True


class Generous(Accounts):
    """These models are so small that no draft wins time."""

    def allows(self, _num_streams: int) -> bool:
        return True


@contextmanager
def opened(
    loaded: library.Library, path: Path, *, ctx: int = CTX, unified: bool = False, snapshots: int = 0
) -> Iterator[LlamaBackend]:
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(
        loaded,
        model,
        KvMemory(ctx, SLOTS, num_cells=SLOTS * ctx if unified else None, snapshots=snapshots),
        Batching(64, max_outputs=48),
        threads=1,
    )
    yield backend
    backend.free()
    model.close()


@contextmanager
def opened_draft(loaded: library.Library, path: Path, *, ctx: int = CTX) -> Iterator[LlamaDraft]:
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    draft = LlamaDraft(
        model, open_backend(loaded, model, KvMemory(ctx, SLOTS), Batching(64, max_outputs=48), threads=1)
    )
    yield draft
    draft.free()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drafts")
    return {
        "target": write_llama(folder / "target.gguf"),
        "same": write_llama(folder / "same.gguf"),
        "other": families.write_draft(folder / "other.gguf", seed=3),
        "spm": families.write_sliding_window(folder / "spm.gguf"),
    }


@pytest.fixture(scope="module", params=["partitioned", "unified"])
def target(
    request: pytest.FixtureRequest, loaded_library: library.Library, models: dict[str, Path]
) -> Iterator[LlamaBackend]:
    with opened(loaded_library, models["target"], unified=request.param == "unified") as backend:
        yield backend


class Run:
    """An engine, and what came of it."""

    def __init__(self, target: LlamaBackend, draft: LlamaDraft | None, **how: Any) -> None:
        for slot in range(SLOTS):
            target.cells.truncate(slot, 0)
            if draft is not None:
                draft.truncate(slot, 0)
        self.drafts: Drafts | None = None

        def make(of: DraftTarget) -> Drafts:
            assert draft is not None
            self.drafts = Drafts(draft, of._replace(cost=AlwaysWorth()), share=0.1)
            self.drafts._accounts = Generous()
            return self.drafts

        self.engine = build_engine(
            target, self._emit, sampler=sampler(), proposers=Proposers(Speculator(), None if draft is None else make),
            limits=StepLimits(60), **how,
        )  # fmt: skip
        if draft is not None:
            self.engine.scheduler.drafter.cost = lambda _: 1.0
        self.experience = Experience(drafted_by=None if draft is None else "draft")

    def _emit(self, output: StepOutput) -> None:
        assert not output.failures

    def begin(
        self,
        id: int,
        prompt: list[int],
        count: int = 40,
        sampling: ResolvedSampling = GREEDY,
        spans: Sequence[Span] = (),
    ) -> Running:
        ending = Ending(ignore_eos=True)
        one = Running(Request(id, prompt, spans=spans, sampling=sampling, max_tokens=count, ending=ending))
        one.drawing.guesser = Guesser(Speculative(sources=("draft",)), self.experience)
        self.engine.submit(one)
        return one

    def finish(self) -> None:
        self.engine.step()
        while self.engine.scheduler.has_work:
            self.engine.step()
            self.check()

    def check(self) -> None:
        self.engine.check_integrity()
        if self.drafts is None or self.drafts.is_off or self.drafts._backend is None:
            return
        for stream in self.drafts._streams._streams:
            assert self.drafts._backend.length(stream.slot) == len(stream.tokens), "what is believed to be there is"


def seen(target: LlamaBackend, prompt: list[int]) -> tuple[list[int], list[Span]]:
    """The prompt with a picture of twelve rows in it; without one if the model takes none."""
    rows, down, right = target.decoder._rows, *np.divmod(np.arange(12, dtype=np.int32), 4)
    if rows is None:
        return prompt, []
    planes = in_planes(0 * down, down, right) if rows._sections > 1 else None
    numbers = np.random.default_rng(1).standard_normal((12, rows.width)).astype(np.float32)
    ids = tuple(range(-12, 0))
    picture = MediaRows(ids, 12 if planes is None else 4, planes, True, GivenRows(numbers))
    return [*prompt[:9], *ids, *prompt[9:]], [Span(9, picture)]


def prompts() -> list[list[int]]:
    return [[5 + (7 * id + 3 * place) % 300 for place in range(20 + 9 * id)] for id in range(SLOTS)]


SAMPLINGS = {
    "greedy": GREEDY,
    "drawn": ResolvedSampling(seed=5, temperature=0.9, top_k=20),
    "penalties": ResolvedSampling(seed=6, temperature=0.7, repeat_penalty=1.2, frequency_penalty=0.3),
}


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize("draft", ["same", "other"])
def test_the_answer_with_a_draft_is_the_answer_without(
    target: LlamaBackend, loaded_library: library.Library, models: dict[str, Path], draft: str, kind: str
) -> None:
    """In a unified cache rows of another number may be rounded otherwise, so that greedy ones are compared only."""
    if target.cells.num_cells is not None and kind != "greedy":
        return

    def ask(run: Run) -> list[Running]:
        """One of them with a picture, which the draft does not see."""
        first, second, third = prompts()
        third, spans = seen(target, third)
        made = [run.begin(id, prompt, sampling=SAMPLINGS[kind]) for id, prompt in enumerate((first, second))]
        made.append(run.begin(2, third, 40, SAMPLINGS[kind], spans))
        run.finish()
        return made

    plain = Run(target, None)
    expected = ask(plain)
    with opened_draft(loaded_library, models[draft]) as guessing:
        run = Run(target, guessing)
        made = ask(run)
    assert [one.progress.tokens for one in made] == [one.progress.tokens for one in expected]
    num_guesses = sum(one.drawing.num_guesses for one in made[:2])
    num_right = sum(one.drawing.num_right_guesses for one in made[:2])
    assert made[2].drawing.num_guesses > 0, "the draft goes on behind the picture"
    if draft == "same" and kind == "greedy":
        assert num_right > 53, "of 80 tokens"
        assert num_right > 0.95 * num_guesses
        assert run.engine.num_steps < 0.5 * plain.engine.num_steps
    if draft == "other":
        assert num_right < 0.5 * num_guesses, "it may guess, and is mostly wrong"


WRITERS: dict[str, Callable[..., Path]] = {
    "window": families.write_sliding_window,
    "gated": families.write_gated_delta,
    "short": families.write_short_conv,
}
NEARLY = 0.05
"""Of layers that hardly change what comes next: a draft with the same embeddings is mostly right."""


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize("memory", WRITERS)
def test_a_memory_that_takes_back_some_tokens_answers_with_a_draft_as_without(
    loaded_library: library.Library, tmp_path: Path, memory: str, kind: str
) -> None:
    """Turn after turn: what a slot holds of the first one is what the second goes on from. One is cancelled."""
    words = spm() if memory == "window" else None
    path = WRITERS[memory](tmp_path / "target.gguf", scale=NEARLY)
    draft = write_llama(tmp_path / "draft.gguf", tokenizer=words, scale=NEARLY)
    asked = SAMPLINGS[kind]

    def ask(run: Run) -> list[Running]:
        first = [run.begin(id, prompt, sampling=asked) for id, prompt in enumerate(prompts())]
        run.finish()
        second = [run.begin(10 + id, [*one.progress.tokens, 9], sampling=asked) for id, one in enumerate(first)]
        for _ in range(9):
            run.engine.step()
            run.check()
        run.engine.cancel(11)
        run.finish()
        return [*first, second[0], second[2]]

    with opened(loaded_library, path, snapshots=5) as target, opened_draft(loaded_library, draft) as guessing:
        assert not target.cells.can_rewind
        assert target.cells.max_rollback
        plain, run = Run(target, None), Run(target, guessing)
        expected, made = ask(plain), ask(run)
    assert [one.progress.tokens for one in made] == [one.progress.tokens for one in expected]
    if kind == "greedy":
        num_right = sum(one.drawing.num_right_guesses for one in made)
        assert num_right > 40, "of 200 tokens"
        assert run.engine.num_steps < 0.8 * plain.engine.num_steps


def test_turns_cancels_and_new_requests_find_their_streams(
    target: LlamaBackend, loaded_library: library.Library, models: dict[str, Path]
) -> None:
    plain = Run(target, None)
    turns = [plain.begin(0, prompts()[0], 20)]
    plain.finish()
    turns.append(plain.begin(1, [*turns[0].progress.tokens, 9, 10, 11], 20))
    plain.finish()
    with opened_draft(loaded_library, models["same"]) as guessing:
        run = Run(target, guessing)
        first = run.begin(0, prompts()[0], 20)
        run.finish()
        for id in range(10, 16):
            run.begin(id, [*prompts()[1], id], 100)
            for _ in range(6):
                run.engine.step()
                run.check()
            run.engine.cancel(id)
        second = run.begin(1, [*first.progress.tokens, 9, 10, 11], 20)
        run.finish()
    assert [first.progress.tokens, second.progress.tokens] == [one.progress.tokens for one in turns]
    assert min(first.drawing.num_right_guesses, second.drawing.num_right_guesses) > 10


@pytest.mark.parametrize("ctx", [64, CTX])
def test_a_context_that_shifts_or_is_longer_than_the_drafts_is_followed(
    loaded_library: library.Library, models: dict[str, Path], ctx: int
) -> None:
    def tokens_of(model: LlamaBackend, draft: LlamaDraft | None) -> tuple[list[int], int]:
        run = Run(model, draft, context_shift=True)
        one = run.begin(0, prompts()[2], 300)
        run.finish()
        return one.progress.tokens, one.drawing.num_right_guesses

    with (
        opened(loaded_library, models["target"]) as model,
        opened_draft(loaded_library, models["same"], ctx=ctx) as guessing,
    ):
        assert model.cells.can_shift
        plain, _ = tokens_of(model, None)
        guessed, num_right = tokens_of(model, guessing)
    assert guessed == plain
    assert num_right > 50


def test_a_draft_that_cannot_be_computed_is_dropped_and_answers_go_on(
    loaded_library: library.Library, models: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Its cells are taken by somebody else: llama.cpp finds no room for the next token."""
    with opened(loaded_library, models["target"]) as target, opened_draft(loaded_library, models["same"]) as guessing:
        plain = Run(target, None)
        expected = plain.begin(0, prompts()[0])
        plain.finish()
        run = Run(target, guessing)
        made = run.begin(0, prompts()[0])
        for _ in range(3):
            run.engine.step()
        guessing._decoder.max_outputs = 0  # from now on it refuses every batch
        run.finish()
    assert made.progress.tokens == expected.progress.tokens
    assert run.drafts is not None
    assert run.drafts.is_off
    assert "draft_dropped" in [record.message for record in caplog.records]


def test_vocabularies_are_compared_token_by_token(
    loaded_library: library.Library, models: dict[str, Path], tmp_path: Path
) -> None:
    words = spm()
    changed = replace(words, tokens=[*words.tokens[:300], "~~", *words.tokens[301:]])
    special = replace(words, types=[*words.types[:300], 3, *words.types[301:]])
    shorter = replace(words, tokens=words.tokens[:-4], types=words.types[:-4], scores=words.scores[:-4])
    files = {
        name: write_llama(tmp_path / f"{name}.gguf", tokenizer=tokenizer)
        for name, tokenizer in {"one": words, "changed": changed, "special": special, "shorter": shorter}.items()
    }
    loaded = {
        name: LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
        for name, path in {**files, "bpe": models["target"]}.items()
    }

    def difference(name: str) -> str:
        return vocab_difference(loaded_library.api, loaded["one"].vocab, loaded[name].vocab)

    assert difference("one") == ""
    assert "token 300 is '~~'" in difference("changed")
    assert "token 300" in difference("special")
    assert "special in one of the two" in difference("special")
    assert "tokens, not" in difference("shorter")
    assert "its tokenizer is" in difference("bpe")
    for model in loaded.values():
        model.close()
