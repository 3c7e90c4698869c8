"""What is remembered of a prompt are its own tokens, whatever happened to its sequence meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from localllm.chat.formats.finding import format_of
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.types import AppliedAdapter, Delta, Finish, GenerationRequest, Message, ResolvedSampling, Timings, Usage
from localllm.worker.prompts.adapted import adapted
from localllm.worker.prompts.prompt_parts import Source
from localllm.worker.prompts.reworded import AnswerMemory
from tests.unit.chat.test_turn_ends import RENDERING, USER, Words

TEMPLATE = (
    "{% for one in messages %}<|im_start|>{{ one.role }}\n{{ one.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("is_parked", [True, False])
def test_one_that_was_parked_without_its_state_or_is_under_an_activated_adapter(is_parked: bool) -> None:
    words = Words()
    remembered: Any = AnswerMemory(format_of(TEMPLATE, bos_token="", eos_token="<|im_end|>"), words)  # type: ignore[arg-type]

    def asked(*messages: Message) -> tuple[Any, str]:
        restored = remembered.restore(Source(messages, None, None, None, True, RENDERING))
        text = render(RenderRequest(TEMPLATE, restored.messages, "", "<|im_end|>", rendering=RENDERING)).text
        return remembered.place(restored, text), text

    first, prompt = asked(USER)
    tokens = words.tokens(prompt)
    under = adapted((AppliedAdapter("aa", "", invocation=(tokens[2],)),), tokens)
    sequence = Sequence(
        Request(
            1, tokens, sampling=ResolvedSampling(), adapters=under.adapters, activation=None if is_parked else under[1]
        )
    )
    sequence.progress.tokens += words.tokens("sunny")
    if is_parked:
        sequence.progress.parked(None)
    remembered.begun(first, sequence, GenerationRequest(messages=(USER,)))
    finish = Finish("stop", Usage(1, 1), Timings(0, 0, 0))
    remembered.take(SimpleNamespace(deltas=[(1, Delta(finish=finish))], failures=[]))
    second, _ = asked(USER, Message("assistant", "sunny"), Message("user", "why?"))
    assert second.taken is not None
    assert second.taken.tokens == sequence.progress.tokens
