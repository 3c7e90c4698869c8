"""Structured answers on the real llama.cpp, on every kind of memory: documents, whatever is forced and however."""

from __future__ import annotations

import json
from collections.abc import Sequence as Many
from pathlib import Path

import pytest
from llguidance import LLMatcher, LLTokenizer

from localllm.engine.building import build_engine
from localllm.engine.constraint import masking
from localllm.engine.constraint.matcher import MatcherConstraint
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.scheduling.rows import Cost, count_passes
from localllm.llama import library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.grammar_tokens import GrammarTokens
from localllm.types import Delta, ResolvedSampling
from tests.later import jsonschema
from tests.llama.test_rows import Layout, opened

SCHEMA = {
    "type": "object",
    "properties": {
        "status": {"enum": ["pending", "shipped", "returned"]},
        "note": {"type": "string", "maxLength": 6},
        "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    },
    "required": ["status", "note", "items"],
    "additionalProperties": False,
}
SAMPLINGS = [
    ResolvedSampling(temperature=0),
    ResolvedSampling(seed=5, temperature=1.5, top_k=0, min_p=0.0),
    ResolvedSampling(seed=6, repeat_penalty=1.2, frequency_penalty=0.3, mirostat=2),
]


def dear(parts: Many[Part]) -> float:
    return float(sum(rows for _, _, rows in parts)) ** 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("constraints")


@pytest.mark.parametrize("memory", ["attention", "unified", "window", "recurrent", "hybrid"])
def test_answers_are_documents_and_the_same_however_many_tokens_a_step_computes(
    loaded_library: library.Library, folder: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masking, "PATIENCE_S", 60.0)  # steps are counted, on machines as busy as may be
    is_unified = memory == "unified"
    layout = Layout("attention" if is_unified else memory, is_unified, None)
    with opened(loaded_library, folder, layout) as backend:
        model = LlamaModel(
            loaded_library, folder / f"{layout.memory}.gguf", gpu_layers=0, devices=(), must_offload=False
        )
        tokens = GrammarTokens(loaded_library.api, model.vocab)
        grammar = LLMatcher.grammar_from_json_schema(SCHEMA, overrides={"whitespace_flexible": False})
        template = LLMatcher(tokens.tokenizer, grammar, log_level=0)

        def ask(rows: Cost, sampling: ResolvedSampling) -> tuple[list[str], list[list[int]], int]:
            for slot in range(backend.cells.num_slots):
                backend.cells.truncate(slot, 0)
            deltas: list[tuple[int, Delta]] = []

            def emit(output: StepOutput) -> None:
                assert not output.failures
                deltas.extend(output.deltas)

            engine = build_engine(backend, emit, limits=StepLimits(60))
            engine.scheduler.drafter.cost = rows
            sequences = [
                Sequence(
                    Request(id, [7 + id, 9, 11], sampling=sampling), constraint=constraint(template, tokens.tokenizer)
                )
                for id in range(3)
            ]
            for sequence in sequences:
                engine.submit(sequence)
            engine.step()
            while engine.scheduler.has_work:
                engine.step()
                engine.check_integrity()
            engine.stop()
            texts = ["".join(delta.text for id, delta in deltas if id == sequence.id) for sequence in sequences]
            assert all(delta.finish is None or delta.finish.reason == "stop" for _, delta in deltas)
            return texts, [sequence.progress.tokens for sequence in sequences], engine.num_steps

        for sampling in SAMPLINGS:
            texts, one_by_one, num_steps = ask(dear, sampling)
            for text in texts:
                jsonschema.validate(json.loads(text), SCHEMA)
            _, together, num_steps_together = ask(count_passes, sampling)
            assert together == one_by_one
            assert (num_steps_together < num_steps) == (backend.cells.max_rollback > 0)
        model.close()


def constraint(template: LLMatcher, tokenizer: LLTokenizer) -> MatcherConstraint:
    return MatcherConstraint(
        template.deep_copy(), num_tokens=tokenizer.vocab_size, end_tokens=list(tokenizer.eos_tokens)
    )
