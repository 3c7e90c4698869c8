"""`--think` and `/set think`: whether a model thinks before it answers, for how long, and what is shown of it."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from localllm.errors import InvalidParameter

Thoughts = Literal["on", "hide", "off"]
"""Shown, replaced by a note, or dropped."""

TAKES = "on, off, hide, a number of tokens as the limit, or default"
WORDS = ("on", "off", "hide", "default")


class Think(NamedTuple):
    """By default the model decides, and its thinking is shown."""

    shown: Thoughts = "on"
    wanted: bool | None = None
    """None: the default of the model's template."""
    budget_tokens: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        return {"enable_thinking": self.wanted, "thinking_budget": self.budget_tokens}

    def __str__(self) -> str:
        """A value that `with_value` takes, except for a budget with hidden thoughts."""
        if self.wanted is None:
            return "default"
        if self.budget_tokens is None:
            return self.shown
        return f"{'hide, ' if self.shown == 'hide' else ''}{self.budget_tokens}"

    def with_value(self, text: str) -> Think:
        """Changed by a value that the user typed; a budget keeps thoughts hidden. Raises `InvalidParameter`."""
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
        """The effect, as a sentence."""
        if self.wanted is None:
            return "the model decides whether to think; its thinking is shown"
        if not self.wanted:
            return "thinking is off; if the model cannot turn it off, it is hidden"
        bound = f" with at most {self.budget_tokens} tokens" if self.budget_tokens is not None else ""
        shown = "it is hidden, /thoughts shows it" if self.shown == "hide" else "it is shown"
        return f"thinking is on{bound}, if the model supports it; {shown}"
