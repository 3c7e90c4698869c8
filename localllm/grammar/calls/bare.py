"""Answers with calls that only brackets open, as in Llama 3's format: a declared name tells a call from text.

    text  {"name": "  get_weather", "parameters":  ...     a call
    text  {"name": "  Bob  more text                       text

A call stands by itself: what is nested in other JSON is text. All names share one trigger, so that masks cost the same
however many functions there are. Knows nothing of what follows a name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from localllm.grammar.rules import Rules
from localllm.grammar.texts.literals import ANY, BLANKS, FREE, escaped, joined
from localllm.types.conversation import Function
from localllm.types.formats import Calls, PatternCall

_ALONE = r"/(\s*:|(?s:.*)([^\s\[,:]|[^\s\"]\s*:))?\s*/"
"""Text before a call: not the beginning of a JSON array, nor a comma or a key."""


class BareCalls:
    """Rules for answers in one such format."""

    def __init__(self, rules: Rules, calls: Calls, functions: Sequence[Function]) -> None:
        self._rules = rules
        is_json = not isinstance(calls.call, PatternCall)
        names = [json.dumps(each.name, ensure_ascii=False)[1:-1] if is_json else each.name for each in functions]
        end = calls.call.slots[0].behind.strip()[:1] if isinstance(calls.call, PatternCall) else '"'
        within = "".join(rf"\x{{{ord(char):x}}}" for char in sorted(set("".join(names))))
        self._declared = f"/({'|'.join(map(escaped, names))}){escaped(end)}/"
        self._opening = joined([_ALONE, f"/{_begin(calls)}/"])
        self._other = f"/[{within}]*[^{within}]/ & ~({self._declared} {ANY})"
        self._begun = f"/[{within}]+/"

    def start(self, called: str, special: str, *, is_last: bool) -> str:
        """Text with calls anywhere in it, or only at its end. `called`: a call from its name on; `special`: any special
        token that does not end the answer."""
        rules, free = self._rules, self._rules.terminal(FREE)
        opening = rules.rule(self._opening, "[lazy]")
        text = joined([opening, rules.rule(rules.terminal(self._other), "[lazy]")])
        call = rules.rule(joined([opening, called]))
        rest = f"({free} | {opening} {rules.terminal(self._begun)}?)?"
        pieces = [text, *([f"{rest} {special}"] if special else [])]
        if is_last:
            return f"({' | '.join(pieces)})* ({rest} | {call})"
        return f"({' | '.join([*pieces, call])})* {rest}"

    def none(self, special: str) -> str:
        """Text without any call."""
        text = self._rules.terminal(f"{FREE} & ~({joined([self._opening, self._declared, ANY])})")
        return joined([f"{text}?", f"({special} {text}?)*" if special else ""])


def _begin(calls: Calls) -> str:
    """A regular expression for a call up to its name. An object may say first that it is one of a function."""
    opening = [escaped(bracket) for bracket in "".join(calls.opening.split())]
    if isinstance(calls.call, PatternCall):
        return BLANKS.join(opening)
    opening += [BLANKS.join(['("type"', ":", '"function"', ",)?"])] if calls.call.keys else []
    for kind, key in calls.call.keys:
        opening += [escaped(json.dumps(key, ensure_ascii=False)), ":"]
        if kind == "name":
            break
        opening += ['("[^"]*"|[0-9]+)', ","]
    return BLANKS.join([*opening, '"'])
