"""Guesses beside everything else that a request may ask for, in crowds that come and go: no answer is another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import SLOTS_ONLY, Tiers
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.sampling.dry import Dry
from localllm.engine.scheduling.rows import Cost, assumed_cost
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.proposers import Proposers
from localllm.types import DrySampling, ResolvedSampling, Speculative
from localllm.types.details import Detail, Lines
from tests.fakes import END, FakeBackend, grouped
from tests.unit.engine.test_constraints import HELPED_S, INLINE_S, FakeConstraint
from tests.unit.engine.test_proposals import SAMPLER, Answer, Answers, dear, free
from tests.unit.engine.test_speculation import Repeating, mutated

SLOTS, SLOT = 3, 64

SAMPLINGS = st.builds(
    ResolvedSampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 5, 40]),
    top_p=st.sampled_from([1.0, 0.7]),
    min_p=st.sampled_from([0.0, 0.1]),
    top_n_sigma=st.sampled_from([0.0, 0.0, 1.0, 2.5]),
    typical_p=st.sampled_from([1.0, 1.0, 0.6]),
    xtc_probability=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    xtc_threshold=st.sampled_from([0.05, 0.3]),
    dynatemp_range=st.sampled_from([0.0, 0.0, 0.4]),
    mirostat=st.sampled_from([0, 0, 0, 0, 1, 2]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    repeat_last_n=st.sampled_from([-1, 0, 2, 64]),
    presence_penalty=st.sampled_from([0.0, 0.4]),
    frequency_penalty=st.sampled_from([0.0, 0.6]),
    logit_bias=st.sampled_from([{}, {}, {44: 1.5, 41: -3.0}, {END: 2.0}]),
    dry=st.sampled_from([None, None, DrySampling(multiplier=1.0, allowed_length=1, sequence_breakers=("A",))]),
    seed=st.integers(0, 5),
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Of one request."""

    sampling: ResolvedSampling
    prompt: tuple[int, ...] = (40, 41, 42)
    grammar: int | None = None
    """A constraint's seed."""
    length: int = 20
    """Tokens that make its text complete."""
    masks_s: float = INLINE_S
    arrives_at: int = 0
    """A step."""
    leaves_after: int | None = None
    """So many tokens were told."""
    wants: Speculative = field(default_factory=Speculative)
    has_prediction: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def sequence(self, id: int) -> Sequence:
        options, dry, constraint = dict(self.options), self.sampling.dry, None
        if self.grammar is not None:
            options["ignore_eos"] = False
            constraint = FakeConstraint(self.grammar, self.length, cost_s=self.masks_s)
        return Sequence(
            Request(id, self.prompt, sampling=self.sampling, **grouped({"end_tokens": [END], **options})),
            dry=None if dry is None else Dry(dry, lambda token: bytes([31 + token]), self.prompt),
            constraint=constraint,
        )


@st.composite
def requests(draw: st.DrawFn, shifts: bool) -> Asked:
    options: dict[str, Any] = {
        "max_tokens": 100 if shifts else draw(st.sampled_from([1, 5, 30, 40])),
        "min_tokens": draw(st.sampled_from([0, 0, 6, 20])),
        "logprobs": draw(st.sampled_from([None, None, 0, 2])),
        "prompt_logprobs": draw(st.sampled_from([None, None, None, 1])),
        "ignore_eos": draw(st.booleans()),
        "stop": draw(st.sampled_from([(), (), ("GH",), ("I", "HI"), ("KKH", "zz")])),
        "stop_tokens": draw(st.sampled_from([(), (), (43,)])),
        "detail": draw(st.sampled_from([None, Detail(tokens=True), Detail(tokens=True, draws=True)])),
        "lines": draw(st.sampled_from([None, None, None, Lines(min_indent=2)])),
        "keep": draw(st.integers(0, 3)),
        "priority": draw(st.integers(0, 1)),
        "cache_prompt": draw(st.booleans()),
    }
    sampling, grammar = draw(SAMPLINGS), draw(st.sampled_from([None, None, 1, 2, 3]))
    if grammar is not None:  # its forced tokens are none that were drawn
        sampling = ResolvedSampling(**{n: getattr(sampling, n) for n in sampling.__struct_fields__} | {"mirostat": 0})
        options["prompt_logprobs"] = None
    options["cache_prompt"] &= options["prompt_logprobs"] is None  # as the preparer has it
    return Asked(
        sampling=sampling,
        prompt=tuple(draw(st.lists(st.integers(40, 45), min_size=1, max_size=12))),
        grammar=grammar,
        length=draw(st.integers(1, 30)),
        masks_s=draw(st.sampled_from([INLINE_S, INLINE_S, HELPED_S])),
        arrives_at=draw(st.integers(0, 12)),
        leaves_after=draw(st.sampled_from([None, None, None, 1, 7])),
        wants=draw(st.sampled_from([Speculative(), Speculative(), Speculative(n_max=2), Speculative(n_max=0)])),
        has_prediction=draw(st.booleans()),
        options=options,
    )


def answers(
    asked: list[Asked],
    backend: FakeBackend,
    *,
    shifts: bool,
    rows: Cost,
    guesses: dict[int, Guesser],
    tiers: Tiers = SLOTS_ONLY,
) -> Answers:
    """Each comes at its step, and goes when it has heard enough."""
    sequences = [each.sequence(id) for id, each in enumerate(asked)]
    told = Answers(sequences)
    proposer = Speculator() if guesses else None
    engine = build_engine(
        backend, told, context_shift=shifts, sampler=SAMPLER, proposers=Proposers(proposer), tiers=tiers
    )
    engine.scheduler.drafter.cost = rows
    waiting = set(range(len(asked)))
    for step in range(3000):
        for id in [id for id in waiting if asked[id].arrives_at <= step]:
            waiting.discard(id)
            sequences[id].drawing.guesser = guesses.get(id) if sequences[id].request.takes_guesses else None
            engine.submit(sequences[id])
        engine.step()
        engine.check_integrity()
        for id, each in enumerate(asked):
            one = told.of(id)
            if each.leaves_after is not None and one.num_tokens >= each.leaves_after and one.reason is None:
                engine.cancel(id)
        if not waiting and not engine.scheduler.has_work:
            engine.stop()
            return told
    raise AssertionError("the engine never ran out of work")


def close(one: Answer, other: Answer) -> bool:
    """Equal, but for the last digits of log-probabilities (a forced token's are summed up elsewhere), and for what was
    in the cache, which others' steps decide.
    """
    return _but_times(one) == _but_times(other) and all(
        (a.piece, a.top) == (b.piece, b.top) and np.isclose(a.logprob, b.logprob, atol=1e-4)
        for a, b in zip(one.logprobs, other.logprobs, strict=True)
    )


def _but_times(answer: Answer) -> Answer:
    usage = answer.usage and msgspec.structs.replace(answer.usage, cached_tokens=0)
    return answer._replace(logprobs=(), tokens=(), usage=usage)


@settings(max_examples=100, deadline=None)
@given(
    st.booleans().flatmap(
        lambda shifts: st.tuples(st.just(shifts), st.lists(requests(shifts), min_size=1, max_size=6))
    ),
    st.sampled_from([free, free, assumed_cost, dear]),
    st.integers(0, 1000),
    st.sampled_from([24, 96]),
)
def test_in_a_crowd_that_comes_and_goes_every_answer_is_the_one_without_guesses(
    crowd: tuple[bool, list[Asked]], rows: Cost, seed: int, batch_capacity: int
) -> None:
    shifts, asked = crowd

    def made() -> FakeBackend:
        return Repeating(num_slots=SLOTS, slot_capacity=SLOT, batch_capacity=batch_capacity, max_outputs=96)

    plain_backend, backend, experience = made(), made(), Experience()
    plain = answers(asked, plain_backend, shifts=shifts, rows=dear, guesses={})
    guesses = {
        id: Guesser(
            each.wants,
            experience,
            prediction=mutated(plain.of(id).tokens[len(each.prompt) :], seed + id) if each.has_prediction else (),
        )
        for id, each in enumerate(asked)
    }
    guessed = answers(asked, backend, shifts=shifts, rows=rows, guesses=guesses)
    for id, each in enumerate(asked):
        one, other = plain.of(id), guessed.of(id)
        if each.leaves_after is not None and "cancelled" in (one.reason, other.reason):
            shorter, longer = sorted((one.text, other.text), key=len)
            assert longer.startswith(shorter), "what it was told until it left"
            assert other.num_tokens >= min(each.leaves_after, one.num_tokens)
        else:
            assert close(one, other)
    event("fewer steps" if len(backend.batches) < len(plain_backend.batches) else "as many steps")
