"""Requests are told what a step made while a device computes the next; what they are told is the same."""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import Any

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Request, Reuse
from localllm.engine.speculation.proposals import Proposal
from localllm.engine.speculation.proposers import Proposers
from localllm.engine.threads.governor import Governor
from localllm.engine.threads.team import Clocks, Team
from localllm.llama.devices import Ggml, asynchronous_devices
from localllm.types import ResolvedSampling
from tests.fakes import FakeBackend, alone

GREEDY = ResolvedSampling(temperature=0)


class Device(FakeBackend):
    """Writes down when it computes."""

    def __init__(self, events: list[str], *, decode_s: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.events = events
        self.now_s = 0.0
        self._decode_s = decode_s

    def decode(self, segments: Many[Segment], *, within_s: float | None = None) -> bool:
        self.events.append("decode" if all(len(each.tokens) == 1 for each in segments) else "decode a prompt")
        return super().decode(segments, within_s=within_s)

    def synchronize(self) -> None:
        super().synchronize()
        self.now_s += self._decode_s
        self.events.append("computed")


def running(backend: Device, *requests: Sequence, **options: Any) -> Engine:
    """An engine that was handed the requests; its outputs are events of the backend."""

    def emit(output: StepOutput) -> None:
        backend.events.append("told " + " ".join(str(id) for id, _ in output.deltas))

    engine = build_engine(backend, emit, clock=lambda: backend.now_s, **options)
    for request in requests:
        engine.submit(request)
    return engine


def events_of_a_step(engine: Engine, backend: Device) -> list[str]:
    backend.events.clear()
    engine.step()
    return list(backend.events)


class Guesser:
    """Guesses the next tokens, right until it gets to a wrong one."""

    def __init__(self, num_right: int) -> None:
        self._num_right = num_right

    def propose(self, sequence: Sequence) -> Proposal | None:
        return Proposal((), (*alone(sequence.progress.tokens, self._num_right), 96))


REQUESTS = st.lists(
    st.fixed_dictionaries(
        {
            "prompt": st.lists(st.integers(1, 96), min_size=1, max_size=40),
            "max_tokens": st.integers(0, 20),
            "stop_at": st.none() | st.integers(0, 15),
            "logprobs": st.none() | st.integers(0, 2),
            "prompt_logprobs": st.none() | st.just(1),
            "deadline_s": st.just(99.0) | st.floats(0, 0.5),
            "arrives": st.integers(0, 10),
            "cancelled": st.none() | st.integers(1, 30),
        }
    ),
    min_size=1,
    max_size=8,
)


def answers(requests: list[dict[str, Any]], *, guesses: int, backend: FakeBackend) -> list[bytes]:
    """Everything that each request is told, in its order: what arrives when is counted in steps of 0.01 s."""
    told: dict[int, list[Any]] = {id: [] for id in range(len(requests))}
    num_steps = 0

    def emit(output: StepOutput) -> None:
        for id, delta in output.deltas:
            told[id].append(delta)
        for id, error in output.failures:
            told[id].append(str(error))

    proposer = Guesser(guesses - 1) if guesses else None
    engine = build_engine(
        backend, emit, proposers=Proposers(proposer), clock=lambda: 0.01 * num_steps, context_shift=True
    )
    while num_steps < 12 or engine.scheduler.has_work:
        for id, request in enumerate(requests):
            if request["arrives"] == num_steps:
                answer = "".join(chr(31 + token) for token in alone(request["prompt"], 20))
                at, created_s = request["stop_at"], engine.clock()
                sequence = Sequence(
                    Request(
                        id,
                        request["prompt"],
                        sampling=GREEDY,
                        max_tokens=request["max_tokens"],
                        ending=Ending(stop=() if at is None else (answer[at : at + 2],)),
                        reported=ReportOptions(
                            logprobs=request["logprobs"], prompt_logprobs=request["prompt_logprobs"]
                        ),
                        reuse=Reuse(cache_prompt=request["prompt_logprobs"] is None),
                        due=Due(created_s=created_s, deadline_s=created_s + request["deadline_s"]),
                    )
                )
                engine.submit(sequence)
            if request["cancelled"] == num_steps:
                engine.cancel(id)
        engine.step()
        engine.check_integrity()
        num_steps += 1
        assert num_steps < 5000
    return [msgspec.msgpack.encode(each) for each in told.values()]


@settings(max_examples=150)
@given(
    requests=REQUESTS,
    slots=st.integers(1, 4),
    guesses=st.integers(0, 3),
    ends_at=st.none() | st.integers(5, 45),
    poison=st.none() | st.integers(1, 96),
    fails_at_step=st.none() | st.integers(0, 15),
)
def test_every_request_is_told_the_same_in_the_same_order(
    requests: list[dict[str, Any]],
    slots: int,
    guesses: int,
    ends_at: int | None,
    poison: int | None,
    fails_at_step: int | None,
) -> None:
    def told(*, is_asynchronous: bool) -> list[bytes]:
        backend = FakeBackend(
            num_slots=slots,
            slot_capacity=48,
            ends_at=ends_at,
            poison=poison,
            fails_at_step=fails_at_step,
            is_asynchronous=is_asynchronous,
        )
        return answers(requests, guesses=guesses, backend=backend)

    expected = told(is_asynchronous=False)
    for reason in (b"stop", b"length", b"cancelled", b"timeout", b"failed to compute"):
        event(f"{reason.decode()}: {any(reason in each for each in expected)}")
    assert told(is_asynchronous=True) == expected


def test_tokens_are_told_while_the_next_are_computed() -> None:
    backend = Device([], is_asynchronous=True)
    engine = running(backend, *(Sequence(Request(id, [id + 1, 2], sampling=GREEDY, max_tokens=5)) for id in range(2)))
    assert events_of_a_step(engine, backend) == ["decode a prompt", "computed", "told 0 1"], (
        "nobody waits for the first"
    )
    assert events_of_a_step(engine, backend) == ["decode", "computed"]
    assert events_of_a_step(engine, backend) == ["decode", "told 0 1", "computed"]
    assert events_of_a_step(engine, backend) == ["decode", "told 0 1", "computed"]
    last = events_of_a_step(engine, backend)
    assert last == ["decode", "told 0 1", "computed", "told 0 1"], "nothing comes after the last"
    assert not engine.scheduler.has_work
    assert events_of_a_step(engine, backend) == []


def test_where_the_decode_blocks_tokens_are_told_before_the_next() -> None:
    backend = Device([])
    engine = running(backend, Sequence(Request(7, [1, 2], sampling=GREEDY, max_tokens=4)))
    engine.step()
    for _ in range(3):
        assert events_of_a_step(engine, backend) == ["decode", "computed", "told 7"]


def test_tokens_are_told_before_a_prompt_is_computed() -> None:
    """A batch of several ubatches blocks until the last of them begins."""
    backend = Device([], is_asynchronous=True)
    engine = running(backend, Sequence(Request(0, [1, 2], sampling=GREEDY)))
    engine.step()
    engine.step()
    engine.submit(Sequence(Request(1, [3] * 9, sampling=GREEDY)))
    assert events_of_a_step(engine, backend) == ["told 0", "decode a prompt", "computed", "told 1"]


def test_tokens_are_told_before_texts_are_embedded() -> None:
    backend = Device([], is_asynchronous=True)

    class Texts:
        has_work = True

        def step(self, num_streams: int) -> None:
            backend.events.append(f"texts beside {num_streams}")

    engine = running(backend, Sequence(Request(0, [1, 2], sampling=GREEDY)), beside=Texts())
    engine.step()
    assert events_of_a_step(engine, backend) == ["decode", "computed", "told 0", "texts beside 1"]


def test_texts_do_not_come_between_a_part_of_a_prompt_and_the_tokens_of_streams() -> None:
    """Streams would wait for both."""
    backend = Device([])

    class Texts:
        has_work = True

        def step(self, num_streams: int) -> None:
            backend.events.append(f"texts beside {num_streams}")

    engine = running(backend, Sequence(Request(0, [1], sampling=GREEDY)), beside=Texts())
    engine.step()
    engine.submit(Sequence(Request(1, [3] * 40, sampling=GREEDY)))
    assert events_of_a_step(engine, backend) == ["decode a prompt", "computed"]
    assert events_of_a_step(engine, backend) == ["decode", "computed", "told 0", "texts beside 1"]


@pytest.mark.parametrize("way", ["cancel", "deadline"])
def test_who_ends_is_told_what_came_before(way: str) -> None:
    backend = Device([], is_asynchronous=True, decode_s=1.0)
    ended = Sequence(Request(0, [1], sampling=GREEDY, due=Due(deadline_s=2.0 if way == "deadline" else 99.0)))
    engine = running(backend, ended, Sequence(Request(1, [3], sampling=GREEDY)))
    engine.step()
    engine.step()
    if way == "cancel":
        engine.cancel(0)
    assert events_of_a_step(engine, backend) == ["told 0 1", "decode", "computed"]
    assert events_of_a_step(engine, backend) == ["decode", "told 0 1", "computed"], "the end, and the other's token"


def test_an_engine_that_stops_tells_what_it_knows() -> None:
    backend = Device([], is_asynchronous=True)
    engine = running(backend, Sequence(Request(0, [1, 2], sampling=GREEDY)))
    engine.step()
    engine.step()
    engine.stop()
    backend.events.clear()
    engine.run()
    assert backend.events.count("told 0") == backend.events.count("decode") + 1
    assert backend.events[-1] == "told 0"


def test_a_step_lasts_until_its_logits_are_there() -> None:
    class Timed(Team):
        def end(self, seconds: float, *, is_comparable: bool = True) -> None:
            times.append(seconds)
            super().end(seconds, is_comparable=is_comparable)

    times: list[float] = []
    backend = Device([], is_asynchronous=True, decode_s=0.25)
    team = Timed(Governor(2), Clocks(now=lambda: backend.now_s, process=lambda: 0.0))
    engine = running(backend, Sequence(Request(0, [1, 2], sampling=GREEDY)), team=team)
    for _ in range(3):
        engine.step()
    assert times == [0.25] * 3


def test_only_devices_that_say_so_compute_by_themselves() -> None:
    class Devices:
        names = ("CPU", "CUDA0", "OpenCL")

        def device_pointers(self) -> list[int]:
            return list(range(3))

        def backend_dev_get_props(self, pointer: int, properties: Any) -> None:
            properties._obj.is_async = self.names[pointer] == "CUDA0"

        def text(self, name: str, pointer: int) -> str:
            assert name == "backend_dev_name"
            return self.names[pointer]

    devices: Any = Devices()
    found: Ggml = devices
    assert asynchronous_devices(found) == {"CUDA0"}
