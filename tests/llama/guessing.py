"""Guesses from hidden states on the real llama.cpp: models with what guesses for them, and conversations that go as
without guesses. Those without are held once for all drafts of a target."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.media import Span
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.speculation.drafts import Drafts
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.head_streams import HeadStreams
from localllm.engine.speculation.proposers import DraftTarget, Proposers
from localllm.gguf import read_model_info
from localllm.gguf.rules.nextn import FORMS
from localllm.llama import library
from localllm.llama.backend import AS_SUPPORTED, LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.drafts.making import maker_of
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.drafts.target_vectors import KeptVectors, TargetVectors
from localllm.llama.model import LlamaModel
from localllm.types import KvType, ResolvedSampling, SourceName, Speculative
from tests.llama.needs import guess_functions
from tests.llama.test_drafts import GREEDY, SAMPLINGS, AlwaysWorth, Generous, prompts, seen
from tests.llama.test_interrupts import stop_after
from tests.samplers import sampler

SLOTS, CTX = 3, 256
LAYERS = (1, 2, 3)
"""Those of a target of four whose inputs a draft gets."""
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


@dataclass(frozen=True)
class Held:
    """A conversation that was held."""

    answers: list[Running]
    num_steps: int

    @property
    def tokens(self) -> list[list[int]]:
        return [one.progress.tokens for one in self.answers]

    @property
    def num_guesses(self) -> int:
        return sum(one.drawing.num_guesses for one in self.answers)

    @property
    def num_right_guesses(self) -> int:
        return sum(one.drawing.num_right_guesses for one in self.answers)


Known = dict[Hashable, Held]
"""Conversations without guesses, of one target in one layout."""


@dataclass(frozen=True)
class Headed:
    """A model, and what guesses for it."""

    target: LlamaBackend
    vectors: TargetVectors
    heads: LlamaHeads
    source: SourceName
    known: Known = field(default_factory=dict)

    def plain(self, hold: Callable[..., list[Running]], *args: Hashable, **how: Any) -> Held:
        """The conversation without guesses. `how`: as for an `Engine`."""
        key = (hold, args, *how)
        if key not in self.known:
            self.known[key] = _held(Run(self, guesses=False, **how), hold, *args)
        return self.known[key]

    def both(self, hold: Callable[..., list[Running]], *args: Hashable, **how: Any) -> tuple[Held, Held]:
        """The conversation without guesses and with them."""
        return self.plain(hold, *args, **how), _held(Run(self, guesses=True, **how), hold, *args)


def _held(run: Run, hold: Callable[..., list[Running]], *args: Hashable) -> Held:
    return Held(hold(run, *args), run.engine.num_steps)


@contextmanager
def opened_heads(
    loaded: library.Library, path: Path, *, snapshots: int = 5, heads_ctx: int = CTX, ubatch: int | None = None
) -> Iterator[Headed]:
    """A model with NextN layers of its own."""
    functions = guess_functions(loaded)
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False, has_heads=True)
    target = open_backend(
        loaded,
        model,
        KvMemory(CTX, SLOTS, snapshots=snapshots),
        Batching(64, ubatch_tokens=ubatch, max_outputs=48),
        threads=1,
        kept=KeptVectors(functions),
    )
    cropped = FORMS[read_model_info(path).architecture].is_cropped
    heads = LlamaHeads(
        loaded, model, target, Batching(64, max_outputs=32), ctx=heads_ctx, threads=1, is_cropped=cropped
    )
    assert target.vectors is not None
    yield Headed(target, target.vectors, heads, "mtp")
    heads.free()
    target.free()
    model.close()


@contextmanager
def opened_draft(
    loaded: library.Library,
    target_path: Path,
    path: Path,
    *,
    ctx: int = CTX,
    draft_ctx: int = CTX,
    ubatch: int | None = None,
    known: Known | None = None,
    snapshots: int = 0,
    num_cells: int | None = None,
    kv_type: KvType = "f16",
    attention: Attention = AS_SUPPORTED,
) -> Iterator[Headed]:
    """`known`: what other drafts of this target know of it."""
    functions, head = guess_functions(loaded), read_model_info(path).draft_head
    assert head is not None
    assert head.problem == ""
    models = [LlamaModel(loaded, each, gpu_layers=0, devices=(), must_offload=False) for each in (target_path, path)]
    target = open_backend(
        loaded,
        models[0],
        KvMemory(ctx, SLOTS, num_cells=num_cells, kv_type=kv_type, snapshots=snapshots),
        Batching(64, ubatch_tokens=ubatch, max_outputs=48),
        threads=1,
        attention=attention,
        kept=KeptVectors(functions, head.layers),
    )
    draft = maker_of(head)(loaded, models[1], target, ctx=draft_ctx, threads=1, batch_tokens=64)
    assert target.vectors is not None
    yield Headed(target, target.vectors, draft, "draft", {} if known is None else known)
    draft.free()
    target.free()
    for model in reversed(models):
        model.close()


class Run:
    """An engine, and what came of it."""

    def __init__(self, headed: Headed, *, guesses: bool, **how: Any) -> None:
        for slot in range(SLOTS):
            headed.target.cells.truncate(slot, 0)
            headed.heads.truncate(slot, 0)
        self.target, self.vectors, self.heads, self.source = headed.target, headed.vectors, headed.heads, headed.source
        self.streams = HeadStreams(headed.heads)
        self.drafts: Drafts | None = None

        def make(of: DraftTarget) -> Drafts:
            self.drafts = Drafts(headed.heads, of._replace(cost=AlwaysWorth()), share=0.1, streams=self.streams)
            self.drafts._accounts = Generous()
            return self.drafts

        self.engine = build_engine(
            headed.target,
            self._emit,
            sampler=sampler(),
            proposers=Proposers(Speculator(), make if guesses else None),
            limits=StepLimits(60),
            **how,
        )  # fmt: skip
        if guesses:
            self.engine.scheduler.drafter.cost = lambda _: 1.0
        self.experience = Experience(drafted_by=self.source)

    def _emit(self, output: StepOutput) -> None:
        assert not output.failures

    def begin(
        self, id: int, prompt: list[int], count: int = 40, sampling: ResolvedSampling = GREEDY, spans: Many[Span] = ()
    ) -> Running:
        ending = Ending(ignore_eos=True)
        one = Running(Request(id, prompt, spans=spans, sampling=sampling, max_tokens=count, ending=ending))
        one.drawing.guesser = Guesser(Speculative(sources=(self.source,)), self.experience)
        self.engine.submit(one)
        return one

    def step(self) -> None:
        self.engine.step()
        self.engine.check_integrity()
        if self.drafts is not None:
            assert not self.drafts.is_off
            for stream in self.streams._streams:
                assert self.heads.length(stream.slot) == len(stream.tokens), "what is believed to be there is"

    def finish(self) -> None:
        self.step()
        while self.engine.scheduler.has_work:
            self.step()


def one_answer(run: Run, prompt: int, count: int) -> list[Running]:
    made = [run.begin(0, prompts()[prompt], count)]
    run.finish()
    return made


def turns(run: Run, sampling: str) -> list[Running]:
    """Turn after turn, with one that is cancelled among its guesses, and one about a picture."""
    asked: list[tuple[list[int], list[Span]]] = [(prompt, []) for prompt in prompts()]
    asked[2] = seen(run.target, asked[2][0])
    first = [run.begin(id, ids, 40, SAMPLINGS[sampling], spans) for id, (ids, spans) in enumerate(asked)]
    run.finish()
    second = [
        run.begin(10 + id, [*one.progress.tokens, 9], 40, SAMPLINGS[sampling], asked[id][1])
        for id, one in enumerate(first)
    ]
    for _ in range(9):
        run.step()
    run.engine.cancel(11)
    run.finish()
    return [*first, second[0], second[2]]


def leaving_its_slot(run: Run) -> list[Running]:
    """Its state comes back from main memory, without the vectors of its tokens."""
    first = run.begin(0, [5 + (3 * place) % 300 for place in range(120)], 30)
    run.finish()
    for id in range(1, 2 * SLOTS + 1):
        run.begin(id, [40 + id, *prompts()[1]], 10)
    run.finish()
    second = run.begin(20, [*first.progress.tokens, 9, 10], 30)
    run.finish()
    assert second.progress.num_cached > 20
    return [first, second]


def losing_vectors(run: Run) -> list[Running]:
    """As after an interrupted decode that left one token to compute: no stream can begin before that token's end."""
    made = [run.begin(id, prompt, 40) for id, prompt in enumerate(prompts())]
    for count in range(12):
        run.step()
        for slot in range(SLOTS) if count % 4 == 3 else ():
            run.vectors.forget(slot, run.target.cells.length(slot))
    run.finish()
    return made


def sharing_a_prompt(run: Run, length: int) -> list[Running]:
    """Answers after the first begin from a copy, of whose tokens there are no vectors."""
    prompt = [5 + (3 * place) % 300 for place in range(length)]
    first = run.begin(0, prompt, 30, ResolvedSampling(seed=0, temperature=0.9))
    for _ in range(5):
        run.step()
    more = [run.begin(id, prompt, 30, ResolvedSampling(seed=id, temperature=0.9)) for id in (1, 2)]
    run.finish()
    return [first, *more]


def interrupted(run: Run) -> list[Running]:
    """While prompts are computed, if there are guesses: vectors of ubatches that were kept are unknown."""
    made = [run.begin(id, [5 + (7 * id + 3 * place) % 300 for place in range(150)], 40) for id in range(SLOTS)]
    for stop in range(5, 400, 60) if run.drafts is not None else ():
        stop_after(run.target, stop)
        run.step()
    run.finish()
    return made


def check_leaving(headed: Headed) -> None:
    expected, made = headed.both(leaving_its_slot, tiers=Tiers(2**26))
    assert made.tokens == expected.tokens
    assert made.answers[1].drawing.num_guesses > 0


def check_lost_vectors(headed: Headed) -> None:
    expected, made = headed.both(losing_vectors)
    assert made.tokens == expected.tokens
    assert all(one.drawing.num_guesses for one in made.answers)


def check_interrupted(headed: Headed) -> None:
    lost_s = headed.target.decoder.lost_s
    expected, made = headed.both(interrupted)
    assert headed.target.decoder.lost_s > lost_s
    assert made.tokens == expected.tokens
    assert all(one.progress.num_generated == 40 for one in made.answers)
    assert made.num_guesses > 10


def check_one_that_fails(headed: Headed, spoil: Callable[[], None]) -> Run:
    """What guesses cannot be computed after three steps: it is freed, and the answer goes on."""
    expected = headed.plain(one_answer, 0, 40)
    run = Run(headed, guesses=True)
    made = run.begin(0, prompts()[0])
    for _ in range(3):
        run.engine.step()
    spoil()
    while run.engine.scheduler.has_work:
        run.engine.step()
    assert [made.progress.tokens] == expected.tokens
    assert run.drafts is not None
    assert run.drafts.is_off
    return run
