"""Guesses on real models: the answer is the one without, on every memory, whatever is asked for beside it.

Not in a unified cache: there what is cut leaves other cells free, so that sums are rounded in another order (log-
probabilities by up to 0.003 here), and a draw may fall on the other side. `test_rows` has one in which none does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from llguidance import LLMatcher

from localllm.engine.building import build_engine
from localllm.engine.constraint.distinct import DistinctTracker
from localllm.engine.constraint.distinctness import Distinctness, TokenBytes
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.requests.terms import Request
from localllm.engine.sampling.dry import Dry
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.proposers import Proposers
from localllm.grammar.compose import composed
from localllm.llama import library
from localllm.llama.backend import LlamaBackend
from localllm.llama.tokens.grammar_tokens import GrammarTokens
from localllm.types import Delta, DrySampling, ResolvedSampling, Speculative
from localllm.types.details import Detail
from localllm.types.structures import GrammarLimits, Structure
from localllm.worker.grammars.closings import Closings, bytes_of
from tests.fakes import grouped
from tests.later import jsonschema
from tests.llama.test_rows import LAYOUTS, Layout, opened, text_of
from tests.samplers import sampler

pytestmark = pytest.mark.pairwise

REQUESTS: dict[str, tuple[ResolvedSampling, dict[str, Any]]] = {
    "greedy": (ResolvedSampling(temperature=0), {}),
    "drawn": (ResolvedSampling(seed=5, temperature=1.2, top_k=0, min_p=0.0), {"logprobs": 2}),
    "penalties": (ResolvedSampling(seed=6, repeat_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.2), {}),
    "dry": (ResolvedSampling(seed=7, dry=DrySampling(multiplier=1.0, allowed_length=1)), {"min_tokens": 9}),
    "mirostat": (ResolvedSampling(seed=8, mirostat=2), {}),
    "filters": (ResolvedSampling(seed=9, typical_p=0.8, xtc_probability=0.5, xtc_threshold=0.02, top_k=0), {}),
    "sigma": (ResolvedSampling(seed=10, top_n_sigma=1.5, dynatemp_range=0.5, logit_bias={9: 2.0, 11: -5.0}), {}),
    "scored": (
        ResolvedSampling(seed=11, temperature=0.9),
        {"prompt_logprobs": 1, "cache_prompt": False, "logprobs": 0},
    ),
    "draws": (ResolvedSampling(seed=12, top_k=8), {"logprobs": 3, "detail": Detail(draws=True, tokens=True)}),
}
ROUNDING = 2e-2
"""Of log-probabilities: see `test_rows.TOLERANCE`."""


@pytest.fixture(
    scope="module",
    params=[each for each in LAYOUTS if each.ubatch_tokens is None and not each.is_unified],
    ids=lambda one: one[0],
)
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    layout: Layout = request.param
    with opened(loaded_library, tmp_path_factory.mktemp("guesses"), layout) as backend:
        yield backend


def free(_parts: Sequence[Part]) -> float:
    """All rows are computed that may be."""
    return 1.0


def ask(
    backend: LlamaBackend,
    sampling: ResolvedSampling,
    options: dict[str, Any],
    predictions: dict[int, list[int]],
    *,
    cancelled: tuple[int, int] = (-1, -1),
    shifts: bool = False,
    stops: Sequence[str] = (),
    constrain: Callable[[], MatcherConstraint] | None = None,
) -> tuple[dict[int, list[Delta]], dict[int, list[int]], int]:
    """What three requests are told, their tokens, and the steps that it took. `cancelled`: which one, at which step.
    `stops`: the stop string of each."""
    for slot in range(backend.cells.num_slots):
        backend.cells.truncate(slot, 0)
    told: dict[int, list[Delta]] = {}

    def emit(output: StepOutput) -> None:
        assert not output.failures
        for id, delta in output.deltas:
            told.setdefault(id, []).append(delta)

    proposer = Speculator() if predictions else None
    engine, experience, cost = (
        build_engine(
            backend, emit, sampler=sampler(), proposers=Proposers(proposer), limits=StepLimits(60), context_shift=shifts
        ),
        Experience(),
        free,
    )
    engine.scheduler.drafter.cost = cost if backend.cells.max_rollback else engine.scheduler.drafter.cost
    made = []
    for id in range(3):
        prompt = text_of(id, 9 + id)
        dry = None if sampling.dry is None else Dry(sampling.dry, backend.vocab.token_bytes, prompt)
        wanted = {"max_tokens": 40, "ignore_eos": True, "detail": Detail(tokens=True), **options}
        if stops:
            wanted["stop"] = [stops[id]]
        one = Running(
            Request(id, prompt, sampling=sampling, **grouped(wanted)),
            dry=dry,
            constraint=None if constrain is None else constrain(),
        )
        if predictions and one.request.takes_guesses:
            one.drawing.guesser = Guesser(Speculative(), experience, prediction=predictions[id])
        made.append(one)
        engine.submit(one)
    engine.step()
    while engine.scheduler.has_work:
        if engine.num_steps == cancelled[1]:
            engine.cancel(cancelled[0])
        engine.step()
        engine.check_integrity()
    return told, {one.id: one.progress.tokens for one in made}, engine.num_steps


def edited(tokens: list[int]) -> list[int]:
    """Every twelfth token is missing, every seventh another."""
    return [token if place % 7 else token + 1 for place, token in enumerate(tokens) if place % 12 != 5]


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_answer_with_a_prediction_is_the_one_without(backend: LlamaBackend, kind: str) -> None:
    sampling, options = REQUESTS[kind]
    plain_told, plain, num_steps = ask(backend, sampling, options, {})
    predictions = {id: edited(tokens[9 + id :]) for id, tokens in plain.items()}
    told, guessed, num_steps_guessed = ask(backend, sampling, options, predictions)
    assert guessed == plain
    for id, deltas in told.items():
        text = "".join(delta.text for delta in deltas)
        assert text == "".join(delta.text for delta in plain_told[id])
        found = [each for delta in deltas for each in (*delta.prompt_logprobs, *delta.logprobs)]
        wanted = [each for delta in plain_told[id] for each in (*delta.prompt_logprobs, *delta.logprobs)]
        assert [each.piece for each in found] == [each.piece for each in wanted]
        np.testing.assert_allclose(
            [each.logprob for each in found], [each.logprob for each in wanted], rtol=0, atol=ROUNDING
        )
        last, plain_last = deltas[-1].finish, plain_told[id][-1].finish
        assert last is not None
        assert plain_last is not None
        assert last.reason == plain_last.reason
        assert msgspec.structs.replace(last.usage, accepted_guesses=0, rejected_guesses=0) == plain_last.usage
    guesses = backend.cells.max_rollback and kind != "mirostat"
    most = 0.85 if backend.cells.rolls_back_equals else 0.7  # who guesses least says how many rows all get
    assert num_steps_guessed < most * num_steps if guesses else num_steps_guessed == num_steps


@pytest.mark.parametrize("size", [1, 3])
def test_a_stop_string_ends_an_answer_at_the_same_place_wherever_guesses_end(backend: LlamaBackend, size: int) -> None:
    """Some characters of each text are a stop string, which may begin in one step and end in another. The places are a
    twelfth of a text apart, and each request's own, so that three of them are asked for at once."""
    sampling = ResolvedSampling(seed=3, temperature=1.0)
    plain_told, plain, _ = ask(backend, sampling, {}, {})
    predictions = {id: edited(tokens[9 + id :]) for id, tokens in plain.items()}
    texts = ["".join(delta.text for delta in deltas) for _, deltas in sorted(plain_told.items())]
    for number in range(4):
        places = [(3 * number + id) * (len(text) - size) // 12 for id, text in enumerate(texts)]
        stops = [text[place : place + size] for text, place in zip(texts, places, strict=True)]
        told, guessed, _ = ask(backend, sampling, {}, predictions, stops=stops)
        expected, tokens, _ = ask(backend, sampling, {}, {}, stops=stops)
        assert guessed == tokens
        for id in told:
            assert _whole(told[id]) == _whole(expected[id])
            assert _whole(told[id])[2] == stops[id]


DOCUMENT = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["pending", "shipped", "returned"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "uniqueItems": True, "minItems": 2},
        "note": {"type": "string"},
    },
    "required": ["kind", "tags", "note"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("sampling", [REQUESTS["greedy"][0], REQUESTS["drawn"][0]], ids=["greedy", "drawn"])
def test_a_document_is_the_same_with_guesses_and_without(
    loaded_library: library.Library, backend: LlamaBackend, sampling: ResolvedSampling
) -> None:
    """Its items are distinct, and it is closed at its limit."""
    structure = Structure.json(DOCUMENT, close_at_limit=True)
    found, tokens = composed(structure), GrammarTokens(loaded_library.api, backend.vocab._handle)
    template = LLMatcher(tokens.tokenizer, found.grammar, log_level=0)
    closings, pieces = Closings(lambda: tokens, GrammarLimits()), bytes_of(tokens)
    token_bytes = TokenBytes(tokens.size, pieces, tokens.end_tokens)

    def constrained() -> MatcherConstraint:
        tracker = DistinctTracker(json.loads(found.checks))
        distinctness = Distinctness(tracker, token_bytes, (tokens.size + 31) // 32 * 4)
        closing = closings.of(structure, found.outline, distinctness)
        return MatcherConstraint(
            template.deep_copy(),
            num_tokens=tokens.size,
            end_tokens=tokens.end_tokens,
            distinctness=distinctness,
            closing=closing,
        )

    options = {"max_tokens": 120, "ignore_eos": False}
    plain_told, plain, _ = ask(backend, sampling, options, {}, constrain=constrained)
    predictions = {id: edited(tokens[9 + id :]) for id, tokens in plain.items()}
    told, guessed, _ = ask(backend, sampling, options, predictions, constrain=constrained)
    assert guessed == plain
    for id, deltas in told.items():
        assert _whole(deltas) == _whole(plain_told[id])
        jsonschema.validate(json.loads(_whole(deltas)[0]), DOCUMENT)


def test_a_request_that_is_cancelled_among_guesses_leaves_the_others_as_they_are(backend: LlamaBackend) -> None:
    sampling = ResolvedSampling(temperature=0)
    _, plain, _ = ask(backend, sampling, {}, {})
    predictions = {id: edited(tokens[9 + id :]) for id, tokens in plain.items()}
    for step in (2, 4, 7):
        told, guessed, _ = ask(backend, sampling, {}, predictions, cancelled=(1, step))
        assert guessed[0] == plain[0]
        assert guessed[2] == plain[2]
        assert guessed[1] == plain[1][: len(guessed[1])]
        last = told[1][-1].finish
        assert last is not None
        assert last.reason in ("cancelled", "length")


def test_a_context_that_shifts_has_the_same_answer(
    loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with opened(loaded_library, tmp_path_factory.mktemp("shifts"), LAYOUTS[0]) as backend:
        sampling, limit = ResolvedSampling(temperature=0.7, seed=2), backend.cells.slot_capacity + 150
        plain_told, plain, num_steps = ask(backend, sampling, {"max_tokens": limit}, {}, shifts=True)
        answers = {id: [t for delta in deltas for t in delta.tokens] for id, deltas in plain_told.items()}
        predictions = {id: edited(tokens) for id, tokens in answers.items()}
        told, guessed, num_steps_guessed = ask(backend, sampling, {"max_tokens": limit}, predictions, shifts=True)
        assert guessed == plain
        assert {id: _whole(deltas) for id, deltas in told.items()} == {
            id: _whole(deltas) for id, deltas in plain_told.items()
        }
        assert num_steps_guessed < 0.8 * num_steps


def _whole(deltas: list[Delta]) -> tuple[str, object, str | None]:
    """Text, reason and what stopped it."""
    last = deltas[-1].finish
    assert last is not None
    return "".join(delta.text for delta in deltas), last.reason, last.stop


def test_what_is_learned_of_a_real_model_makes_no_step_of_wrong_guesses(backend: LlamaBackend) -> None:
    """A prediction that is all wrong costs a few rows at most."""
    sampling = ResolvedSampling(temperature=0)
    _, plain, num_steps = ask(backend, sampling, {}, {})
    chooser = random.Random(1)
    wrong = {id: [chooser.randrange(5, 90) for _ in range(40)] for id in plain}
    told, guessed, num_steps_guessed = ask(backend, sampling, {}, wrong)
    assert guessed == plain
    assert num_steps_guessed == num_steps
    for deltas in told.values():
        finish = deltas[-1].finish
        assert finish is not None
        assert finish.usage.rejected_guesses < 120
