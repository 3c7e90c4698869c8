"""Answers with calls of tools: text that is free until a call opens, which then is held to the declared functions.

    auto      free text and calls
    required  calls
    none      free text in which no call opens

A call opens where a reader of answers would say so: with its opening literal, whatever the white space within it, as
text or with special tokens; and at a special token alone where nothing else of the format begins with it. Text may hold
any special token that does not end the answer. Knows nothing of thoughts before the answer (`preface`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.formats import AnswerSource, Calls, ChatFormat, ObjectCall
from localllm.grammar.arguments import ArgumentRules
from localllm.grammar.call_rules import CallRules
from localllm.grammar.literals import ANY, Literals, joined, kindly, quoted
from localllm.grammar.refusals import refused
from localllm.grammar.rules import Grammar, Rules
from localllm.grammar.whitespace import options
from localllm.structures import Structure

FREE = "/(?s:.+)/"

DOCUMENT = "document"
"""The name of the grammar that the answer's text has to match."""


class AnswerGrammars(NamedTuple):
    grammars: list[Grammar]
    """The first is named `document`."""
    notes: list[str]
    """On functions whose schemas are not kept."""


def grammars_of_answer(structure: Structure, literals: Literals, loose: frozenset[int] | None) -> AnswerGrammars:
    """`loose`: the places of functions whose arguments may be any object, unless they are strict; None: all of them.

    Raises `InvalidParameter` for what cannot be kept of a strict function.
    """
    source = source_of(structure)
    rules = Rules(literals, options(structure))
    arguments = ArgumentRules(rules, source, loose)
    start = _Answer(rules, source, arguments, structure.param).start()
    return AnswerGrammars([{"name": DOCUMENT, "lark_grammar": rules.text(start)}, *rules.grammars], arguments.notes)


def source_of(structure: Structure) -> AnswerSource:
    """What it was made from. Raises `InvalidParameter`."""
    try:
        return msgspec.json.decode(structure.source, type=AnswerSource)
    except msgspec.DecodeError as error:
        raise refused(structure.param, "does not describe an answer") from error


class _Opening(NamedTuple):
    """One way in which the first call may open."""

    texts: tuple[str, ...]
    """The literals that it is made of."""
    is_early: bool
    """Its first token alone opens a call: nothing else begins with it."""

    @property
    def text(self) -> str:
        return "".join(self.texts)


class _Answer:
    """One source's start expression."""

    def __init__(self, rules: Rules, source: AnswerSource, arguments: ArgumentRules, param: str) -> None:
        self._rules = rules
        self._literals = rules.literals
        self._source = source
        self._calls = source.format.calls if source.functions else None
        self._arguments = arguments
        self._param = param

    def start(self) -> str:
        calls, choice = self._calls, self._source.choice
        if calls is None:
            if choice == "required":
                raise InvalidParameter(f"{self._param} has no function that could be called", param=self._param)
            return self._free([])
        openings = list(_openings(self._source.format, calls, self._literals))
        if choice == "none":
            return self._none(calls, openings)
        rules = CallRules(self._rules, calls, self._source.functions, self._arguments.of)
        section = self._rules.rule(rules.behind_opening(may_repeat=self._source.parallel))
        if choice == "required":
            return joined([self._literals.written(calls.opening.lstrip()), section])
        heads = [head for opening in openings for head in self._heads(opening, anywhere=not calls.at_start_only)]
        called = self._rules.rule(" | ".join(joined([head, section]) for head in heads))
        marks = self._marks(openings)
        if calls.at_start_only:
            return f"{called} | {self._free(marks)}"
        if rules.has_end_mark and self._source.parallel:
            return self._free(marks, called)
        return f"{self._free(marks)} | {self._free(marks, called, is_last=True)}"

    def _free(self, marks: list[int], called: str = "", *, is_last: bool = False) -> str:
        """Any text, with any special tokens but the marks; with calls among it, or with one section of them behind."""
        free = self._rules.terminal(FREE)
        other = self._literals.others(*marks)
        piece = joined([f"{free}?", other]) if other else ""
        if is_last:
            return joined([f"({piece})*" if piece else "", called])
        pieces = " | ".join(filter(None, [piece, called]))
        return joined([f"({pieces})*" if pieces else "", f"{free}?"])

    def _none(self, calls: Calls, openings: list[_Opening]) -> str:
        """Text in which none of them is completed, neither spelled nor with its special tokens."""
        how = "" if calls.at_start_only else ANY
        spelled = " | ".join(joined([how, f"/{kindly(*opening.texts)}/", ANY]) for opening in openings)
        text = self._rules.terminal(f"{FREE} & ~({spelled})")
        behind = self._rules.terminal(FREE) if calls.at_start_only else text
        pieces = []
        if other := self._literals.others(*self._marks(openings), *self._late(openings)):
            pieces.append(f"{other} {behind}?")
        for token in self._late(openings):
            rests = [rest for opening in openings if (rest := self._behind_mark(opening, token)) is not None]
            after = self._rules.terminal(" & ".join([behind, *(f"~(/{rest}/ {ANY})" for rest in rests)]))
            pieces.append(f"<[{token}]> {after}?")
        return joined([f"{text}?", f"({' | '.join(pieces)})*" if pieces else ""])

    def _marks(self, openings: list[_Opening]) -> list[int]:
        """The special tokens that alone open a call."""
        firsts = [self._first(opening) for opening in openings if opening.is_early]
        return [token for token in firsts if token is not None]

    def _late(self, openings: list[_Opening]) -> list[int]:
        """The special tokens that begin an opening, and other things."""
        firsts = [self._first(opening) for opening in openings if not opening.is_early]
        return sorted({token for token in firsts if token is not None} - {*self._marks(openings)})

    def _first(self, opening: _Opening) -> int | None:
        first = self._literals.segments(opening.text.lstrip())[0]
        return first if isinstance(first, int) else None

    def _behind_mark(self, opening: _Opening, token: int) -> str | None:
        segments = self._literals.segments(opening.text.lstrip())
        if segments[0] != token:
            return None
        return kindly(segments[1]) if len(segments) > 1 and isinstance(segments[1], str) else ""

    def _heads(self, opening: _Opening, *, anywhere: bool) -> Iterator[str]:
        """Expressions that end where the opening does: spelled, and with its special tokens, text before it taken."""
        text = opening.text.rstrip()
        trailing = quoted(opening.text[len(text) :]) if text != opening.text else ""
        spelled = f"/{kindly(*opening.texts[:-1], opening.texts[-1].rstrip())}/"
        yield joined([self._rules.rule(joined([ANY if anywhere else "", spelled]), "[lazy]"), trailing])
        segments = self._literals.segments(opening.text.lstrip())
        if all(isinstance(part, str) for part in segments):
            return
        before = f"{self._rules.terminal(FREE)}?" if anywhere else ""
        first = segments[0]
        if isinstance(first, str):
            yield self._triggered(segments, "", anywhere=anywhere)
        elif opening.is_early or len(segments) == 1 or not isinstance(segments[1], str):
            yield joined([before, *map(self._literal, segments)])
        else:
            yield joined([before, f"<[{first}]>", self._triggered(segments[1:], "", anywhere=False)])

    def _triggered(self, segments: tuple[str | int, ...], before: str, *, anywhere: bool) -> str:
        """What begins with a text that opens a call as soon as it is there."""
        assert isinstance(segments[0], str)
        text = segments[0].rstrip() or segments[0]
        trigger = self._rules.rule(joined([ANY if anywhere else "", f"/{kindly(text)}/"]), "[lazy]")
        return joined([before, trigger, quoted(segments[0][len(text) :]) if text != segments[0] else "",
                       *map(self._literal, segments[1:])])  # fmt: skip

    def _literal(self, segment: str | int) -> str:
        return quoted(segment) if isinstance(segment, str) else f"<[{segment}]>"


def _openings(format_: ChatFormat, calls: Calls, literals: Literals) -> Iterator[_Opening]:
    """The model's own, then what it may write instead."""
    behind = (calls.call.before, "{") if isinstance(calls.call, ObjectCall) else (calls.call.before,)
    tags = [each for each in (format_.thought, format_.text) if each is not None]
    others = [*(tag.opening for tag in tags), *(tag.closing for tag in tags), *format_.also_text, *format_.ignored]
    for begin in (calls.begin, *calls.also_begins):
        texts = tuple(filter(None, (begin, *behind)))
        first = literals.segments("".join(texts).lstrip())[0]
        is_early = isinstance(first, int) and not any(literals.segments(other)[:1] == (first,) for other in others)
        yield _Opening(texts, is_early)
