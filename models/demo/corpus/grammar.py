"""The basis of the whole corpus: examples, the split by template, and a grammar of alternatives."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Split = Literal["train", "held_out"]
"""An evaluation uses templates held out of training, not only other fillers."""

Message = dict[str, Any]
"""As in OpenAI's API: `role`, `content`; for an assistant also `tool_calls` and `reasoning_content`."""

Check = Callable[[str], bool]
"""Whether a model's answer (its text after any `</think>`) is right."""


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation. The last message is the assistant's: the one an evaluation generates, judged by `check`."""

    kind: str
    messages: list[Message]
    check: Check
    tools: list[dict[str, Any]] = field(default_factory=list)
    thinking: bool = False
    """Whether the last answer has thoughts, in `reasoning_content`."""


Generator = Callable[[random.Random, Split], Example]


def say(rng: random.Random, template: str, **fillers: object) -> str:
    """Choose among `[a|b|]` (nested ones too, innermost first), then fill `{slots}`.

    Fillers are inserted verbatim, so brackets and braces in them are safe.
    """
    while (choice := _CHOICE.search(template)) is not None:
        template = template[: choice.start()] + rng.choice(choice[1].split("|")) + template[choice.end() :]
    return _SLOT.sub(lambda slot: str(fillers[slot[1]]), template)


_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Ways to say one thing, for training and for evaluation only."""

    train: Sequence[str]
    held_out: Sequence[str]

    def say(self, rng: random.Random, split: Split, **fillers: object) -> str:
        """One of them, filled."""
        return say(rng, rng.choice(self.train if split == "train" else self.held_out), **fillers)


def user(content: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": content}


def assistant(content: str, thoughts: str | None = None) -> Message:
    """The model's answer; `thoughts` go into its `<think>` block."""
    message = {"role": "assistant", "content": content}
    return message if thoughts is None else {**message, "reasoning_content": thoughts}


def system(content: str) -> Message:
    """A system message."""
    return {"role": "system", "content": content}


def calls(name: str, arguments: dict[str, Any]) -> Message:
    """An assistant's message with one tool call."""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def tool_result(content: str) -> Message:
    """A tool's result."""
    return {"role": "tool", "content": content}


def mentions(*words: str) -> Check:
    """The answer contains all of these as whole words, in any case."""
    patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in words]
    return lambda answer: all(pattern.search(answer) for pattern in patterns)


def mentions_one_of(*words: str) -> Check:
    """The answer contains at least one of these as a whole word, in any case."""
    checks = [mentions(word) for word in words]
    return lambda answer: any(check(answer) for check in checks)


def is_call(name: str, arguments: dict[str, Any]) -> Check:
    """The answer is exactly this call, in the format of the chat template."""

    def check(answer: str) -> bool:
        found = re.fullmatch(r"\s*<tool_call>\s*(\{.*\})\s*</tool_call>\s*", answer, re.DOTALL)
        try:
            return found is not None and json.loads(found[1]) == {"name": name, "arguments": arguments}
        except json.JSONDecodeError:
            return False

    return check


def is_json(want: Callable[[Any], bool] = lambda _: True) -> Check:
    """The whole answer is JSON with an accepted value."""

    def check(answer: str) -> bool:
        try:
            return want(json.loads(answer))
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError):
            return False

    return check
