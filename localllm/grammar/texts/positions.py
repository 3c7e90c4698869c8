"""Glushkov automata of regular expressions: which characters may come first, follow another, and come last.

Upper bounds of repetitions are ignored, which is safe because the automata only answer what may happen.
"""

from __future__ import annotations

from localllm.grammar.texts.charsets import Range, normalized, overlap
from localllm.grammar.texts.nodes import Alt, Chars, Node, Ref, Rep, Rules, Seq

MAX_POSITIONS = 400
MAX_PAIRS = 20_000


class TooLarge(Exception):
    """The expression has too many characters to examine."""


class Automaton:
    """The automaton of one regular expression; rules that it refers to are inlined."""

    def __init__(self, node: Node, rules: Rules) -> None:
        self._rules = rules
        self.chars: list[tuple[Range, ...]] = []
        self.after: list[set[int]] = []
        self.is_nullable, self.first, self.last = self._visit(node)

    @property
    def first_chars(self) -> tuple[Range, ...]:
        return normalized(one for position in self.first for one in self.chars[position])

    def _visit(self, node: Node) -> tuple[bool, set[int], set[int]]:
        match node:
            case Chars(ranges):
                if len(self.chars) >= MAX_POSITIONS:
                    raise TooLarge
                self.chars.append(ranges)
                self.after.append(set())
                return False, {len(self.chars) - 1}, {len(self.chars) - 1}
            case Ref(name):
                return self._visit(self._rules[name])
            case Seq(items):
                is_nullable, first, last = True, set[int](), set[int]()
                for item in items:
                    may_be_empty, its_first, its_last = self._visit(item)
                    for position in last:
                        self.after[position] |= its_first
                    first |= its_first if is_nullable else set()
                    last = (last if may_be_empty else set()) | its_last
                    is_nullable = is_nullable and may_be_empty
                return is_nullable, first, last
            case Alt(options):
                found = [self._visit(option) for option in options]
                return (
                    any(one[0] for one in found),
                    set().union(*(o[1] for o in found)),
                    set().union(*(o[2] for o in found)),
                )
            case Rep(item, least, most):
                is_nullable, first, last = self._visit(item)
                if most != 1:
                    for position in last:
                        self.after[position] |= first
                return is_nullable or least == 0, first, last
            case _:
                raise TooLarge  # a token is not a character


def goes_on(one: Automaton, other: Automaton, behind_one: tuple[Range, ...]) -> bool:
    """Whether a text of `one` can continue inside `other` with a character that may also follow `one`.

    A lexer that takes the longest match would then miss the end of `one`.
    """
    seen = {(p, q) for p in one.first for q in other.first if overlap(one.chars[p], other.chars[q])}
    waiting = list(seen)
    while waiting:
        position, its = waiting.pop()
        if position in one.last and any(overlap(other.chars[q], behind_one) for q in other.after[its]):
            return True
        for pair in ((p, q) for p in one.after[position] for q in other.after[its]):
            if pair not in seen and overlap(one.chars[pair[0]], other.chars[pair[1]]):
                seen.add(pair)
                waiting.append(pair)
        if len(seen) > MAX_PAIRS:
            return True
    return False
