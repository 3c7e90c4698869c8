"""Prompts to tokens without a model: what is shared, what is dropped, what is refused. A token is a character here."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from localllm.engine.engine import Engine
from localllm.types import GenerationRequest, LoadedModel, SamplingParams
from localllm.worker.messages import Accepted, Call, Deltas, Rejected, Reply, Submit, Up
from localllm.worker.prompts.preparer import Preparer
from localllm.worker.prompts.prompt_parts import Memo
from tests.worker.conftest import INFO

TIMEOUT_S = 20
CTX = 64
STEP, LONGEST = 8, 100


class Letters:
    """Implements `prompts.Tokenizer`; stands still while `gate` is held."""

    bos_text = eos_text = ""
    end_tokens = (0,)

    def __init__(self) -> None:
        self.num_steps = 0
        self.parsed_special: list[bool] = []
        self.gate = threading.Lock()
        self.begun = threading.Event()

    def tokenize_in_steps(
        self,
        text: str,
        *,
        add_special: bool = True,  # noqa: ARG002  the protocol has it
        parse_special: bool = True,
        memo: Memo | None = None,  # noqa: ARG002  as above
        closes: bool = False,  # noqa: ARG002  as above
    ) -> Iterator[list[int]]:
        self.parsed_special.append(parse_special)
        for start in range(0, len(text), STEP):
            self.begun.set()
            with self.gate:
                self.num_steps += 1
            yield [ord(letter) % 32 for letter in text[start : start + STEP]]

    def fewest_tokens(self, text: str) -> int:
        return -(-len(text) // LONGEST)

    def check_tokens(self, tokens: Sequence[int], param: str = "prompt") -> list[int]:  # noqa: ARG002  as above
        return list(tokens)

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])

    def piece(self, token: int, *, special: bool) -> bytes:  # noqa: ARG002  as above
        return bytes([token])

    def fill_in_middle(self, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:
        return [*prefix, 1, *suffix, 2]

    @property
    def infill_marks(self) -> dict[str, int | None]:
        return {}


class Machine(Engine):
    """Takes what is prepared, and computes nothing."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        self.sequences: list[Any] = []
        self.cancelled: list[int] = []

    def submit(self, sequence: Any) -> None:
        self.sequences.append(sequence)

    def cancel(self, id: int) -> None:
        self.cancelled.append(id)


class Bench:
    def __init__(self) -> None:
        self.letters, self.engine = Letters(), Machine()
        self.sent: queue.SimpleQueue[Up] = queue.SimpleQueue()
        model = LoadedModel(
            id="m", path="m", info=INFO, ctx=CTX, slots=1, threads=1, layers_per_device={}, backend="", load_s=0.0,
            created_unix_s=0,
        )  # fmt: skip
        self.preparer = Preparer(model, self.letters, None, self.engine, self.sent.put)

    def next(self) -> Up:
        return self.sent.get(timeout=TIMEOUT_S)

    def submit(self, id: int, prompt: str, **fields: Any) -> None:
        self.preparer.submit(Submit(id, GenerationRequest(prompt=prompt, **fields)))


def test_answers_to_one_prompt_are_tokenized_once_and_have_parameters_of_their_own() -> None:
    bench = Bench()
    with bench.letters.gate:
        for number in range(1, 65):
            bench.submit(number, "a" * 40, params=SamplingParams(seed=number))
    assert sorted(message.id for message in (bench.next() for _ in range(64)) if isinstance(message, Accepted)) == [
        *range(1, 65)
    ]
    assert bench.letters.num_steps == 40 / STEP
    assert {sequence.request.sampling.seed for sequence in bench.engine.sequences} == {*range(1, 65)}
    assert len({id(sequence.progress.tokens) for sequence in bench.engine.sequences}) == 64


def test_a_cancelled_request_costs_nothing_more_and_ends_at_once() -> None:
    bench = Bench()
    with bench.letters.gate:
        for id in range(1, 9):
            bench.submit(id, f"{id}" * 50)
        assert bench.letters.begun.wait(TIMEOUT_S)
        for id in range(1, 9):
            bench.preparer.cancel(id)
        ends = [bench.next() for _ in range(8)]
        assert all(isinstance(end, Deltas) and end.items[0][1].finish is not None for end in ends)
    bench.submit(9, "b")
    last = bench.next()
    assert isinstance(last, Accepted)
    assert last.id == 9
    assert bench.letters.num_steps <= 50 / STEP + 3, "at most the one that had its turn was tokenized"
    assert bench.engine.cancelled == []


def test_a_request_that_the_engine_does_not_take_is_refused_and_the_next_is_not() -> None:
    bench = Bench()
    take = bench.engine.submit

    def refuse_once(sequence: Any) -> None:
        bench.engine.submit = take  # type: ignore[method-assign]
        raise RuntimeError(sequence.id)

    bench.engine.submit = refuse_once  # type: ignore[method-assign]
    bench.submit(1, "a")
    bench.submit(2, "b")
    messages = [bench.next() for _ in range(3)]
    assert [(type(message), message.id) for message in messages] == [(Accepted, 1), (Rejected, 1), (Accepted, 2)]  # type: ignore[union-attr]


def test_one_of_several_answers_is_cancelled_alone() -> None:
    bench = Bench()
    with bench.letters.gate:
        for id in (1, 2, 3):
            bench.submit(id, "a" * 40)
        bench.preparer.cancel(2)
    messages = [bench.next() for _ in range(3)]
    assert [message.id for message in messages if isinstance(message, Accepted)] == [1, 3]
    bench.preparer.cancel(3)
    assert bench.engine.cancelled == [3]


def test_a_prompt_of_too_many_bytes_is_refused_before_it_is_tokenized() -> None:
    bench = Bench()
    bench.submit(1, "a" * (CTX * LONGEST))
    answer = bench.next()
    assert isinstance(answer, Rejected)
    assert (answer.error.code, answer.error.details["prompt_tokens"]) == ("context_length_exceeded", CTX)
    assert f"maximum context length is {CTX} tokens" in answer.error.message
    assert f"resulted in at least {CTX} tokens" in answer.error.message
    assert bench.letters.num_steps == 0


@pytest.mark.parametrize(
    ("length", "number"), [(CTX, "64"), (2 * CTX, "128"), (CTX * LONGEST - LONGEST, "at least 136")]
)
def test_a_prompt_that_does_not_fit_is_counted_as_far_as_its_error_needs(length: int, number: str) -> None:
    bench = Bench()
    bench.submit(1, "a" * length)
    answer = bench.next()
    assert isinstance(answer, Rejected)
    assert f"your prompt resulted in {number} tokens" in answer.error.message
    assert bench.letters.num_steps <= 2 * CTX / STEP + 1


def test_a_small_request_passes_a_large_call() -> None:
    bench = Bench()
    bench.letters.gate.acquire()
    bench.preparer.call(Call(1, "tokenize", ("a" * 1_000_000, True, True)))
    assert bench.letters.begun.wait(TIMEOUT_S)
    bench.submit(2, "b")
    bench.letters.gate.release()
    first, second = bench.next(), bench.next()
    assert isinstance(first, Accepted)
    assert isinstance(second, Reply)
    assert (first.id, second.id, len(second.result)) == (2, 1, 1_000_000)


def test_a_cancelled_call_is_dropped() -> None:
    bench = Bench()
    with bench.letters.gate:
        bench.preparer.call(Call(1, "tokenize", ("a" * 10**8, True, True)))
        assert bench.letters.begun.wait(TIMEOUT_S)
        bench.preparer.cancel(1)
    bench.preparer.call(Call(2, "pieces", ((3, 4), True)))
    messages = [bench.next(), bench.next()]
    replies = [message for message in messages if isinstance(message, Reply)]
    assert [(reply.id, reply.result) for reply in replies] == [(2, [b"\x03", b"\x04"])]
    assert bench.letters.num_steps < 10**7


def test_neither_side_of_a_gap_to_fill_can_spell_a_special_token() -> None:
    bench = Bench()
    bench.submit(1, "ab", suffix="c")
    assert isinstance(bench.next(), Accepted)
    assert bench.letters.parsed_special == [False, False]
    assert list(bench.engine.sequences[0].progress.tokens) == [1, 2, 1, 3, 2]
