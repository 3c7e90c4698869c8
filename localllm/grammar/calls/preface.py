"""A grammar for a document after reasoning, which is free text up to its closing tag. The reasoning is optional, unless
the prompt opened it.

    thought.opening  free text  thought.closing  behind  text.opening  the document  text.closing

The number of reasoning tokens is not limited here: llguidance cannot roll back tokens where it counts them, so the
constraint counts them (`engine/constraint/budget.py`). Knows nothing of the document.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.grammar.rules import Grammar, Rules, mark_of
from localllm.grammar.texts.literals import ANY, FREE, Literals, joined, quoted
from localllm.types.structures import Preface, Tags


def with_preface(grammars: Sequence[Grammar], preface: Preface, literals: Literals) -> list[Grammar]:
    """llguidance's grammars (the first is named `document`), preceded by one for the reasoning.

    The free text never contains the spelling of the closing tag, so that readers find the end of the reasoning where
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
    """The opening tag. Once complete, it opens reasoning, even if free text is allowed there, too."""
    return joined(
        [rules.rule(quoted(part), "[lazy]") if isinstance(part, str) else f"<[{part}]>"
         for part in rules.literals.segments(text)]
    )  # fmt: skip
