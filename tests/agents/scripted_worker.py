"""A worker whose answers are written beforehand: `python -P -m tests.agents.scripted_worker SCRIPT WORKER-OPTIONS ...`

Everything is real but for the logits: vocabulary, template, grammar, sampler, scheduler, KV cache. Where an answer is
drawn, the token that the script has next is made by far the likeliest; what the grammar forbids stays forbidden. The
script is JSON: a list of steps, each with `thought`, `text` and `calls` (`name`, `arguments`); an answer is the step
whose number is that of the results in its conversation. A conversation without tools gets a title. Steps with `for`
are of conversations whose first message has that text, and there the number is that of the answers; one with `asked`
answers that last message wherever it comes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence as Items
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from localllm.chat.formats.writer import written
from localllm.engine.backend import Segment
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.llama import backend, decoder
from localllm.types import GenerationRequest, ToolCall
from localllm.worker import loading, process
from localllm.worker.messages import Submit
from localllm.worker.prompts import preparer

LIKELY = 1000.0
"""Added to a logit: nothing that a random model thinks comes near."""
TITLE = "A task"
MOST_RUNNING = 64


class Script:
    """Which tokens each running sequence is to have."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self.steps = steps
        self.loaded: loading.ModelInMemory | None = None
        self.requests: dict[int, GenerationRequest] = {}
        self.running: list[tuple[Sequence, list[int]]] = []

    def begin(self, sequence: Sequence) -> None:
        """On the thread that prepares it."""
        assert self.loaded is not None
        text = self._answer(self.requests.pop(sequence.id))
        vocab = self.loaded.vocab
        tokens = [*vocab.tokenize(text, add_special=False), vocab.end_tokens[0]]
        self.running = [*self.running[-MOST_RUNNING:], (sequence, tokens)]

    def next_token(self, slot: int, position: int) -> int | None:
        """Behind the token at a position of a slot; None: nobody has said."""
        for sequence, tokens in reversed(self.running):
            place = position + 1 - sequence.progress.num_prompt
            if sequence.slot == slot and 0 <= place < len(tokens):
                return tokens[place]
        return None

    def _answer(self, request: GenerationRequest) -> str:
        assert self.loaded is not None
        messages = request.messages or ()
        steps = [step for step in self.steps if messages and step.get("for", "\0") in messages[0].content]
        if not steps and request.calling is None:
            return TITLE
        counted = "assistant" if steps else "tool"
        steps = steps or self.steps
        step = steps[min(sum(each.role == counted for each in messages), len(steps) - 1)]
        step = next((each for each in steps if each.get("asked") == messages[-1].content), step)
        calls = [ToolCall(call["name"], json.dumps(call["arguments"])) for call in step.get("calls", ())]
        return written(self.loaded.report.format, step.get("thought", ""), step.get("text", ""), calls)


SCRIPT = Script([])


class ScriptedDecoder(decoder.LlamaDecoder):
    """Computes all that llama.cpp computes, and changes what comes of it."""

    def decode(self, segments: Items[Segment], *, within_s: float | None = None) -> bool:
        self._segments = list(segments)
        return super().decode(segments, within_s=within_s)

    def logits(self, index: int) -> Items[npt.NDArray[np.float32]]:
        rows = super().logits(index)
        segment = self._segments[index]
        first = segment.start + len(segment.tokens) - len(rows)
        for position, row in enumerate(rows, first):
            token = SCRIPT.next_token(segment.slot, position)
            if token is not None:
                row[token] = max(row[token], LIKELY)
        return rows


def main() -> None:
    SCRIPT.steps = json.loads(Path(sys.argv.pop(1)).read_text("utf-8"))
    load_model, take, submit = loading.load_model, preparer.Preparer.submit, Engine.submit

    def load(*arguments: Any) -> loading.ModelInMemory:
        SCRIPT.loaded = load_model(*arguments)
        return SCRIPT.loaded

    def take_request(self: preparer.Preparer, message: Submit) -> None:
        SCRIPT.requests[message.id] = message.request
        take(self, message)

    def begin(self: Engine, sequence: Sequence) -> None:
        SCRIPT.begin(sequence)
        submit(self, sequence)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "LlamaDecoder", ScriptedDecoder)
        patch.setattr(loading, "load_model", load)
        patch.setattr(preparer.Preparer, "submit", take_request)
        patch.setattr(Engine, "submit", begin)
        process.main()


if __name__ == "__main__":
    main()
