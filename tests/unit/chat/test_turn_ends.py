"""llama.cpp's templates write our answers again: where one keeps a turn, its end is found, and else it is not.

The templates are those of `models/templates` in llama.cpp's sources, in the folder that LOCALLLM_CHAT_TEMPLATES names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localllm.chat.formats.finding import format_of
from localllm.chat.formats.writer import written
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.chat.thoughts import beginning_of
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.types import (
    Calling,
    Delta,
    Finish,
    Function,
    GenerationRequest,
    Message,
    Rendering,
    ResolvedSampling,
    Timings,
    ToolCall,
    Usage,
)  # fmt: skip
from localllm.worker.prompts.prompt_parts import Memo, Source
from localllm.worker.prompts.reworded import AnswerMemory
from tests.each import each
from tests.unit.chat.formats.test_finding import EXPECTED

NAMED = os.environ.get("LOCALLLM_CHAT_TEMPLATES")
TEMPLATES = sorted(Path(NAMED).glob("*.jinja")) if NAMED else []

CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|?>|<[^|<>\s]{1,40}\|>|</s>|<s>|<[EB]OS>|<｜[^｜\s]{1,40}｜>|\[/?[A-Z_]{2,25}\]|<(?:start|end)_of_\w+>"
    r"|\[e~\[|\]~b\]|<SPECIAL_\d+>|<seed:\w+>|</?think>|</?tool_call>|</?assistant>|<sep>"
)
"""What real vocabularies have as control tokens."""
ENDS = "<|im_end|> <|eot_id|> <|end|> <|return|> <|call|> </s> <|user|> <|observation|> <turn|> [e~[ <EOS>".split()
FIRST = 2_000_000
"""Control token; the others are characters."""
LEAVE_OUT_THOUGHTS = {
    "Apriel-1.6-15b-Thinker-fixed", "HuggingFaceTB-SmolLM3-3B", "Kimi-K2-Thinking", "NVIDIA-Nemotron-Nano-v2",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "ibm-granite-granite-3.3-2B-Instruct", "llama-cpp-deepseek-r1",
    "unsloth-Apriel-1.5",
}  # fmt: skip
"""Templates that do so also between the calls of one turn."""
SOME = set({name: stem for stem, (name, _, _) in EXPECTED.items()}.values())
"""One template of each format."""
OTHERS = {
    "CohereForAI-c4ai-command-r-plus-tool_use",  # takes no such tools
    "llama-cpp-rwkv-world",  # has no control tokens
    "muse-glimmer",  # addresses a call before it
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "d",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]
FUNCTIONS = (Function(name="get_weather", parameters=json.dumps(TOOLS[0]["function"]["parameters"])),)  # type: ignore[index]
RENDERING = Rendering(tools=json.dumps(TOOLS))
USER = Message("user", "hi")


class Words:
    """Implements `prompts.Tokenizer`, as far as this takes it."""

    bos_text, eos_text = "<BOS>", "<EOS>"

    def __init__(self) -> None:
        self._control: list[str] = []

    def _id(self, text: str) -> int:
        if text not in self._control:
            self._control.append(text)
        return FIRST + self._control.index(text)

    @property
    def end_tokens(self) -> tuple[int, ...]:
        return tuple(map(self._id, ENDS))

    def tokenize_in_steps(  # the protocol has the rest
        self, text: str, *, add_special: bool = True, parse_special: bool = True, memo: Memo | None = None,  # noqa: ARG002
        closes: bool = False,  # noqa: ARG002
    ) -> Iterator[list[int]]:  # fmt: skip
        at = 0
        for match in CONTROL.finditer(text):
            yield [*map(ord, text[at : match.start()]), self._id(match[0])]
            at = match.end()
        yield [*map(ord, text[at:])]

    def tokens(self, text: str) -> list[int]:
        return [token for step in self.tokenize_in_steps(text) for token in step]

    def token_bytes(self, token: int) -> bytes:
        return b"" if token >= FIRST else chr(token).encode()

    def piece(self, token: int, *, special: bool) -> bytes:  # noqa: ARG002  the protocol has it
        return self._control[token - FIRST].encode() if token >= FIRST else chr(token).encode()


@pytest.mark.skipif(not TEMPLATES, reason="LOCALLLM_CHAT_TEMPLATES names no folder with llama.cpp's models/templates")
@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
@each("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_call_is_used_again_behind_its_prompt_wherever_the_template_keeps_it(path: Path, *, some: bool) -> None:
    """By default with a template of each format, and with those that leave out thoughts."""
    if some and path.stem not in SOME | LEAVE_OUT_THOUGHTS:
        return
    template, words = path.read_text("utf-8"), Words()
    format = format_of(template, bos_token=words.bos_text, eos_token=words.eos_text)
    remembered: Any = AnswerMemory(format, words)  # type: ignore[arg-type]

    def asked(*messages: Message) -> tuple[Any, str]:
        restored = remembered.restore(Source(messages, None, None, None, True, RENDERING))
        request = RenderRequest(
            template, restored.messages, words.bos_text, words.eos_text, rendering=RENDERING, words=format.calls
        )
        text = render(request).text
        return remembered.place(restored, text), text

    if path.stem in OTHERS:
        return
    first, prompt = asked(USER)
    beginning = beginning_of(format, prompt)
    call = ToolCall("get_weather", '{"city": "Ulm \\"x\\"", "days": 3}', "abcdef123")
    made = written(format, "" if beginning == "text" else "I think so.", "", (call,))
    if beginning == "thought" and format.thought is not None:
        made = made.strip().removeprefix(format.thought.opening.strip()).lstrip()
    tokens = words.tokens(prompt)
    sequence = Sequence(Request(1, tokens, sampling=ResolvedSampling()))
    sequence.progress.tokens += words.tokens(made)
    remembered.begun(first, sequence, GenerationRequest(messages=(USER,), calling=Calling(functions=FUNCTIONS)))
    finish = Finish("stop", Usage(1, 1), Timings(0, 0, 0))
    remembered.take(SimpleNamespace(deltas=[(1, Delta(finish=finish))], failures=[]))
    back = ToolCall(call.name, json.dumps(json.loads(call.arguments), indent=2), "other")
    second, text = asked(
        USER, Message("assistant", " ", tool_calls=(back,)), Message("tool", "sunny", tool_call_id="other")
    )
    leaves_out = path.stem in LEAVE_OUT_THOUGHTS and beginning != "text"
    assert (second.taken is None) is leaves_out
    if second.taken is not None:
        assert second.taken.tokens == sequence.progress.tokens
        behind = text[second.taken.num_characters :]
        assert "sunny" in behind or "sunny" not in text
        assert "Ulm" not in behind, "nothing of the answer is there twice"
