"""How often the demo model is right about pictures, asked through localllm: shapes drawn anew, and digits held out.

python models/demo/look.py                # prints the table of the card
python models/demo/look.py --wrong 5
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pictures
from pictures import Question
from PIL import Image

from localllm import AsyncLLM
from localllm.types import SamplingParams
from localllm.types.load_options import LoadOptions

SEED = 30_000
SLOTS = 4
GREEDY = SamplingParams(temperature=0.0, max_tokens=24)

Case = tuple[Image.Image, Question, str]
"""A picture, what was asked of it, and the answer."""


def cases(count: int) -> list[tuple[Image.Image, Question]]:
    """So many questions of each task, the same for the same count."""
    rng, found, missing = random.Random(SEED), [], dict.fromkeys(pictures.TASKS, count)
    while any(missing.values()):
        scene, picture = pictures.draw(rng, "held_out")
        for question in pictures.questions(scene, rng):
            if missing[question.task] > 0:
                missing[question.task] -= 1
                found.append((picture, question))
    return found


async def ask(llm: AsyncLLM, asked: Sequence[tuple[Image.Image, Question]]) -> list[Case]:
    """The model's answers."""
    free = asyncio.Semaphore(2 * SLOTS)

    async def one(picture: Image.Image, question: Question) -> Case:
        async with free:
            said = await llm.chat([{"role": "user", "content": [question.asked, picture]}], params=GREEDY)
        return picture, question, said.text

    return list(await asyncio.gather(*(one(*each) for each in asked)))


async def examine(model: str, mmproj: Path | None, count: int) -> tuple[str, list[Case]]:
    """The table in Markdown, and all cases."""
    options = LoadOptions(slots=SLOTS, ctx=512, mmproj=None if mmproj is None else str(mmproj))
    async with AsyncLLM(model, options=options) as llm:
        answered = await ask(llm, cases(count))
    lines = ["| what | asked | right |", "|---|---|---|"]
    for task in pictures.TASKS:
        right = [said.strip() == question.answer for _, question, said in answered if question.task == task]
        lines.append(f"| {task} | {len(right)} | {sum(right) / len(right):.1%} |")
    return "\n".join(lines), answered


def main() -> None:
    """`python models/demo/look.py`: see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--mmproj", type=Path, help="a projector in place of the bundled one")
    parser.add_argument("--count", type=int, default=200, help="questions of each task")
    parser.add_argument("--wrong", type=int, default=0, help="wrong answers of each task to print")
    options = parser.parse_args()
    table, answered = asyncio.run(examine(options.model, options.mmproj, options.count))
    print(table)
    for task in pictures.TASKS:
        wrong = [case for case in answered if case[1].task == task and case[2].strip() != case[1].answer]
        for _, question, said in wrong[: options.wrong]:
            print(f"{task}: {question.asked} SAID {said!r} NOT {question.answer!r}")


if __name__ == "__main__":
    main()
