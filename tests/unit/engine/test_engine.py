"""The engine and its scheduler on a fake backend: nothing lost, nothing mixed up, nobody starved."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Request, Shift
from localllm.engine.sampling import native
from localllm.engine.sampling.dry import Dry
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.errors import InvalidParameter, LocalLLMError
from localllm.types import Delta, DrySampling, Finish, ResolvedSampling, joined
from localllm.types.states import EngineStatus
from tests.draining import drain
from tests.fakes import END, FakeBackend, alone, next_token

GREEDY = ResolvedSampling(temperature=0)


class Collector:
    """What a worker would send."""

    def __init__(self) -> None:
        self.text: dict[int, str] = {}
        self.num_tokens: dict[int, int] = {}
        self.finish: dict[int, Finish] = {}
        self.failures: dict[int, LocalLLMError] = {}
        self.all_done = threading.Event()
        self.expected = 0

    def __call__(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            assert id not in self.finish, "a delta after the finish"
            self.text[id] = self.text.get(id, "") + delta.text
            self.num_tokens[id] = self.num_tokens.get(id, 0) + delta.num_tokens
            if delta.finish is not None:
                self.finish[id] = delta.finish
        self.failures.update(output.failures)
        if self.expected and len(self.finish) == self.expected:
            self.all_done.set()


def text_of(tokens: list[int]) -> str:
    return "".join(chr(31 + token) for token in tokens)


@settings(max_examples=200)
@given(
    requests=st.lists(
        st.tuples(st.lists(st.integers(1, 96), min_size=1, max_size=50), st.integers(1, 20)), min_size=1, max_size=12
    ),
    slots=st.integers(1, 5),
    batch=st.integers(5, 40),
)
def test_every_request_answers_as_if_it_were_alone(
    requests: list[tuple[list[int], int]], slots: int, batch: int
) -> None:
    backend, collector = FakeBackend(num_slots=slots, batch_capacity=batch), Collector()
    engine = build_engine(backend, collector)
    for id, (prompt, count) in enumerate(requests):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=count)))
    drain(engine)
    for id, (prompt, count) in enumerate(requests):
        room = min(count, backend.slot_capacity - len(prompt))
        assert collector.text[id] == text_of(alone(prompt, room))
        assert collector.num_tokens[id] == collector.finish[id].usage.completion_tokens == room
        assert collector.finish[id].reason == "length"
        assert collector.finish[id].is_context_full == (len(prompt) + room == backend.slot_capacity)
    assert engine.scheduler.running == [], "a slot leaked"


def test_a_stream_gets_a_token_after_each_part_of_a_long_prompt_and_the_prompt_a_row_with_it() -> None:
    """A partitioned cache computes them in passes of their own in any case."""
    backend, collector = FakeBackend(slot_capacity=256, batch_capacity=8), Collector()
    engine = build_engine(backend, collector)
    engine.submit(Sequence(Request(1, [5], sampling=GREEDY, max_tokens=100)))
    engine.step()
    engine.submit(Sequence(Request(2, [7] * 70, sampling=GREEDY, max_tokens=2)))
    for _ in range(8):
        before = collector.num_tokens[1]
        engine.step()
        assert collector.num_tokens[1] == before
        engine.step()
        assert collector.num_tokens[1] == before + 1
    parts = [[(each.slot, len(each.tokens)) for each in batch] for batch in backend.batches[1:]]
    assert parts == [[(1, 8)], [(0, 1), (1, 1)]] * 7 + [[(1, 7)], [(0, 1), (1, 1)]]
    assert 2 in collector.finish, "its second token was drawn in the same pass as the stream's"


def test_a_prompt_loses_no_step_to_the_turn_of_a_stream_that_has_ended() -> None:
    backend = FakeBackend(slot_capacity=256, batch_capacity=8)
    engine = build_engine(backend, Collector())
    engine.submit(Sequence(Request(1, [5], sampling=GREEDY, max_tokens=100)))
    engine.step()
    engine.submit(Sequence(Request(2, [7] * 70, sampling=GREEDY, max_tokens=1)))
    engine.step()
    engine.cancel(1)
    engine.step()
    assert [len(segment.tokens) for segment in backend.batches[-1]] == [8]


def test_in_a_unified_cache_a_stream_gets_its_token_in_every_step_while_a_long_prompt_is_computed() -> None:
    backend, collector = FakeBackend(slot_capacity=256, batch_capacity=8, num_cells=512), Collector()
    engine = build_engine(backend, collector)
    engine.submit(Sequence(Request(1, [5], sampling=GREEDY, max_tokens=100)))
    engine.step()
    engine.submit(Sequence(Request(2, [7] * 70, sampling=GREEDY, max_tokens=1)))
    for _ in range(10):
        before = collector.num_tokens[1]
        engine.step()
        assert collector.num_tokens[1] == before + 1
    assert 2 in collector.finish, "70 tokens in chunks of 7 take 10 steps"


def test_two_prompts_share_the_batch_evenly() -> None:
    backend = FakeBackend(slot_capacity=256, batch_capacity=20)
    engine = build_engine(backend, Collector())
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [id] * 100, sampling=GREEDY, max_tokens=1)))
    engine.step()
    assert [len(segment.tokens) for segment in backend.batches[0]] == [10, 10]


@pytest.mark.parametrize(("streams", "sizes"), [(0, [192, 192, 116]), (3, [192, 1, 192, 1, 114])])
def test_chunks_are_whole_tiles_of_the_part_of_the_batch_that_they_are_computed_in(
    streams: int, sizes: list[int]
) -> None:
    """Beside streams, a row goes with each of their tokens."""
    backend = FakeBackend(slot_capacity=1024, batch_capacity=230 if streams == 0 else 192)
    engine = build_engine(backend, Collector(), limits=StepLimits(60, 60))
    for id in range(streams):
        engine.submit(Sequence(Request(id, [id + 1], sampling=GREEDY, max_tokens=100)))
    engine.step()
    before = len(backend.batches)
    engine.submit(Sequence(Request(9, [5] * 500, sampling=GREEDY, max_tokens=1)))
    drain(engine, limit=200)
    chunks = [len(segment.tokens) for batch in backend.batches[before:] for segment in batch if segment.slot == streams]
    assert chunks == sizes


def test_waiting_requests_enter_the_lowest_free_slot_in_order() -> None:
    backend, collector = FakeBackend(num_slots=2), Collector()
    engine = build_engine(backend, collector)
    for id, count in ((1, 1), (2, 5), (3, 2), (4, 2)):
        engine.submit(Sequence(Request(id, [id], sampling=GREEDY, max_tokens=count)))
    engine.step()
    engine.step()
    assert [(s.id, s.slot) for s in engine.scheduler.running] == [(3, 0), (2, 1)]
    drain(engine)
    assert sorted(collector.finish) == [1, 2, 3, 4]


@pytest.mark.parametrize("prompt_length", [1, 50])
def test_a_cancelled_request_frees_its_slot_by_the_next_step_and_changes_nobody_elses_answer(
    prompt_length: int,
) -> None:
    backend, collector = FakeBackend(batch_capacity=8), Collector()
    engine = build_engine(backend, collector)
    engine.submit(Sequence(Request(1, [9, 8], sampling=GREEDY, max_tokens=20)))
    engine.submit(Sequence(Request(2, [3] * prompt_length, sampling=GREEDY)))
    engine.step()
    engine.step()
    engine.cancel(2)
    engine.step()
    assert [sequence.id for sequence in engine.scheduler.running] == [1]
    assert collector.finish[2].reason == "cancelled"
    drain(engine)
    assert collector.text[1] == text_of(alone([9, 8], 20))


def test_a_waiting_request_can_be_cancelled_and_an_unknown_one_ignored() -> None:
    collector = Collector()
    engine = build_engine(FakeBackend(num_slots=1), collector)
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [id], sampling=GREEDY, max_tokens=3)))
    engine.step()
    engine.cancel(2)
    engine.cancel(99)
    drain(engine)
    assert collector.finish[2].reason == "cancelled"
    assert collector.finish[2].usage.completion_tokens == 0
    assert collector.finish[1].reason == "length"


def test_the_end_token_stops_and_is_not_counted_unless_it_is_ignored() -> None:
    collector = Collector()
    engine = build_engine(FakeBackend(ends_at=5), collector)
    engine.submit(Sequence(Request(1, [1, 2, 3], sampling=GREEDY)))
    engine.submit(Sequence(Request(2, [1, 2, 3], sampling=GREEDY, ending=Ending(ignore_eos=True), max_tokens=9)))
    drain(engine)
    assert collector.finish[1].reason == "stop"
    assert collector.finish[1].usage.completion_tokens == collector.num_tokens[1] == 2
    assert collector.finish[2].reason == "length"
    assert collector.finish[2].usage.completion_tokens == 9


def test_an_answer_that_nobody_reads_before_its_end_is_one_delta_and_says_the_same() -> None:
    """However it ends: by its limit, a stop string, a cancel, a deadline."""
    now = [0.0]
    stop = text_of(alone([4, 4], 12))[6:9]
    asked: list[tuple[list[int], Any]] = [
        ([7, 7], {"max_tokens": 9}),
        ([4, 4], {"ending": Ending(stop=[stop])}),
        ([5], {"max_tokens": 60}),
        ([6], {"due": Due(deadline_s=10.0)}),
    ]

    def answers(*, whole: bool) -> dict[int, list[Delta]]:
        now[0] = 0.0
        sent: dict[int, list[Delta]] = {}

        def emit(output: StepOutput) -> None:
            for id, delta in output.deltas:
                sent.setdefault(id, []).append(delta)

        engine = build_engine(FakeBackend(num_slots=4), emit, clock=lambda: now[0])
        for id, (prompt, wanted) in enumerate(asked):
            reported = ReportOptions(logprobs=1, whole=whole)
            engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, reported=reported, **wanted)))
        for _ in range(8):
            engine.step()
        engine.cancel(2)
        now[0] = 20.0
        drain(engine)
        return sent

    piecewise, whole = answers(whole=False), answers(whole=True)
    assert [len(whole[id]) for id in range(4)] == [1, 1, 1, 1]
    for id in range(4):
        expected, (found,) = joined(piecewise[id]), whole[id]
        assert len(piecewise[id]) > 2
        assert (found.text, found.num_tokens, found.lengths) == (expected.text, expected.num_tokens, expected.lengths)
        assert (found.logprobs, found.finish) == (expected.logprobs, expected.finish)


def test_a_stop_string_ends_the_answer_before_it_is_shown() -> None:
    expected = text_of(alone([4, 4], 12))
    collector = Collector()
    engine = build_engine(FakeBackend(), collector)
    engine.submit(Sequence(Request(1, [4, 4], sampling=GREEDY, ending=Ending(stop=[expected[6:9]]))))
    drain(engine)
    assert collector.text[1] == expected[: expected.find(expected[6:9])]
    assert collector.finish[1].reason == "stop"


def test_a_stop_token_ends_the_answer_and_is_not_shown() -> None:
    tokens = alone([4, 4], 12)
    engine = build_engine(FakeBackend(), collector := Collector())
    engine.submit(Sequence(Request(1, [4, 4], sampling=GREEDY, ending=Ending(stop_tokens=frozenset({tokens[5]})))))
    drain(engine)
    assert collector.text[1] == text_of(tokens[: tokens.index(tokens[5])])
    assert collector.finish[1].reason == "stop"


def test_before_min_tokens_nothing_ends_the_answer() -> None:
    """Neither the model's end token, which then comes as soon as it may, nor a stop string."""
    engine = build_engine(FakeBackend(ends_at=3), collector := Collector())
    engine.submit(Sequence(Request(1, [1, 2, 3], sampling=GREEDY, ending=Ending(min_tokens=6, end_tokens=[END]))))
    engine.submit(
        Sequence(
            Request(
                2, [1, 2, 3], sampling=GREEDY, ending=Ending(min_tokens=9, stop=["!"], end_tokens=[END]), max_tokens=9
            )
        )
    )
    drain(engine)
    assert (collector.num_tokens[1], collector.finish[1].reason) == (6, "stop")
    assert (collector.num_tokens[2], collector.finish[2].reason) == (9, "length")
    tokens = alone([4, 4], 12)
    engine = build_engine(FakeBackend(), collector := Collector())
    stop = [text_of(tokens[1:3]), text_of(tokens[7:9])]
    engine.submit(Sequence(Request(1, [4, 4], sampling=GREEDY, ending=Ending(min_tokens=5, stop=stop))))
    drain(engine)
    assert collector.text[1] == text_of(tokens[:7])


def test_a_request_whose_time_is_over_fails_while_it_waits_and_ends_while_it_runs() -> None:
    now = 0.0
    backend, collector = FakeBackend(num_slots=1), Collector()
    engine = build_engine(backend, collector, clock=lambda: now)
    engine.submit(Sequence(Request(1, [1], sampling=GREEDY, max_tokens=50, due=Due(deadline_s=10.0))))
    engine.submit(Sequence(Request(2, [2], sampling=GREEDY, max_tokens=5, due=Due(deadline_s=20.0))))
    engine.submit(Sequence(Request(3, [3], sampling=GREEDY, max_tokens=5, due=Due(priority=1, deadline_s=3.0))))
    for _ in range(4):
        engine.step()
    now = 5.0
    engine.step()
    assert collector.failures[3].code == "timeout"
    assert "no slot was free within the 3 s" in str(collector.failures[3])
    now = 10.0
    drain(engine)
    assert (collector.finish[1].reason, collector.text[1]) == ("timeout", text_of(alone([1], 5)))
    assert collector.text[2] == text_of(alone([2], 5))


def test_a_request_that_has_no_slot_in_time_fails_and_one_that_has_may_take_longer() -> None:
    now = 0.0
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector(), clock=lambda: now)
    engine.submit(Sequence(Request(1, [1], sampling=GREEDY, max_tokens=5, due=Due(queue_deadline_s=2.0))))
    engine.submit(Sequence(Request(2, [2], sampling=GREEDY, max_tokens=5, due=Due(queue_deadline_s=2.0))))
    engine.submit(Sequence(Request(3, [3], sampling=GREEDY, max_tokens=5, due=Due(queue_deadline_s=4.0))))
    engine.step()
    now = 3.0
    drain(engine)
    assert collector.failures.keys() == {2}
    assert "no slot was free within the 2 s that a request may wait (queue_timeout_s)" in str(collector.failures[2])
    assert [collector.text[id] for id in (1, 3)] == [text_of(alone([1], 5)), text_of(alone([3], 5))]


def test_the_waiting_enter_by_priority_then_deadline_then_arrival() -> None:
    backend, collector = FakeBackend(num_slots=1), Collector()
    engine = build_engine(backend, collector, clock=lambda: 0.0)
    for id, priority, deadline_s in ((1, 0, math.inf), (2, 5, 1e9), (3, 0, math.inf), (4, 0, 1e9), (5, -2, math.inf)):
        engine.submit(
            Sequence(
                Request(id, [id], sampling=GREEDY, max_tokens=2, due=Due(priority=priority, deadline_s=deadline_s))
            )
        )
    drain(engine)
    assert list(collector.finish) == [5, 4, 1, 3, 2]


def test_the_batch_class_enters_after_all_others_whatever_their_priorities() -> None:
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector(), clock=lambda: 0.0)
    dues = {1: Due(priority=-1000, is_batch=True), 2: Due(is_batch=True), 3: Due(priority=1000), 4: Due()}
    for id, due in dues.items():
        engine.submit(Sequence(Request(id, [id], sampling=GREEDY, max_tokens=2, due=due)))
    drain(engine)
    assert list(collector.finish) == [4, 3, 1, 2]


def test_mirostat_keeps_its_state_from_token_to_token() -> None:
    """Of 97 nearly equal tokens each surprises by 6.6 bits; aimed at 1, ever fewer are left, in the end one."""
    sampling = ResolvedSampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, mirostat=2, mirostat_tau=1.0, seed=1)
    engine = build_engine(FakeBackend(num_slots=1), collector := Collector())
    engine.submit(Sequence(Request(1, [1], sampling=sampling, max_tokens=40)))
    drain(engine)
    tokens = [ord(char) - 31 for char in collector.text[1]]
    assert tokens[-1] == next_token([1, *tokens[:-1]]), "the likeliest"
    assert tokens[0] == next_token([1]), "two bits of surprise at first: fewer than 97 tokens have"


def test_what_was_repeated_is_not_gone_on_with() -> None:
    sampling = ResolvedSampling(temperature=0, logit_bias={50: 3.0}, dry=DrySampling(multiplier=5.0))
    backend = FakeBackend(num_slots=1)
    engine = build_engine(backend, collector := Collector())
    dry = Dry(DrySampling(multiplier=5.0, allowed_length=2), backend.token_bytes, [9, 9])
    engine.submit(Sequence(Request(1, [9, 9], sampling=sampling, max_tokens=6), dry=dry))
    drain(engine)
    tokens = [ord(char) - 31 for char in collector.text[1]]
    assert tokens[:3] == [50, 50, 50], "two may be repeated, as 50 50 is once"
    assert tokens[3] != 50


@pytest.mark.parametrize("can_rewind", [True, False])
def test_a_step_that_fails_is_tried_again_one_request_at_a_time_and_nobody_notices(can_rewind: bool) -> None:
    backend, collector = FakeBackend(fails_at_step=1, can_rewind=can_rewind), Collector()
    engine = build_engine(backend, collector)
    for id in (1, 2):
        engine.submit(Sequence(Request(id, [id, 7], sampling=GREEDY, max_tokens=5)))
    drain(engine)
    assert not collector.failures
    for id in (1, 2):
        assert collector.text[id] == text_of(alone([id, 7], 5))


@pytest.mark.parametrize("poisoned", [[3, 95, 4], [95], [3, 95]])
@pytest.mark.parametrize("can_rewind", [True, False])
def test_a_request_that_cannot_be_computed_fails_alone_and_its_slot_serves_again(
    can_rewind: bool, poisoned: list[int]
) -> None:
    backend, collector = FakeBackend(poison=95, can_rewind=can_rewind), Collector()
    engine = build_engine(backend, collector)
    for id, prompt in ((1, [1, 2]), (2, poisoned), (3, [5, 6])):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=5)))
    drain(engine)
    assert list(collector.failures) == [2]
    assert "a token that nobody can compute" in str(collector.failures[2])
    assert collector.text == {1: text_of(alone([1, 2], 5)), 3: text_of(alone([5, 6], 5))}
    assert engine.scheduler.running == []
    assert all(95 not in cells for cells in backend.held)
    engine.check_integrity()


@pytest.mark.parametrize("nonsense", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", [GREEDY, ResolvedSampling(), ResolvedSampling(top_n_sigma=1, top_k=0)])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_model_that_computes_nonsense_fails_the_request_and_no_other(
    nonsense: float, sampling: ResolvedSampling, is_compiled: bool
) -> None:
    backend, collector = FakeBackend(broken_at=96, nonsense=nonsense), Collector()
    engine = build_engine(backend, collector, sampler=native.load(threads=2) if is_compiled else None)
    engine.submit(Sequence(Request(1, [1, 96], sampling=sampling, max_tokens=5)))
    engine.submit(Sequence(Request(2, [1, 2], sampling=GREEDY, max_tokens=5)))
    drain(engine)
    assert "not finite numbers" in str(collector.failures[1])
    assert collector.text == {2: text_of(alone([1, 2], 5))}
    assert all(96 not in cells for cells in backend.held), "nobody goes on from what it computed"


def test_a_cache_that_is_cleaned_while_a_failed_batch_is_computed_one_by_one_fails_the_culprit_only() -> None:
    """The others' cells are gone by then: what the failed batch would have computed no longer follows them."""
    backend = FakeBackend(num_slots=3, num_cells=200, broken_at=96, fails_at_step=2)
    engine = build_engine(backend, collector := Collector())
    engine.submit(Sequence(Request(0, [7], sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [1, 2], sampling=GREEDY, max_tokens=9)))
    engine.submit(Sequence(Request(3, [1, 3], sampling=GREEDY, max_tokens=9)))
    engine.step()
    engine.step()
    engine.submit(Sequence(Request(1, [1, 96], sampling=GREEDY, max_tokens=9)))
    drain(engine)
    assert "not finite numbers" in str(collector.failures.pop(1))
    assert not collector.failures
    assert [collector.text[id] for id in (2, 3)] == [text_of(alone([1, id], 9)) for id in (2, 3)]


def test_a_request_that_forbids_every_token_fails_with_that_reason() -> None:
    engine = build_engine(FakeBackend(), collector := Collector())
    engine.submit(
        Sequence(Request(1, [1], sampling=GREEDY, ending=Ending(min_tokens=1, end_tokens=range(97)), max_tokens=5))
    )
    drain(engine)
    assert "forbids every token" in str(collector.failures[1])


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ({"logit_bias": {50: 5.0}}, [50, 50, 50, 50]),
        ({"logit_bias": {50: 5.0, 51: 4.0}, "frequency_penalty": 2.0}, [50, 51, 50, 51]),
        ({"logit_bias": {50: 5.0, 51: 4.0}, "presence_penalty": 1.5}, [50, 51, 50, 50]),
        ({"logit_bias": {50: 5.0, 51: 4.0}, "repeat_penalty": 2.0, "repeat_last_n": 1}, [50, 51, 50, 51]),
        ({"logit_bias": {50: 5.0, 51: 4.0}, "repeat_penalty": 2.0, "repeat_last_n": 0}, [50, 50, 50, 50]),
        ({"logit_bias": {7: 5.0, 51: 4.0}, "repeat_penalty": 2.0}, [51, 7, 7, 7]),
    ],
)
def test_biases_and_penalties_look_at_the_tokens_they_are_for(sampling: dict[str, Any], expected: list[int]) -> None:
    """Those for presence and frequency at what was generated, that for repeats at the last tokens, the prompt's too."""
    engine = build_engine(FakeBackend(), collector := Collector())
    engine.submit(Sequence(Request(1, [7], sampling=ResolvedSampling(temperature=0, **sampling), max_tokens=4)))
    drain(engine)
    assert collector.text[1] == text_of(expected)


def test_log_probabilities_come_with_their_tokens_and_only_when_asked_for() -> None:
    collected: list[Delta] = []
    engine = build_engine(FakeBackend(), lambda output: collected.extend(delta for _, delta in output.deltas))
    engine.submit(
        Sequence(
            Request(
                1, [7], sampling=GREEDY, max_tokens=3, reported=ReportOptions(logprobs=2), ending=Ending(stop=["zzz"])
            )
        )
    )
    drain(engine)
    logprobs = [logprob for delta in collected for logprob in delta.logprobs]
    assert [logprob.piece.decode() for logprob in logprobs] == list(text_of(alone([7], 3)))
    for logprob in logprobs:
        assert math.isclose(logprob.logprob, 1 - math.log(96 + math.e), abs_tol=1e-5), "one logit is 1, 96 are 0"
        assert logprob.top[0] == (logprob.piece, logprob.logprob)
        assert math.isclose(logprob.top[1][1], -math.log(96 + math.e), abs_tol=1e-5)
    collected.clear()
    engine.submit(Sequence(Request(2, [7], sampling=GREEDY, max_tokens=3)))
    drain(engine)
    assert not any(delta.logprobs for delta in collected)


def test_the_engine_thread_sleeps_until_work_arrives_and_stops_when_told() -> None:
    collector = Collector()
    collector.expected = 1
    engine = build_engine(FakeBackend(), collector)
    thread = threading.Thread(target=engine.run)
    thread.start()
    engine.submit(Sequence(Request(1, [1], sampling=GREEDY, max_tokens=3)))
    assert collector.all_done.wait(10)
    engine.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert engine.num_steps == 3


def test_in_debug_mode_an_idle_engine_notices_what_is_left_in_a_slot() -> None:
    backend = FakeBackend()
    engine = build_engine(backend, Collector(), debug=True)
    backend.held[2].append(7)
    with pytest.raises(AssertionError, match="slot 2 holds 1 tokens, not 0"):
        engine.run()


def test_timings_tell_waiting_from_prefill_from_decode() -> None:
    clock = iter(range(100))
    collector = Collector()
    engine = build_engine(FakeBackend(num_slots=1), collector, clock=lambda: float(next(clock)))
    engine.submit(Sequence(Request(1, [1], sampling=GREEDY, max_tokens=3, due=Due(created_s=-5.0))))
    drain(engine)
    timings = collector.finish[1].timings
    assert timings.queue_s == 5.0
    assert timings.prefill_s > 0
    assert timings.decode_s > timings.prefill_s


def test_an_engine_says_what_its_slots_do_between_two_steps() -> None:
    engine = build_engine(FakeBackend(num_slots=2), Collector())
    seen: list[EngineStatus] = []
    for id in (1, 2, 3):
        engine.submit(Sequence(Request(id, [id] * 5, sampling=GREEDY, max_tokens=4)))
    engine.step()
    engine.step()
    engine.inspect(seen.append)
    engine.step()
    first, second = seen[0].slots
    assert (first.request, first.num_held, first.num_prompt, first.num_generated) == (1, 6, 5, 2)
    assert second.request == 2
    assert (seen[0].num_waiting, seen[0].num_steps) == (1, 2)
    drain(engine)
    engine.inspect(seen.append)
    engine.step()
    assert [slot.request for slot in seen[1].slots] == [None, None]
    assert all(slot.num_held for slot in seen[1].slots), "a free slot keeps what it computed"


def shifted_alone(prompt: list[int], count: int, capacity: int, keep: int) -> tuple[list[int], int]:
    """What `count` tokens must be in a slot that forgets, and how many it forgot."""
    held, forgotten = list(prompt), 0
    made: list[int] = []
    while len(made) < count:
        made.append(next_token(held))
        held.append(made[-1])
        if len(held) >= capacity and len(made) < count:
            drop = (len(held) - 1 - keep + 1) // 2
            del held[keep : keep + drop]
            forgotten += drop
    return made, forgotten


def test_a_full_context_shifts_where_that_was_asked_for_and_says_so() -> None:
    backend, collector = FakeBackend(slot_capacity=64), Collector()
    engine = build_engine(backend, collector, context_shift=True)
    engine.submit(Sequence(Request(1, [7] * 40, sampling=GREEDY, max_tokens=200, shift=Shift(keep=5))))
    engine.submit(Sequence(Request(2, [8] * 40, sampling=GREEDY, max_tokens=5)))
    drain(engine)
    made, forgotten = shifted_alone([7] * 40, 200, 64, 5)
    assert collector.text[1] == text_of(made)
    usage = collector.finish[1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.shifted_tokens) == (40, 200, forgotten)
    assert collector.finish[2].usage.shifted_tokens == 0
    assert collector.text[2] == text_of(alone([8] * 40, 5))


def test_after_a_shift_only_what_was_never_moved_is_used_again() -> None:
    backend, collector = FakeBackend(num_slots=1, slot_capacity=64), Collector()
    engine = build_engine(backend, collector, context_shift=True)
    engine.submit(Sequence(Request(1, [7] * 40, sampling=GREEDY, max_tokens=100, shift=Shift(keep=9))))
    drain(engine)
    engine.check_integrity()
    engine.submit(Sequence(Request(2, [7] * 40, sampling=GREEDY, max_tokens=3)))
    drain(engine)
    assert collector.finish[2].usage.cached_tokens == 9
    assert collector.text[2] == text_of(alone([7] * 40, 3))


def test_an_answer_without_a_limit_ends_although_the_context_shifts() -> None:
    backend, collector = FakeBackend(slot_capacity=64), Collector()
    engine = build_engine(backend, collector, context_shift=True)
    engine.submit(Sequence(Request(1, [7] * 10, sampling=GREEDY)))
    drain(engine)
    assert collector.finish[1].reason == "length"
    assert collector.finish[1].usage.completion_tokens == 8 * 64
    assert not collector.finish[1].is_context_full


@pytest.mark.parametrize("memory", [{"can_rewind": False}, {"window": 8}, {"num_cells": 256}])
def test_a_memory_that_cannot_shift_refuses_to(memory: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="context_shift"):
        build_engine(FakeBackend(**memory), Collector(), context_shift=True)


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 12),  # steps before it comes
        st.lists(st.integers(1, 3), min_size=1, max_size=40),  # its prompt
        st.integers(1, 30),  # tokens of its answer
        st.none() | st.integers(0, 25),  # steps until it is cancelled
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150)
@given(arrivals=ARRIVALS, can_rewind=st.booleans(), kv_ram_bytes=st.sampled_from([0, 1000]))
def test_a_step_like_the_one_before_is_planned_as_if_everything_were_looked_at(
    arrivals: list[tuple[int, list[int], int, int | None]], can_rewind: bool, kv_ram_bytes: int
) -> None:
    """`next_tokens` is there to be quick, and decides nothing: without it the same batches are computed."""

    def batches(*, quickly: bool) -> tuple[list[Any], list[tuple[int, int, int]], int]:
        backend = FakeBackend(num_slots=4, batch_capacity=24, can_rewind=can_rewind)
        quick, calls = 0, itertools.count()
        engine = build_engine(backend, Collector(), tiers=Tiers(kv_ram_bytes), clock=lambda: 0.001 * next(calls))
        engine.kv.residency.copy_tokens = 2
        ask = engine.scheduler.next_tokens

        def next_tokens(now_s: float) -> StepPlan | None:
            nonlocal quick
            plan = ask(now_s) if quickly else None
            quick += plan is not None
            return plan

        engine.scheduler.next_tokens = next_tokens  # type: ignore[method-assign]
        cancels: dict[int, int] = {}
        for id, (steps, prompt, count, cancelled_after) in enumerate(arrivals):
            for _ in range(steps):
                engine.step()
                cancels = {each: left - 1 for each, left in cancels.items()}
                for each in [each for each, left in cancels.items() if left < 0]:
                    engine.cancel(each)
                    del cancels[each]
            engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=count)))
            if cancelled_after is not None:
                cancels[id] = cancelled_after
        drain(engine)
        return backend.batches, backend.copies, quick

    one, other = batches(quickly=True), batches(quickly=False)
    assert one[:2] == other[:2]
    event(f"{min(one[2], 20) // 5 * 5} or more quick steps")
