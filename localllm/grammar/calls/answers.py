"""Grammars of answers with tool calls: text is free until a call opens, which then must match a declared function.

    auto      free text and calls
    required  calls
    either    calls, or a text with a structure (`auto` with one)
    none      free text in which no call opens

A call opens where a reader of answers would see one: with its opening literal (with any white space, as text or special
tokens), or with a special token alone if nothing else in the format begins with it. Text may contain any special token
that does not end the answer. Knows nothing of reasoning before the answer (`preface`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from localllm.grammar.calls.arguments import ArgumentRules, Bounded, Loose
from localllm.grammar.calls.bare import BareCalls
from localllm.grammar.calls.call_rules import CallRules
from localllm.grammar.calls.openings import MarkedOpening, Openings, openings_of
from localllm.grammar.refusals import refused
from localllm.grammar.rules import Grammar, Rules
from localllm.grammar.texts.literals import ANY, FREE, Literals, either, escaped, joined, quoted
from localllm.grammar.texts.whitespace import options
from localllm.types.formats import AnswerSource, Calls
from localllm.types.structures import Structure

TEXT = "text"
"""Name of the grammar of a structured text, which another module writes."""
DOCUMENT = "document"
"""Name of the grammar that the answer's text must match."""


class AnswerGrammars(NamedTuple):
    """The grammars of an answer, and notes."""

    grammars: list[Grammar]
    """The first is named `document`."""
    notes: list[str]
    """Notes on functions whose schemas are not fully enforced."""
    bounded: list[Bounded]


def grammars_of_answer(
    structure: Structure, literals: Literals, *, thought: str = "", loose: Loose | None = frozenset()
) -> AnswerGrammars:
    """The grammars of an answer with calls. `thought`: the literal that may open reasoning at the beginning. `loose`:
    what need not match its schema, unless its function is strict; None: all functions.

    Raises `InvalidParameter` if the schema of a strict function cannot be enforced.
    """
    source = source_of(structure)
    rules = Rules(literals, options(structure))
    arguments = ArgumentRules(rules, source, loose)
    start = _Answer(rules, source, arguments, thought, structure.param).start()
    grammars = [{"name": DOCUMENT, "lark_grammar": rules.text(start)}, *rules.grammars]
    return AnswerGrammars(grammars, arguments.notes, arguments.bounded)


def source_of(structure: Structure) -> AnswerSource:
    """Decode the source of a structure of kind `answer`. Raises `InvalidParameter`."""
    try:
        return msgspec.json.decode(structure.source, type=AnswerSource)
    except msgspec.DecodeError as error:
        raise refused(structure.param, "does not describe an answer") from error


class _Answer:
    """The start expression of one source."""

    def __init__(self, rules: Rules, source: AnswerSource, arguments: ArgumentRules, thought: str, param: str) -> None:
        thought_segments = rules.literals.segments(thought)
        self._rules = rules
        self._opens_thought = [part for part in thought_segments[:1] if isinstance(part, int)]
        """The special token that opens reasoning, if it begins with one."""
        self._is_alone = len(thought_segments) == 1
        self._literals = rules.literals
        self._source = source
        self._arguments = arguments
        self._param = param

    def start(self) -> str:
        calls, choice = self._source.format.calls, self._source.choice
        if calls is None or not self._source.functions:
            if choice == "required":
                raise refused(self._param, "has no function that can be called")
            return self._free(Openings((), ()))
        if calls.is_bare and (choice == "none" or (choice == "auto" and self._source.text is None)):
            return self._bare(calls)
        openings = openings_of(self._source.format, calls, self._literals)
        if choice == "none":
            return joined([self._rest_of_text(), self._none(openings)])
        rules = CallRules(self._rules, calls, self._source.functions, self._arguments.of)
        section = self._rules.rule(rules.behind_opening(may_repeat=self._source.parallel))
        if choice == "required" or self._source.text is not None:
            opening = calls.opening.lstrip().removeprefix(self._source.format.opened)
            called = joined([self._literals.written(opening), section])
            return called if choice == "required" else f"{called} | {self._document()}"
        called = self._rules.rule(" | ".join(joined([head, section]) for head in self._heads(openings)))
        if self._source.format.opened:
            return self._begun(calls, openings, section, called)
        if rules.has_end_mark and self._source.parallel:
            return self._free(openings, called)
        return f"{self._free(openings)} | {self._free(openings, called, is_last=True)}"

    def _bare(self, calls: Calls) -> str:
        """Text and calls that only brackets open."""
        functions, nothing = self._source.functions, Openings((), ())
        special = either([each for each in (self._others(nothing), *self._apart(nothing)) if each] or [""])
        bare = BareCalls(self._rules, calls, functions)
        if self._source.choice == "none":
            return bare.none(special)
        rules = CallRules(self._rules, calls, functions, self._arguments.of)
        called = rules.behind_opening(may_repeat=self._source.parallel, is_at_name=True)
        return bare.start(called, special, is_last=not (rules.has_end_mark and self._source.parallel))

    def _begun(self, calls: Calls, openings: Openings, section: str, called: str) -> str:
        """An answer whose prompt ends with the beginning of both texts and calls."""
        opening, begun = calls.opening.removeprefix(self._source.format.opened), self._rest_of_text()
        first = joined([self._literals.written(opening), section])
        return " | ".join([
            first, joined([begun, self._free(openings)]), joined([begun, self._free(openings, called, is_last=True)])
        ])  # fmt: skip

    def _rest_of_text(self) -> str:
        """The rest of the text's opening literal, whose first part is in the prompt; empty if there is none."""
        opened, text = self._source.format.opened, self._source.format.text
        rest = text.opening.removeprefix(opened) if text is not None and opened else ""
        return self._rules.rule(quoted(rest), "[lazy]") if rest else ""

    def _document(self) -> str:
        """A structured text with the format's literals around it."""
        around = self._source.format.text
        if around is None:
            return joined([f"@{TEXT}"])
        closing, _ = self._literals.before_end(around.closing)
        return joined([self._literals.written(around.opening), f"@{TEXT}", self._literals.written(closing)])

    def _free(self, openings: Openings, called: str = "", *, is_last: bool = False) -> str:
        """Free text with any special tokens except the marks, and with calls anywhere in it, or only at its end."""
        free = self._rules.terminal(FREE)
        pieces = [joined([f"{free}?", other]) for other in (self._others(openings), *self._apart(openings)) if other]
        if is_last:
            return joined([f"({' | '.join(pieces)})*" if pieces else "", called])
        pieces += [called] if called else []
        return joined([f"({' | '.join(pieces)})*" if pieces else "", f"{free}?"])

    def _others(self, openings: Openings) -> str:
        """Any special token that begins nothing. If several expressions match a token, llguidance takes one of them, so
        tokens that begin something must not be among these."""
        return self._literals.others(*openings.marks, *openings.others, *self._opens_thought)

    def _apart(self, openings: Openings) -> list[str]:
        """One expression for each token that begins calls and other things."""
        thought = [] if self._is_alone else self._opens_thought
        return [f"<[{token}]>" for token in dict.fromkeys([*openings.others, *thought]) if token not in openings.marks]

    def _none(self, openings: Openings) -> str:
        """Text that completes no opening, neither as text nor with special tokens."""
        spelled = " | ".join(joined([ANY, f"/{each.pattern}/", ANY]) for each in openings.spelled)
        text = self._rules.terminal(f"{FREE} & ~({spelled})")
        pieces = []
        if other := self._others(openings):
            pieces.append(f"{other} {text}?")
        own = {f"<[{token}]>" for token in openings.others}
        pieces += [f"{other} {text}?" for other in self._apart(openings) if other not in own]
        for token in openings.others:
            rests = [escaped(_first_text(each)) for each in openings.marked if each.token == token]
            after = self._rules.terminal(" & ".join([text, *(f"~(/{rest}/ {ANY})" for rest in rests)]))
            pieces.append(f"<[{token}]> {after}?")
        return joined([f"{text}?", f"({' | '.join(pieces)})*" if pieces else ""])

    def _heads(self, openings: Openings) -> Iterator[str]:
        """Expressions for a text followed by an opening."""
        for spelled in openings.spelled:
            trigger = self._rules.rule(joined([ANY, f"/{spelled.pattern}/"]), "[lazy]")
            yield joined([trigger, self._literals.written(spelled.rest)])
        free = f"{self._rules.terminal(FREE)}?"
        for marked in openings.marked:
            written = f"<[{marked.token}]>"
            if marked.is_early:
                yield joined([free, written, self._literals.of(marked.rest)])
                continue
            text = _first_text(marked)
            place = marked.rest.index(text) if text in marked.rest else 0
            trigger = self._rules.rule(quoted(text.rstrip() or text), "[lazy]")
            trailing = text[len(text.rstrip() or text) :]
            yield joined([free, written, self._literals.of(marked.rest[:place]), trigger,
                          self._literals.written(trailing), self._literals.of(marked.rest[place + 1 :])])  # fmt: skip


def _first_text(marked: MarkedOpening) -> str:
    """The first text after the opening's token."""
    return next(part for part in marked.rest if isinstance(part, str) and part.strip())
