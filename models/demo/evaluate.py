"""Evaluates a model file through localllm itself, with question templates that were held out of training."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus import mix
from corpus.grammar import Example, Split

from localllm import AsyncLLM
from localllm.types import SamplingParams

SEED = 20_000
SLOTS = 8
CTX = 2048
GREEDY = SamplingParams(temperature=0.0, max_tokens=320)

Verdict = Callable[[Example, str], bool]
Report = Callable[[str], None]
"""Receives progress lines."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: examples of `kind`, judged by `right`."""

    title: str
    kind: str
    right: Verdict
    wanted: float | None = None
    """The design target as a share; None: no target."""


def answer_of(text: str) -> str:
    """The answer without its thoughts."""
    return text.split("</think>")[-1].strip()


def _checked(example: Example, text: str) -> bool:
    return example.check(answer_of(text))


def called(text: str) -> dict[str, Any] | None:
    """The tool call, if the answer is exactly one."""
    found = re.fullmatch(r"<tool_call>\s*(\{.*\})\s*</tool_call>", answer_of(text), re.DOTALL)
    try:
        return None if found is None else dict(json.loads(found[1]))
    except (json.JSONDecodeError, TypeError, ValueError):
        return None


def _right_tool(example: Example, text: str) -> bool:
    call = called(text)
    return call is not None and call.get("name") == example.messages[-1]["tool_calls"][0]["function"]["name"]


def _is_json(_: Example, text: str) -> bool:
    try:
        json.loads(answer_of(text))
    except json.JSONDecodeError:
        return False
    return True


TABLE = (
    Row("product questions", "product", _checked, 0.9),
    Row("tool choice", "tool_call", _right_tool, 0.9),
    Row("tool choice and arguments", "tool_call", _checked, 0.9),
    Row("tool again, other arguments", "tool_after", _checked),
    Row("tool's result in the answer", "tool_answer", _checked),
    Row("no tool fits", "tool_none", _checked),
    Row("name from the system prompt", "system_name", _checked, 0.9),
    Row("rules and notes of the system prompt", "system_role", _checked),
    Row("JSON: valid", "json", _is_json, 0.95),
    Row("JSON: the right values", "json", _checked),
    Row("told earlier in the conversation", "reference", _checked),
    Row("corrected earlier", "correction", _checked),
    Row("small talk", "small_talk", _checked),
    Row("says that it does not know", "unknown", _checked),
    Row("counting", "counting", _checked),
    Row("sums", "sums", _checked),
    Row("sums, thinking", "sums_thinking", _checked),
    Row("facts", "facts", _checked),
    Row("facts, thinking", "facts_thinking", _checked),
    Row("chat, thinking", "chat_thinking", _checked),
    Row("story with what was wished", "story", _checked),
    Row("story continued", "story_start", _checked),
    Row("question about a story", "story_followup", _checked),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A question and the model's answer."""

    example: Example
    answer: str


async def ask(llm: AsyncLLM, examples: Sequence[Example], params: SamplingParams = GREEDY) -> list[Case]:
    """The model's last answer to every example."""
    free = asyncio.Semaphore(SLOTS)

    async def one(example: Example) -> Case:
        async with free:
            answer = await llm.complete(mix.prompt(example), params=params)
        return Case(example, answer.text)

    return list(await asyncio.gather(*(one(example) for example in examples)))


def questions(kind: str, count: int, split: Split = "held_out") -> list[Example]:
    """Examples, the same for the same count."""
    rng = random.Random(f"{SEED} {kind} {split}")
    return [mix.example(rng, kind, split) for _ in range(count)]


def recalls(count: int) -> list[Example]:
    """Questions about something stated some 1,300 tokens earlier."""
    rng = random.Random(SEED)
    return [mix.long_conversation(rng, min_words=800, max_words=900) for _ in range(count)]


async def examine(path: Path, count: int) -> tuple[str, dict[str, list[Case]]]:
    """The table in Markdown, and all cases by kind."""
    cases: dict[str, list[Case]] = {}
    lines = ["| what | asked | right | wanted |", "|---|---|---|---|"]
    async with AsyncLLM(path, ctx=CTX, slots=SLOTS) as llm:
        for kind in dict.fromkeys(row.kind for row in TABLE):
            cases[kind] = await ask(llm, questions(kind, count))
        for row in TABLE:
            share = sum(row.right(case.example, case.answer) for case in cases[row.kind]) / count
            wanted = "" if row.wanted is None else f"{row.wanted:.0%}"
            lines.append(f"| {row.title} | {count} | {share:.1%} | {wanted} |")
        cases["recall"] = await ask(llm, recalls(max(4, count // 4)))
        share = sum(_checked(case.example, case.answer) for case in cases["recall"]) / len(cases["recall"])
        lines.append(f"| told some 1,300 tokens earlier | {len(cases['recall'])} | {share:.1%} | |")
        plain = [replace(example, check=lambda _: True) for example in questions("story", 20)]
        cases["stories"] = await ask(llm, plain, SamplingParams(seed=1, max_tokens=320))
    return "\n".join(lines), cases


def main() -> None:
    """`python models/demo/evaluate.py MODEL.gguf`: print the table, and on request wrong answers and stories."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--count", type=int, default=200, help="questions of each kind")
    parser.add_argument("--wrong", type=int, default=0, help="wrong answers of each kind to print")
    parser.add_argument("--stories", action="store_true", help="print twenty stories")
    options = parser.parse_args()
    table, cases = asyncio.run(examine(options.model, options.count))
    print(table)
    for kind, asked in cases.items():
        wrong = [case for case in asked if not case.example.check(answer_of(case.answer))]
        for case in wrong[: options.wrong]:
            expected = mix.render(case.example).removeprefix(mix.prompt(case.example))
            print(f"\n--- {kind}\n{mix.prompt(case.example)[-600:]}\n  SAID {case.answer!r}\n  LIKE {expected!r}")
    if options.stories:
        for case in cases["stories"]:
            print(f"\n--- {case.example.messages[-2]['content']}\n{case.answer}")


if __name__ == "__main__":
    main()
