"""Wanted slots, reports of prompts and ids of tokens, on a fake backend: as asked, and nothing where nobody asks."""

from __future__ import annotations

from localllm.engine.building import build_engine
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, ReportOptions, Request, Reuse
from localllm.types import Delta, Detail, Lines, PromptProgress, ResolvedSampling
from tests.fakes import FakeBackend, alone

GREEDY = ResolvedSampling(temperature=0)


class Deltas:
    """All that an engine says, by request."""

    def __init__(self) -> None:
        self.of: dict[int, list[Delta]] = {}

    def __call__(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            self.of.setdefault(id, []).append(delta)

    def progress(self, id: int) -> list[PromptProgress]:
        return [each for delta in self.of[id] for each in delta.progress]


def run(engine: Engine) -> None:
    engine.step()
    while engine.scheduler.has_work:
        engine.step()
        engine.check_integrity()


def test_a_request_waits_for_the_slot_that_it_wants_while_others_pass() -> None:
    deltas = Deltas()
    engine = build_engine(FakeBackend(num_slots=2), deltas)
    engine.submit(Sequence(Request(1, [5, 6], sampling=GREEDY, max_tokens=6, reuse=Reuse(wanted_slot=1))))
    engine.step()
    engine.submit(
        Sequence(
            Request(
                2,
                [7, 8],
                sampling=GREEDY,
                max_tokens=2,
                reuse=Reuse(wanted_slot=1),
                reported=ReportOptions(detail=Detail()),
            )
        )
    )
    engine.submit(Sequence(Request(3, [9, 10], sampling=GREEDY, max_tokens=20)))
    engine.step()
    by_slot = [slot.request for slot in engine.scheduler.slot_status()]
    assert by_slot == [3, 1], "number 2 waits, though a slot was free"
    while engine.scheduler.find(1) is not None:
        engine.step()
    engine.step()
    assert [slot.request for slot in engine.scheduler.slot_status()] == [3, 2]
    run(engine)
    assert deltas.progress(2)[-1].slot == 1


def test_a_request_in_the_slot_that_it_wants_is_not_moved_to_another() -> None:
    engine = build_engine(FakeBackend(num_slots=4, slot_capacity=256), Deltas())
    engine.submit(Sequence(Request(1, [5, 6], sampling=GREEDY, max_tokens=200, reuse=Reuse(wanted_slot=3))))
    for _ in range(20):
        engine.step()
        assert engine.scheduler.slot_status()[3].request == 1


def test_progress_begins_with_what_is_cached_grows_with_every_step_and_ends_with_all() -> None:
    deltas = Deltas()
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256, batch_capacity=16), deltas)
    prompt = [index % 90 + 1 for index in range(100)]
    engine.submit(Sequence(Request(1, prompt[:40], sampling=GREEDY, max_tokens=1)))
    run(engine)
    assert deltas.progress(1) == [], "nobody asked"
    engine.submit(
        Sequence(
            Request(
                2,
                prompt,
                sampling=GREEDY,
                max_tokens=3,
                reported=ReportOptions(detail=Detail(progress=True, tokens=True)),
            )
        )
    )
    run(engine)
    told = deltas.progress(2)
    computed = [each.computed for each in told]
    assert computed[0] == told[0].cached == 40
    assert computed == sorted(set(computed))
    assert len(computed) > 3
    assert computed[-1] == 100 == told[0].total
    assert {(each.cached, each.slot) for each in told} == {(40, 0)}
    begun = next(number for number, delta in enumerate(deltas.of[2]) if delta.num_tokens)
    assert all(not delta.progress for delta in deltas.of[2][begun:]), "the prompt is whole before the answer begins"
    assert [token for delta in deltas.of[2] for token in delta.tokens] == alone(prompt, 3)


def test_without_progress_there_is_one_report_when_the_prompt_is_whole() -> None:
    deltas = Deltas()
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256, batch_capacity=16), deltas)
    engine.submit(
        Sequence(Request(1, [7] * 90, sampling=GREEDY, max_tokens=2, reported=ReportOptions(detail=Detail())))
    )
    run(engine)
    assert [each.computed for each in deltas.progress(1)] == [90]
    assert all(not delta.tokens for delta in deltas.of[1])


class Lined(FakeBackend):
    """Every third token ends a line."""

    def token_bytes(self, token: int) -> bytes:
        return b"x" if token % 3 else b"\n"


def test_a_line_that_is_indented_too_little_ends_an_answer_as_a_limit_does() -> None:
    deltas = Deltas()
    engine = build_engine(Lined(num_slots=1, slot_capacity=256), deltas)
    engine.submit(Sequence(Request(1, [5], sampling=GREEDY, max_tokens=100, ending=Ending(lines=Lines(min_indent=1)))))
    run(engine)
    whole = "".join("x" if token % 3 else "\n" for token in alone([5], 100))
    finish = deltas.of[1][-1].finish
    assert finish is not None
    assert finish.reason == "length"
    first_end = whole.index("\n") + 1
    assert "".join(delta.text for delta in deltas.of[1]) == whole[:first_end]
    assert finish.usage.completion_tokens == first_end + 1
