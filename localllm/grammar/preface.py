"""A grammar of a document with reasoning before it: optional or begun by the prompt, free text up to its closing tag.

    thought.opening  free text  thought.closing  behind  text.opening  the document  text.closing

The number of reasoning tokens is not limited here: llguidance cannot roll back tokens where it counts them, so the
constraint counts (`engine/constraint/budget.py`). Knows nothing of what the document is.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.grammar.literals import ANY, FREE, Literals, joined, quoted
from localllm.grammar.rules import Grammar, Rules, mark_of
from localllm.types.structures import Preface, Tags


def with_preface(grammars: Sequence[Grammar], preface: Preface, literals: Literals) -> list[Grammar]:
    """llguidance's grammars (the first is named `document`), preceded by one that reads the reasoning.

    The free text never contains the closing tag's spelling: a reader of the text finds the end of the reasoning where
    the grammar has it.
    """
    rules = Rules(literals, {})
    document = joined(["@document"])
    if preface.text is not None:
        closing, _ = literals.before_end(preface.text.closing)
        document = joined([literals.written(preface.text.opening), document, literals.written(closing)])
    start = document
    if preface.thought is not None:
        begun = joined([_thought(rules, preface.thought, preface), literals.written(preface.behind), document])
        start = begun if preface.is_open else f"{begun} | {document}"
    return [{"name": "answer", "lark_grammar": rules.text(start)}, *grammars]


def _thought(rules: Rules, thought: Tags, preface: Preface) -> str:
    opening = "" if preface.is_open else _opening(rules, thought.opening)
    if preface.budget == 0:
        return joined([opening, rules.literals.written(thought.closing)])
    closing = [part for part in rules.literals.segments(thought.closing) if isinstance(part, int)]
    other = rules.literals.others(*closing)
    free = rules.terminal(f"{FREE} & ~({ANY} {quoted(mark_of(thought.closing))} {ANY})")
    before = f"({free}? {other})*" if other else ""
    return joined([opening, before, rules.until(thought.closing)])


def _opening(rules: Rules, text: str) -> str:
    """Once complete, it opens reasoning, even where free text may also come."""
    return joined(
        [rules.rule(quoted(part), "[lazy]") if isinstance(part, str) else f"<[{part}]>"
         for part in rules.literals.segments(text)]
    )  # fmt: skip
