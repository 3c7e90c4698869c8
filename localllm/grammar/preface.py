"""A grammar of a document, with a thought before it: optional or begun by the prompt, free text up to its closing tag.

    opening  free text, at most `budget` tokens  closing  two newlines  the document

Knows nothing of what the document is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from localllm.errors import InvalidParameter
from localllm.structures import BEHIND_A_THOUGHT, Preface


def with_preface(grammars: Sequence[dict[str, Any]], preface: Preface) -> list[dict[str, Any]]:
    """llguidance's grammars (the first is named `document`), behind one that reads the thought first.

    The free text never holds the closing tag's spelling: who reads the answer as text finds the end of the thought
    where the grammar has it. Raises `InvalidParameter` for a budget where that tag is no token of its own: llguidance
    ends such a text without it.
    """
    if preface.budget and preface.closing_token is None:
        raise InvalidParameter(
            f"this model writes {preface.thought.closing} in several tokens, so its thought cannot be ended early: "
            "leave thinking_budget out, or set it to 0",
            param="thinking_budget",
        )
    return [{"name": "answer", "lark_grammar": _lark(preface)}, *grammars]


def _lark(preface: Preface) -> str:
    thought, between = preface.thought, json.dumps(BEHIND_A_THOUGHT)
    opening = "" if preface.is_open else _tag(thought.opening, preface.opening_token)
    closing = _tag(thought.closing, preface.closing_token)
    rules = [
        "%llguidance {}",
        "start: thought @document" + ("" if preface.is_open else " | @document"),
        "ANYTHING: /(?s:.*)/",
    ]
    if preface.budget == 0:
        rules.append(f"thought: {opening} {closing} {between}")
    elif preface.closing_token is None:
        rules += [f"thought: {opening} body {between}", f"body[suffix={json.dumps(thought.closing)}]: ANYTHING"]
    else:
        most = "" if preface.budget is None else f"[max_tokens={preface.budget}]"
        rules += [f"thought: {opening} body {closing} {between}", f"body{most}: TEXT"]
        rules.append(f"TEXT: ANYTHING & ~(ANYTHING {json.dumps(thought.closing)} ANYTHING)")
    return "\n".join([*rules, ""])


def _tag(text: str, token: int | None) -> str:
    return json.dumps(text) if token is None else f"<[{token}]>"
