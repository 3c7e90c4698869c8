"""Real workers that are sent structures which cost much: they live, and whoever streams beside these goes on."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.runtime.runtime import Answer, Runtime
from localllm.settings.config import Settings
from localllm.types import GenerationRequest, SamplingParams
from localllm.types.structures import Structure
from tests.models.families import write_embedding
from tests.models.maker import write_llama
from tests.worker import test_preparing
from tests.worker.hostile_structures import HOSTILE
from tests.worker.test_preparing import with_model

PARAMS = SamplingParams(max_tokens=60, seed=1, temperature=1.5)
SCHEMA = Structure(
    kind="json_schema",
    source=json.dumps(
        {
            "type": "object",
            "properties": {"id": {"type": "integer", "maximum": 99}, "kind": {"enum": ["cat", "dog"]}},
            "required": ["id", "kind"],
            "additionalProperties": False,
        }
    ),
)
QUICKLY_TRIED = [
    "required recursion",
    "30 letters ago",
    "overlapping repetitions",
    "2,000 optional letters",
    "10,000 values",
    "a name of 400 KB, required",
    "doubling rules, Lark",
    "ambiguity, Lark",
    "minLength 10^9",
]
STALL_S = 0.05


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("structures") / "m.gguf", vocab=2000, ctx=2048)


def request(structure: Structure | None, params: SamplingParams = PARAMS) -> GenerationRequest:
    return GenerationRequest(prompt="the cat", structure=structure, params=params)


async def submit(runtime: Runtime, model: str, structure: Structure | None, params: SamplingParams = PARAMS) -> Answer:
    (answer,) = await runtime.submit(model, [request(structure, params)])
    return answer


async def read(answer: Answer) -> tuple[str, str]:
    text, reason = "", ""
    async for delta in answer:
        text += delta.text
        reason = reason if delta.finish is None else delta.finish.reason
    return text, reason


async def outcome(runtime: Runtime, model: str, structure: Structure) -> str:
    """How it ended; an error has to be the request's own, in our words."""
    try:
        return (await read(await submit(runtime, model, structure)))[1]
    except InvalidParameter as error:
        is_ours = (error.param or "").startswith(structure.param) and len(error.message) < 300
        return "refused" if is_ours else f"{error.param}: {error.message}"


def test_answers_of_a_structure_are_of_it_and_share_its_compile(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        requests = [request(SCHEMA, msgspec.structs.replace(PARAMS, seed=seed)) for seed in range(4)]
        for text, reason in await asyncio.gather(*map(read, await runtime.submit(model, requests))):
            assert reason == "stop"
            document = json.loads(text)
            assert document.keys() == {"id", "kind"}
            assert document["id"] <= 99

    with_model(home, path, scenario)


def test_a_structure_ends_with_its_document_so_ignore_eos_is_refused(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        with pytest.raises(InvalidParameter) as caught:
            await submit(runtime, model, SCHEMA, SamplingParams(max_tokens=10, ignore_eos=True))
        assert caught.value.param == "ignore_eos"

    with_model(home, path, scenario)


def test_an_encoder_writes_no_structure(home: Path, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime, model: str) -> None:
        with pytest.raises((InvalidParameter, UnsupportedParameter)):
            await submit(runtime, model, SCHEMA)

    with_model(home, write_embedding(tmp_path / "bert.gguf"), scenario)


EXHAUSTIVE = pytest.mark.exhaustive
WORST = ("all of 30 patterns", "30 letters ago")
"""Of which one compiles for minutes if it may, and the other takes ever more work for a token."""


def with_stream(
    home: Path, path: Path, scenario: Callable[[Runtime, str, Stream], Awaitable[None]], lexer_states: int = 50_000
) -> None:
    async def run(runtime: Runtime, model: str) -> None:
        stream = Stream(runtime, model)
        try:
            await scenario(runtime, model, stream)
        finally:
            stream.task.cancel()
            await asyncio.wait([stream.task])

    settings = Settings(
        home=home,
        ctx=2048,
        slots=2,
        threads=1,
        context_shift=True,
        max_grammar_cpu_s=1,
        max_grammar_states=lexer_states,
    )
    with_model(home, path, run, settings)


class Stream:
    """An answer without an end."""

    def __init__(self, runtime: Runtime, model: str) -> None:
        self.num_tokens = 0
        self.times_s: list[float] = []
        self.task = asyncio.create_task(self._run(runtime, model))

    async def _run(self, runtime: Runtime, model: str) -> None:
        params = SamplingParams(max_tokens=10_000_000, ignore_eos=True)
        while True:
            async for delta in await submit(runtime, model, None, params):
                self.num_tokens += delta.num_tokens
                self.times_s.append(time.perf_counter())

    def worst_gap_s(self, since_s: float) -> float:
        times_s = [since_s, *(time_s for time_s in self.times_s if time_s > since_s), time.perf_counter()]
        return max(late - early for early, late in itertools.pairwise(times_s))


def test_hostile_structures_are_refused_or_answered_while_another_answer_streams(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str, stream: Stream) -> None:
        before = stream.num_tokens
        for name in QUICKLY_TRIED:
            assert await outcome(runtime, model, HOSTILE[name]) in ("stop", "length", "refused"), name
        assert json.loads((await read(await submit(runtime, model, SCHEMA)))[0])
        assert stream.num_tokens > before

    with_stream(home, path, scenario)


def test_the_engine_goes_on_and_ordinary_structures_are_answered_while_one_compiles_for_seconds(
    home: Path, path: Path
) -> None:
    async def scenario(runtime: Runtime, model: str, stream: Stream) -> None:
        hostile = asyncio.create_task(outcome(runtime, model, HOSTILE["all of 30 patterns"]))
        await read(await submit(runtime, model, SCHEMA))
        before = stream.num_tokens
        for number in range(3):
            text, _ = await read(await submit(runtime, model, Structure(kind="regex", source=f"[a-z]{{3}}{number}")))
            assert text.endswith(str(number))
        assert not hostile.done()
        assert stream.num_tokens > before
        assert await hostile == "refused"

    with_stream(home, path, scenario)


def test_a_step_limit_in_the_middle_of_an_answer_ends_it_with_its_reason_and_no_other(home: Path, path: Path) -> None:
    async def scenario(runtime: Runtime, model: str, stream: Stream) -> None:
        answer = await submit(runtime, model, HOSTILE["30 letters ago"], SamplingParams(max_tokens=1000, seed=3))
        with pytest.raises(InvalidParameter, match="more work for a token than the limits allow") as caught:
            await read(answer)
        assert caught.value.param == "response_format"
        before = stream.num_tokens
        assert await read(await submit(runtime, model, SCHEMA))
        assert stream.num_tokens > before

    with_stream(home, path, scenario, lexer_states=300)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in WORST else EXHAUSTIVE) for name in HOSTILE])
def test_no_hostile_structure_holds_up_a_stream(home: Path, path: Path, name: str) -> None:
    """50 ms more than its worst gap without it; a machine that does something else is given three tries."""

    async def scenario(runtime: Runtime, model: str, stream: Stream) -> None:
        late_s: list[float] = []
        for _ in range(3):
            began_s = time.perf_counter()
            await asyncio.sleep(1)
            usual_s = stream.worst_gap_s(began_s)
            began_s = time.perf_counter()
            assert await outcome(runtime, model, HOSTILE[name]) in ("stop", "length", "refused")
            late_s.append(stream.worst_gap_s(began_s) - usual_s)
            if late_s[-1] <= STALL_S:
                break
        assert late_s[-1] <= STALL_S, late_s

    with_stream(home, path, scenario)


@pytest.mark.exhaustive
def test_ten_thousand_structures_leave_no_memory_behind(
    home: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_preparing, "TIMEOUT_S", 600)

    async def scenario(runtime: Runtime, model: str) -> None:
        pid = next(iter(runtime.running())).pid

        def resident_mb() -> float:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20

        async def some(begin: int, end: int) -> None:
            for number in range(begin, end, 10):
                structures = [
                    Structure(kind="json_schema", source=json.dumps({"properties": {f"key{each}": {"type": "string"}}}))
                    for each in range(number, number + 10)
                ]
                one = SamplingParams(max_tokens=1)
                answers = await runtime.submit(model, [request(structure, one) for structure in structures])
                await asyncio.gather(*map(read, answers))

        await some(0, 1000)
        before_mb = resident_mb()
        await some(1000, 10_000)
        assert resident_mb() < before_mb + 64

    with_model(home, path, scenario)
