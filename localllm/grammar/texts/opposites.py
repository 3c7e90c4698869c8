r"""A regular expression for all texts in which a pattern does not occur, for any pattern without lookarounds.

    pattern -> automaton -> deterministic, accepting where it did not -> smallest -> states removed -> expression

If dialects disagree on a class, a text is excluded if any of them finds the pattern in it. Knows nothing of schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from localllm.grammar.texts.charsets import (
    LAST,
    NARROW,
    WIDE,
    CharSet,
    Range,
    complement,
    folded,
    normalized,
)
from localllm.grammar.texts.patterns import PatternParser, PatternRefused

MAX_NODES = 4_000
MAX_STATES = 300
MAX_CHARACTERS = 20_000
_BEYOND_ASCII: Range = (0x80, LAST)
_FIRST_SET = 0xF0000
"""Sets of characters stand as single private characters in what the parser writes."""


def opposite(pattern: str) -> str:
    """For the whole text, in llguidance's notation. Raises `PatternRefused`."""
    ignore_case = pattern.startswith("(?i)")
    parser = _Sets(pattern.removeprefix("(?i)"), ignore_case)
    nodes = _Nodes(parser.written(), parser.sets)
    cuts = _cuts(parser.sets)
    return _expression(*_smallest(*_deterministic(nodes, cuts)), cuts)


class _Sets(PatternParser):
    """Collects the sets of characters, each as large as any dialect takes it."""

    narrow, wide = WIDE, NARROW

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        super().__init__(pattern, ignore_case)
        self.sets: list[tuple[Range, ...]] = []

    def _set(self, charset: CharSet) -> str:
        ranges = charset.ranges
        if charset.is_negated:
            ranges = complement(ranges)
        elif charset.properties:
            ranges = (*ranges, *(NARROW["d"].ranges if charset is WIDE["d"] else NARROW["w"].ranges), _BEYOND_ASCII)
        self.sets.append(folded(ranges) if self._ignore_case else normalized(ranges))
        return chr(_FIRST_SET + len(self.sets) - 1)


class _Nodes:
    """An automaton made of what the parser wrote: `steps` by a set of characters, `jumps` by nothing."""

    def __init__(self, written: str, sets: list[tuple[Range, ...]]) -> None:
        self._written, self._at, self._sets = written, 0, sets
        self.steps: list[list[tuple[tuple[Range, ...], int]]] = []
        self.jumps: list[list[int]] = []
        self.start = self._node()
        self.end = self._alternatives(self.start)

    def _node(self) -> int:
        if len(self.steps) >= MAX_NODES:
            raise PatternRefused("what it does not match is too long")
        self.steps.append([])
        self.jumps.append([])
        return len(self.steps) - 1

    def _alternatives(self, start: int) -> int:
        end = self._node()
        while True:
            self.jumps[self._sequence(start)].append(end)
            if self._written[self._at : self._at + 1] != "|":
                return end
            self._at += 1

    def _sequence(self, start: int) -> int:
        while self._written[self._at : self._at + 1] not in ("", "|", ")"):
            begin, (least, most, after) = self._at, self._repeats(self._after_atom())
            for count in range(least if most is None else most):
                if count >= least:
                    self.jumps[start].append(end := self._node())
                    self.jumps[self._once(start, begin)].append(end)
                    start = end
                else:
                    start = self._once(start, begin)
            if most is None:
                loop = self._node()
                self.jumps[start].append(loop)
                self.jumps[self._once(loop, begin)].append(loop)
                start = loop
            self._at = after
        return start

    def _once(self, start: int, begin: int) -> int:
        self._at = begin
        if self._written.startswith("(?s:.*)", begin):
            loop = self._node()  # of its own: other alternatives begin at the same node
            self.jumps[start].append(loop)
            self.steps[loop].append((((0, LAST),), loop))
            return loop
        if self._written.startswith("(?:", begin):
            self._at += 3
            return self._alternatives(start)
        end = self._node()
        self.steps[start].append((self._sets[ord(self._written[begin]) - _FIRST_SET], end))
        return end

    def _after_atom(self) -> int:
        """Where the atom that begins here ends."""
        if self._written[self._at] != "(":
            return self._at + 1
        depth = 0
        for place in range(self._at, len(self._written)):
            depth += {"(": 1, ")": -1}.get(self._written[place], 0)
            if not depth:
                return place + 1
        raise AssertionError("the parser closes its groups")

    def _repeats(self, at: int) -> tuple[int, int | None, int]:
        """How often the atom that ends here comes, and where that ends."""
        sign = self._written[at : at + 1]
        if sign in ("*", "+", "?") and sign:
            return (1 if sign == "+" else 0), (1 if sign == "?" else None), at + 1
        if sign != "{":
            return 1, 1, at
        end = self._written.index("}", at)
        least, comma, most = self._written[at + 1 : end].partition(",")
        return int(least), (int(most) if most else None) if comma else int(least), end + 1


def _cuts(sets: Iterable[tuple[Range, ...]]) -> list[Range]:
    """The code points in ranges of which each is in a set or not."""
    cuts = sorted({0, LAST + 1, *(cut for one in sets for first, last in one for cut in (first, last + 1))})
    return [(first, end - 1) for first, end in pairwise(cuts)]


def _deterministic(nodes: _Nodes, cuts: list[Range]) -> tuple[list[list[int]], list[bool]]:
    """For each state, the next one for each range of characters; and whether the pattern did not occur."""

    def closed(some: Iterable[int]) -> frozenset[int]:
        found, waiting = set[int](), [*some]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += nodes.jumps[one]
        return frozenset(found)

    states = {closed([nodes.start]): 0}
    waiting, nexts, accepts = [*states], list[list[int]](), list[bool]()
    for state in waiting:
        accepts.append(nodes.end not in state)
        nexts.append([])
        steps = [each for node in state for each in nodes.steps[node]]
        for cut in cuts:
            to = closed(node for ranges, node in steps if any(first <= cut[0] <= last for first, last in ranges))
            if to not in states:
                if len(states) == MAX_STATES:
                    raise PatternRefused("what it does not match is too long")
                states[to] = len(states)
                waiting.append(to)
            nexts[-1].append(states[to])
    return nexts, accepts


def _smallest(nexts: list[list[int]], accepts: list[bool]) -> tuple[list[list[int]], list[bool]]:
    """The same with one state for all from which the same texts are accepted; the first stays the first."""
    kinds, num = [int(each) for each in accepts], 0
    while len(set(kinds)) > num:
        num, seen = len(set(kinds)), dict[tuple[int, ...], int]()
        kinds = [seen.setdefault((kind, *(kinds[to] for to in nexts[at])), len(seen)) for at, kind in enumerate(kinds)]
    firsts = [kinds.index(kind) for kind in range(num)]
    return [[kinds[to] for to in nexts[state]] for state in firsts], [accepts[state] for state in firsts]


def _expression(nexts: list[list[int]], accepts: list[bool], cuts: list[Range]) -> str:
    """The texts that lead from the first state to an accepting one."""
    num = len(nexts)
    first, last = num, num + 1
    ways: dict[int, dict[int, str]] = {state: {} for state in range(num + 2)}
    for state, tos in enumerate(nexts):
        for other in set(tos):
            charset = CharSet(normalized(cut for cut, to in zip(cuts, tos, strict=True) if to == other))
            if not charset.is_empty:
                ways[state][other] = str(charset)
        if accepts[state]:
            ways[state][last] = ""
    ways[first][0] = ""
    for state in _from_last(ways, num):
        loop, onward = ways[state].pop(state, None), ways.pop(state)
        again = "" if not loop else f"(?:{loop})*"
        for way in ways.values():
            before = way.pop(state, None)
            if before is None:
                continue
            for other, behind in onward.items():
                joined = before + again + behind
                way[other] = joined if other not in way else f"(?:{way[other]}|{joined})"
                if len(way[other]) > MAX_CHARACTERS:
                    raise PatternRefused("what it does not match is too long")
    if last not in ways[first]:
        raise PatternRefused("it matches every text")
    return f"(?:{ways[first][last]})"


def _from_last(ways: dict[int, dict[int, str]], num: int) -> Iterator[int]:
    """The states, those first that few ways lead through; of these, the last."""
    waiting = set(range(num))
    while waiting:
        into = dict.fromkeys(waiting, 0)
        for way in ways.values():
            for state in way.keys() & waiting:
                into[state] += 1
        best = min(waiting, key=lambda state: (into[state] * len(ways[state]), -state))
        waiting.remove(best)
        yield best
