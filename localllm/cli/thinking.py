"""`--think` and `/set think`: whether a model thinks before it answers, how long, and what is shown of that."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from localllm.errors import InvalidParameter

Thoughts = Literal["on", "hide", "off"]
"""Shown; a note in their place; nothing at all."""

TAKES = "on, off, hide, a number of tokens (at most so many), or default"
WORDS = ("on", "off", "hide", "default")


class Think(NamedTuple):
    """The default leaves it to the model, and shows what it thinks."""

    shown: Thoughts = "on"
    wanted: bool | None = None
    """None: as the model's template has it."""
    budget_tokens: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """Of a request."""
        return {"enable_thinking": self.wanted, "thinking_budget": self.budget_tokens}

    def __str__(self) -> str:
        """As `with_value` takes it, but for a budget of hidden thoughts."""
        if self.wanted is None:
            return "default"
        if self.budget_tokens is None:
            return self.shown
        return f"{'hide, ' if self.shown == 'hide' else ''}{self.budget_tokens}"

    def with_value(self, text: str) -> Think:
        """As a person sets it; a budget leaves hidden what was. Raises `InvalidParameter`."""
        if text == "default":
            return Think()
        if text == "off" or re.fullmatch(r"0+", text):
            return Think("off", wanted=False)
        if text in ("on", "hide"):
            return Think("hide" if text == "hide" else "on", wanted=True)
        if re.fullmatch(r"[0-9]{1,9}", text):
            return Think("hide" if self.shown == "hide" else "on", wanted=True, budget_tokens=int(text))
        raise InvalidParameter(f"think takes {TAKES}, not {text!r}", param="think")

    def described(self) -> str:
        """What follows from it, in words."""
        if self.wanted is None:
            return "the model thinks as it was made to, and its thoughts are shown"
        if not self.wanted:
            return "the model does not think where it can be told, and else its thoughts are hidden"
        bound = f" at most {self.budget_tokens} tokens" if self.budget_tokens is not None else ""
        shown = "a note stands for its thoughts; /thoughts shows them" if self.shown == "hide" else "it is shown"
        return f"the model thinks{bound} where it can; {shown}"
