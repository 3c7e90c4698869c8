r"""Regular expressions for the texts in which some patterns occur and others do not, of any without lookarounds.

    patterns -> an automaton each -> one that is deterministic -> smallest -> states removed -> expression

If dialects disagree on a class, a text is left out if any of them does. Knows nothing of schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
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
MAX_KEPT = 256
"""Results that are kept: a schema asks the same of many names."""
MAX_EXAMINED = 3_000
"""States that are examined for a text."""
MAX_CHARACTERS = 20_000
_BEYOND_ASCII: Range = (0x80, LAST)
_State = tuple[frozenset[int], ...]
_FIRST_SET = 0xF0000
"""Sets of characters stand as single private characters in what the parser writes."""


def opposite(pattern: str) -> str:
    """For the whole text, in llguidance's notation. Raises `PatternRefused`."""
    found = combined((), (pattern,))
    if found is None:
        raise PatternRefused("it matches every text")
    return found


@lru_cache(maxsize=MAX_KEPT)
def combined(required: tuple[str, ...], excluded: tuple[str, ...]) -> str | None:
    """For whole texts in which all of the `required` occur and none of the `excluded`; None if there is no such text.
    Raises `PatternRefused`."""
    states = _States(required, excluded)
    nexts, accepts = list[list[int]](), list[bool]()
    for state in states.waiting:
        accepts.append(states.accepts(state))
        nexts.append(states.nexts(state, MAX_STATES))
    return _expression(*_smallest(nexts, accepts), states.cuts)


@lru_cache(maxsize=MAX_KEPT)
def share_text(required: tuple[str, ...], excluded: tuple[str, ...] = ()) -> bool:
    """Whether there is a text in which all of the `required` occur and none of the `excluded`. Raises
    `PatternRefused`."""
    states = _States(required, excluded)
    for state in states.waiting:
        if states.accepts(state):
            return True
        states.nexts(state, MAX_EXAMINED)
    return False


def example(required: Sequence[str], excluded: Sequence[str] = ()) -> str | None:
    """A short such text of plain characters; None if there is none. Raises `PatternRefused`."""
    states = _States(required, excluded)
    texts: list[str | None] = [""]
    for number, state in enumerate(states.waiting):
        text = texts[number]
        if text is not None and states.accepts(state):
            return text
        behind: dict[int, tuple[int, str]] = {}
        for cut, to in zip(states.cuts, states.nexts(state, MAX_EXAMINED), strict=True):
            behind[to] = min(behind.get(to, _NONE), _plain(cut))
        for to in range(len(texts), len(states.waiting)):
            character = behind[to][1]
            texts.append(text + character if text is not None and character else None)
    return None


_PLAIN = "a0A-.:/_@"
"""Characters that examples have where they may have several."""
_NONE = (len(_PLAIN) + 1, "")


def _plain(among: Range) -> tuple[int, str]:
    """The rank of the best character, and that; an empty text if JSON writes none of them as it is."""
    for rank, one in enumerate(_PLAIN):
        if among[0] <= ord(one) <= among[1]:
            return rank, one
    codes = range(max(0x20, among[0]), min(0x7E, among[1]) + 1)
    first = next((code for code in codes if chr(code) not in '"\\'), None)
    return _NONE if first is None else (len(_PLAIN), chr(first))


class _States:
    """The states of several patterns' automata together, found one after another."""

    def __init__(self, required: Sequence[str], excluded: Sequence[str]) -> None:
        self._num_required, sets = len(required), list[tuple[Range, ...]]()
        self._patterns = list[_Nodes]()
        for pattern in (*required, *excluded):
            kind = _Needed if len(self._patterns) < len(required) else _Sets
            parser = kind(pattern.removeprefix("(?i)"), pattern.startswith("(?i)"))
            self._patterns.append(_Nodes(parser.written(), parser.sets))
            sets += parser.sets
        self.cuts = _cuts(sets)
        first = tuple(nodes.closed([nodes.start]) for nodes in self._patterns)
        self._numbers = {first: 0}
        self.waiting = [first]
        """All states so far, by number."""

    def accepts(self, state: _State) -> bool:
        occurred = [nodes.end in some for nodes, some in zip(self._patterns, state, strict=True)]
        return all(occurred[: self._num_required]) and not any(occurred[self._num_required :])

    def nexts(self, state: _State, most: int) -> list[int]:
        """The number of the next state for each range of characters. Raises `PatternRefused` beyond `most` states."""
        found, steps = list[int](), [nodes.steps_from(some) for nodes, some in zip(self._patterns, state, strict=True)]
        for cut in self.cuts:
            to = tuple(
                nodes.closed(node for ranges, node in some if any(first <= cut[0] <= last for first, last in ranges))
                for nodes, some in zip(self._patterns, steps, strict=True)
            )
            if not all(to[: self._num_required]):
                to = tuple(frozenset[int]() for _ in to)  # no text that begins so
            if to not in self._numbers:
                if len(self._numbers) == most:
                    raise PatternRefused("what it does not match is too long")
                self._numbers[to] = len(self._numbers)
                self.waiting.append(to)
            found.append(self._numbers[to])
        return found


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


class _Needed(_Sets):
    """Collects the sets of characters, each as small as any dialect takes it."""

    narrow, wide = NARROW, WIDE

    def _set(self, charset: CharSet) -> str:
        if not charset.properties:
            return super()._set(charset)
        if charset.is_negated or not charset.ranges:
            raise PatternRefused("it has a property of characters, which cannot be combined")
        return super()._set(CharSet(charset.ranges))


class _Nodes:
    """An automaton made of what the parser wrote: `steps` by a set of characters, `jumps` by nothing."""

    def __init__(self, written: str, sets: list[tuple[Range, ...]]) -> None:
        self._written, self._at, self._sets = written, 0, sets
        self._closed: dict[frozenset[int], frozenset[int]] = {}
        self.steps: list[list[tuple[tuple[Range, ...], int]]] = []
        self.jumps: list[list[int]] = []
        self.start = self._node()
        self.end = self._alternatives(self.start)

    def closed(self, some: Iterable[int]) -> frozenset[int]:
        """The nodes, and those to which they jump."""
        first = frozenset(some)
        if first not in self._closed:
            self._closed[first] = self._reached(first)
        return self._closed[first]

    def _reached(self, some: Iterable[int]) -> frozenset[int]:
        found, waiting = set[int](), [*some]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.jumps[one]
        return frozenset(found)

    def steps_from(self, some: Iterable[int]) -> list[tuple[tuple[Range, ...], int]]:
        return [each for node in some for each in self.steps[node]]

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


def _smallest(nexts: list[list[int]], accepts: list[bool]) -> tuple[list[list[int]], list[bool]]:
    """The same with one state for all from which the same texts are accepted; the first stays the first."""
    kinds, num = [int(each) for each in accepts], 0
    while len(set(kinds)) > num:
        num, seen = len(set(kinds)), dict[tuple[int, ...], int]()
        kinds = [seen.setdefault((kind, *(kinds[to] for to in nexts[at])), len(seen)) for at, kind in enumerate(kinds)]
    firsts = [kinds.index(kind) for kind in range(num)]
    return [[kinds[to] for to in nexts[state]] for state in firsts], [accepts[state] for state in firsts]


def _expression(nexts: list[list[int]], accepts: list[bool], cuts: list[Range]) -> str | None:
    """The texts that lead from the first state to an accepting one; None if none do."""
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
    return f"(?:{ways[first][last]})" if last in ways[first] else None


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
