"""Structures beside slow and large ones, with real grammar processes: some are held until the test lets them go."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from llguidance import LLTokenizer, TokenizerWrapper

from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.errors import InvalidParameter, LocalLLMError, UnsupportedParameter
from localllm.types.conversation import Function
from localllm.types.formats import AnswerSource, Calls, ChatFormat, ObjectCall
from localllm.types.structures import GrammarLimits, Preface, Structure, Tags
from localllm.worker.grammars import constraints
from localllm.worker.grammars.constraints import SMALL_CHARACTERS, Grammars, Result
from localllm.worker.grammars.grammar_child import Composed, GrammarChild
from localllm.worker.grammars.grammar_request import SpecialTokens
from localllm.worker.limited_child import OverLimit
from tests.worker.hostile_structures import HOSTILE

TIMEOUT_S = 60
LIMITS = GrammarLimits(cpu_s=1, memory_mb=256)
WORDS = tuple(bytes([byte]) for byte in range(256))
END = 256


def regex(source: str) -> Structure:
    return Structure(kind="regex", source=source)


SMALL = regex("[a-c]{2}")
LARGE = Structure(kind="choice", source=json.dumps(["x" * SMALL_CHARACTERS, "y"]))


class Vocabulary:
    """All bytes, and an end."""

    eos_token_id = END
    bos_token_id = None
    tokens = (*WORDS, b"<end>")
    special_token_ids = (END,)
    size = 257
    end_tokens = (END,)
    special = ((END, b"<end>"),)

    def __init__(self) -> None:
        self.tokenizer = LLTokenizer(TokenizerWrapper(self), slices=[])

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


class HeldChild(GrammarChild):
    """A real one, whose requests wait where a test says so."""

    def __init__(self, bench: Bench, limits: GrammarLimits) -> None:
        super().__init__(limits)
        self._bench = bench

    def write(
        self, structure: Structure, preface: Preface | None, special: SpecialTokens, *, deadline_s: float | None = None
    ) -> Composed:
        self._bench.written.append(structure)
        if structure in self._bench.holds:
            self._bench.begun.release()
            if not self._bench.holds[structure].wait(TIMEOUT_S if deadline_s is None else 0.01):
                raise OverLimit("it takes long")
        return super().write(structure, preface, special, deadline_s=None)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary()


class Bench:
    def __init__(self, vocabulary: Callable[[], Vocabulary], limits: GrammarLimits = LIMITS) -> None:
        self.children: list[HeldChild] = []
        self.holds: dict[Structure, threading.Event] = {}
        self.begun = threading.Semaphore(0)
        self.written: list[Structure] = []
        self.done: queue.SimpleQueue[tuple[str, Result]] = queue.SimpleQueue()
        self.grammars = Grammars(vocabulary, limits, self._start)

    def _start(self, limits: GrammarLimits) -> HeldChild:
        self.children.append(HeldChild(self, limits))
        return self.children[-1]

    def add(self, name: str, structure: Structure, *, is_wanted: bool = True) -> None:
        self.grammars.add(structure, None, lambda result: self.done.put((name, result)), lambda: is_wanted)

    def close(self) -> None:
        self.grammars.close()
        for child in self.children:
            child.close()

    def hold(self, structure: Structure) -> threading.Event:
        event = self.holds[structure] = threading.Event()
        return event

    def next(self) -> tuple[str, Result]:
        return self.done.get(timeout=TIMEOUT_S)


@pytest.fixture
def bench(vocabulary: Vocabulary) -> Iterator[Bench]:
    made = Bench(lambda: vocabulary)
    yield made
    made.close()


def text_of(result: Result) -> str:
    """The first text that it allows."""
    assert isinstance(result, MatcherConstraint), result
    text = b""
    while not result.is_complete and len(text) < 100:
        words = result.masks((), 1)[0]
        token = next(token for token in range(256) if words[token // 32] >> token % 32 & 1)
        result.take(token)
        text += bytes([token])
    return text.decode()


def test_a_structure_becomes_a_constraint_of_its_own_for_each_request(bench: Bench) -> None:
    assert bench.children == []
    for name in "abc":
        bench.add(name, SMALL)
    assert sorted((name, text_of(result)) for name, result in (bench.next() for _ in range(3))) == [
        ("a", "aa"), ("b", "aa"), ("c", "aa"),
    ]  # fmt: skip
    bench.add("later", SMALL)
    assert text_of(bench.next()[1]) == "aa"
    assert bench.written == [SMALL]


def test_a_draw_that_comes_to_nothing_spoils_no_rule_with_a_limit_or_a_stop(bench: Bench) -> None:
    for rule in ("max_tokens=3", 'stop="b"'):
        bench.add(rule, Structure.grammar(f'start: body "a"\nbody[{rule}]: /[ab]*/', "lark"))
        made = bench.next()[1]
        assert isinstance(made, MatcherConstraint)
        token = next(token for token in range(256) if made.allows(token, 0))
        assert made.allows(token, 0)
        made.take(token)


def test_a_small_structure_waits_for_no_large_one_and_for_none_that_takes_long(bench: Bench) -> None:
    large, slow = bench.hold(LARGE), bench.hold(regex("slow"))
    bench.add("large", LARGE)
    bench.add("slow", regex("slow"))
    for _ in range(2):
        assert bench.begun.acquire(timeout=TIMEOUT_S)
    for number in range(3):
        bench.add(f"small {number}", regex(f"[a-z]{number}"))
        assert bench.next()[0] == f"small {number}"
    large.set()
    slow.set()
    assert {bench.next()[0] for _ in range(2)} == {"large", "slow"}
    assert len(bench.children) == 2


def test_what_nobody_waits_for_any_more_is_not_compiled(bench: Bench) -> None:
    wait = bench.hold(LARGE)
    bench.add("large", LARGE)
    assert bench.begun.acquire(timeout=TIMEOUT_S)
    gone, wanted = (Structure(kind="choice", source=LARGE.source.replace("y", letter)) for letter in "zw")
    bench.add("gone", gone, is_wanted=False)
    bench.add("last", wanted)
    wait.set()
    assert [bench.next()[0] for _ in range(2)] == ["large", "last"]
    assert gone not in bench.written


def test_requests_of_one_structure_wait_for_one_compile_and_are_refused_together(bench: Bench) -> None:
    bad = regex("(")
    for name in "ab":
        bench.add(name, bad)
    for _ in range(2):
        error = bench.next()[1]
        assert isinstance(error, InvalidParameter)
        assert error.param == "response_format"
    assert bench.written.count(bad) <= 2
    bench.add("next", SMALL)
    assert text_of(bench.next()[1]) == "aa"


def test_what_is_kept_is_bounded_by_number_and_by_size(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "MAX_KEPT", 2)
    monkeypatch.setattr(constraints, "MAX_KEPT_CHARACTERS", 10)
    first, second, third, long = map(regex, ("a1", "a2", "a3", "[a-z]{3}[0-9]"))
    for structure in (first, second, first, third, first, second, long, first):
        bench.add("", structure)
        assert isinstance(bench.next()[1], MatcherConstraint)
    assert bench.written == [first, second, third, second, long, first]


def test_a_source_over_the_limit_is_refused_at_once(vocabulary: Vocabulary) -> None:
    bench = Bench(lambda: vocabulary, GrammarLimits(source_bytes=10))
    bench.add("", regex("ä" * 6))
    error = bench.next()[1]
    assert isinstance(error, InvalidParameter)
    assert "at most 10 bytes" in error.message
    bench.close()


def test_a_model_without_grammars_says_why() -> None:
    def nothing() -> Any:
        raise UnsupportedParameter("structured answers are not available: no llguidance")

    bench = Bench(nothing)
    for _ in range(2):
        bench.add("", SMALL)
        error = bench.next()[1]
        assert isinstance(error, UnsupportedParameter)
        assert "no llguidance" in error.message
    bench.close()


@pytest.mark.parametrize(
    "name",
    [
        "all of 30 patterns",
        "required recursion",
        "a reference to itself",
        "references in a circle",
        "deep parentheses",
        "doubling rules, Lark",
        "left recursion, GBNF",
        "100,000 levels",
        "repetitions, GBNF",
        "maxLength 10^9",
    ],
)
def test_a_hostile_structure_is_refused_or_answered_and_the_next_one_compiles(bench: Bench, name: str) -> None:
    bench.add(name, HOSTILE[name])
    result = bench.next()[1]
    if isinstance(result, LocalLLMError):
        assert isinstance(result, InvalidParameter)
        assert result.param
        assert result.param.startswith("response_format")
        assert len(result.message) < 300
    else:
        result.masks((), 1)
    bench.add("next", SMALL)
    assert text_of(bench.next()[1]) == "aa"


def test_a_process_that_needs_more_memory_than_it_may_have_says_so() -> None:
    child = GrammarChild(GrammarLimits(memory_mb=128))
    special = SpecialTokens(257, ())
    with pytest.raises(InvalidParameter, match="more than 2 s or 128 MB to compile"):
        child.write(HOSTILE["a string of a megabyte"], None, special)
    assert child.write(SMALL, None, special)
    child.close()


def tool(place: int) -> Function:
    """As agents send them: twenty arguments, of which some are nested, and descriptions."""
    words = {"type": "string", "description": "A path, relative to the folder that the session began in." * 2}
    inner = {"type": "object", "properties": {"line": {"type": "integer"}, "text": words}, "required": ["line"]}
    kinds = [words, {"type": ["integer", "null"]}, {"enum": ["a", "b"]}, {"type": "array", "items": inner}]
    properties = {f"argument_{place}_{number}": kinds[number % 4] for number in range(20)}
    if place == 7:
        properties["odd"] = {"type": "array", "uniqueItems": True}
    schema = {"type": "object", "properties": properties, "required": [*properties][:2]}
    return Function(name=f"tool_{place}", parameters=json.dumps(schema), param=f"tools[{place}].function.parameters")


def test_sixty_tools_with_large_schemas_are_compiled_within_the_limits(vocabulary: Vocabulary) -> None:
    bench = Bench(lambda: vocabulary, GrammarLimits())
    asked = answering([tool(place) for place in range(60)])
    assert len(asked.source) > 100_000
    bench.add("tools", asked)
    _, result = bench.next()
    assert isinstance(result, MatcherConstraint), result
    assert result.notes == ("arguments-not-kept: tools[7].function.parameters.properties.odd.uniqueItems",)
    bench.close()


def test_tools_beyond_the_limits_take_any_arguments(vocabulary: Vocabulary) -> None:
    bench = Bench(lambda: vocabulary)
    pattern = json.loads(HOSTILE["all of 30 patterns"].source)
    wild = {"type": "object", "properties": {"a": pattern}}
    function = Function(name="wild", parameters=json.dumps(wild), param="tools[0].function.parameters")
    bench.add("tools", answering([function]))
    _, result = bench.next()
    assert isinstance(result, MatcherConstraint), result
    assert result.notes == ("arguments-not-kept: tools[0].function.parameters",)
    bench.close()


def test_a_budget_closes_a_thought_whose_tag_is_several_tokens(vocabulary: Vocabulary) -> None:
    bench = Bench(lambda: vocabulary)
    preface = Preface(thought=Tags("<think>", "</think>"), is_open=True, budget=2, behind="\n")
    bench.grammars.add(SMALL, preface, lambda result: bench.done.put(("", result)), lambda: True)
    _, result = bench.next()
    assert isinstance(result, MatcherConstraint), result
    for token in b"so":
        result.take(token)
    assert bytes(result.forced) == b"</think>\n"
    bench.close()


def answering(functions: list[Function]) -> Structure:
    calls = Calls(call=ObjectCall(before="<tool_call>\n", after="\n</tool_call>"), between="\n")
    source = AnswerSource(format=ChatFormat(calls=calls), functions=tuple(functions))
    return Structure(kind="answer", source=msgspec.json.encode(source).decode(), param="tools")
