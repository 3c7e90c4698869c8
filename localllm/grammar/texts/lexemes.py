"""Converts a grammar over characters to Lark for llguidance, whose lexer always takes the longest match of a terminal.

That changes the language wherever only a shorter match leads on: as terminals, `[a-z]+ "b"` does not accept `ab`. So a
part without recursion becomes a terminal only if no character that may follow it could also continue inside a terminal.
Otherwise it is split, down to single characters if necessary. Terminals make masks cheap: whole tokens run through an
automaton.
"""

from __future__ import annotations

from localllm.grammar.texts.charsets import Range, normalized, overlap, written
from localllm.grammar.texts.nodes import Alt, Chars, Node, Ref, Rep, Rules, Seq, Token, children
from localllm.grammar.texts.positions import Automaton, TooLarge, goes_on

Ranges = tuple[Range, ...]


def lark(rules: Rules, root: str) -> str:
    """The grammar in Lark: `start` is the root."""
    return _Writer(rules, root).lark()


class _Writer:
    def __init__(self, rules: Rules, root: str) -> None:
        self._root = root
        self._rules = dict(rules)
        self._recursive = _recursive(rules)
        self._regular: dict[Node, bool] = {}
        for name, node in rules.items():
            self._rules[name] = self._grouped(node)
        self._automata: dict[Node, Automaton | None] = {}
        self._apart: set[Node] = set()
        """Nodes that must not be terminals although they could be."""

    def lark(self) -> str:
        while True:
            terminals, reached = self._survey()
            conflicting = self._conflicting(terminals, self._behind(reached))
            if not conflicting:
                break
            self._apart |= conflicting
        names = {name: "start" if name == self._root else f"r{index}" for index, name in enumerate(reached)}
        names_of = {node: f"T{index}" for index, node in enumerate(terminals)}
        lines = [f"{names[name]}: {self._written(self._rules[name], names, names_of)}" for name in reached]
        for node, automaton in terminals.items():
            not_empty = " & /(?s:.+)/" if automaton.is_nullable else ""
            lines.append(f"{names_of[node]}: /{self._regex(node)}/{not_empty}")
        return "\n".join(["%llguidance {}", *lines])

    def _grouped(self, node: Node) -> Node:
        """Group adjacent items that need no rules into a sequence of their own."""
        if self._is_regular(node):
            return node
        match node:
            case Alt(options):
                return Alt(tuple(map(self._grouped, options)))
            case Rep(item, least, most):
                return Rep(self._grouped(item), least, most)
            case Seq(among):
                items: list[Node] = []
                run: list[Node] = []
                for item in among:
                    if self._is_regular(item):
                        run.append(item)
                    else:
                        items += [*_together(run), self._grouped(item)]
                        run = []
                return Seq((*items, *_together(run)))
            case _:
                return node

    def _is_regular(self, node: Node) -> bool:
        if node not in self._regular:
            if isinstance(node, Ref):
                found = node.name not in self._recursive and self._is_regular(self._rules[node.name])
            else:
                found = not isinstance(node, Token) and all(map(self._is_regular, children(node)))
            self._regular[node] = found
        return self._regular[node]

    def _terminal(self, node: Node) -> Automaton | None:
        """Its automaton, if it is a terminal."""
        if node in self._apart or not self._is_regular(node):
            return None
        if node not in self._automata:
            try:
                automaton = Automaton(node, self._rules)
                self._automata[node] = automaton if automaton.chars else None
            except TooLarge:
                self._automata[node] = None
        return self._automata[node]

    def _survey(self) -> tuple[dict[Node, Automaton], list[str]]:
        """The terminals and the remaining rules that are reachable from the root."""
        found: dict[Node, Automaton] = {}
        reached = [self._root]
        for name in reached:  # grows in the loop
            waiting = [self._rules[name]]
            while waiting:
                node = waiting.pop()
                automaton = self._terminal(node)
                if automaton is not None:
                    found[node] = automaton
                elif isinstance(node, Ref):
                    reached += [node.name] if node.name not in reached else []
                else:
                    waiting += children(node)
        return found, reached

    def _behind(self, reached: list[str]) -> dict[Node, Ranges]:
        """The characters that may follow each terminal."""
        first: dict[str, tuple[bool, Ranges]] = dict.fromkeys(reached, (False, ()))
        while True:
            found = {name: self._first(self._rules[name], first) for name in reached}
            if found == first:
                break
            first = found
        behind: dict[Node | str, Ranges] = {}
        while True:
            before = dict(behind)
            for name in reached:
                self._spread(self._rules[name], behind.get(name, ()), first, behind)
            if behind == before:
                return {node: ranges for node, ranges in behind.items() if not isinstance(node, str)}

    def _first(self, node: Node, of_rules: dict[str, tuple[bool, Ranges]]) -> tuple[bool, Ranges]:
        """Whether a node may be empty, and the characters that it may begin with."""
        automaton = self._terminal(node)
        if automaton is not None:
            return automaton.is_nullable, automaton.first_chars
        match node:
            case Ref(name):
                return of_rules[name]
            case Seq(items):
                found: Ranges = ()
                for item in items:
                    is_nullable, ranges = self._first(item, of_rules)
                    found = normalized((*found, *ranges))
                    if not is_nullable:
                        return False, found
                return True, found
            case Alt(options):
                each = [self._first(option, of_rules) for option in options]
                return any(one[0] for one in each), normalized(one for _, ranges in each for one in ranges)
            case Rep(item, least, _):
                is_nullable, ranges = self._first(item, of_rules)
                return is_nullable or least == 0, ranges
            case _:
                return False, ()

    def _spread(
        self, node: Node, ranges: Ranges, first: dict[str, tuple[bool, Ranges]], behind: dict[Node | str, Ranges]
    ) -> None:
        """Record that these characters may follow the node, for the terminals and rules at its end."""
        if self._terminal(node) is not None:
            behind[node] = normalized((*behind.get(node, ()), *ranges))
            return
        match node:
            case Ref(name):
                behind[name] = normalized((*behind.get(name, ()), *ranges))
            case Alt(options):
                for option in options:
                    self._spread(option, ranges, first, behind)
            case Rep(item, _, most):
                again = self._first(item, first)[1] if most != 1 else ()
                self._spread(item, normalized((*ranges, *again)), first, behind)
            case Seq(items):
                for item in reversed(items):
                    self._spread(item, ranges, first, behind)
                    is_nullable, its = self._first(item, first)
                    ranges = normalized((*its, *(ranges if is_nullable else ())))

    def _conflicting(self, terminals: dict[Node, Automaton], behind: dict[Node, Ranges]) -> set[Node]:
        """Terminals that may match on where a terminal, possibly the same, should have ended."""
        first = {node: automaton.first_chars for node, automaton in terminals.items()}
        return {
            longer
            for longer, its in terminals.items()
            if any(its.after)
            if any(
                overlap(first[node], first[longer]) and goes_on(automaton, its, behind.get(node, ()))
                for node, automaton in terminals.items()
            )
        }

    def _written(self, node: Node, names: dict[str, str], names_of: dict[Node, str]) -> str:
        automaton = self._terminal(node)
        if automaton is not None:
            return names_of[node] + ("?" if automaton.is_nullable else "")
        match node:
            case Ref(name):
                return names[name]
            case Token(text):
                return text
            case Seq(items) if items:
                return f"({' '.join(self._written(item, names, names_of) for item in items)})"
            case Alt(options):
                return f"({' | '.join(self._written(option, names, names_of) for option in options)})"
            case Rep(item, least, most):
                return f"({self._written(item, names, names_of)}){_times(least, most)}"
            case _:
                return '""'

    def _regex(self, node: Node) -> str:
        match node:
            case Chars(ranges):
                return f"[{written(ranges)}]"
            case Ref(name):
                return f"(?:{self._regex(self._rules[name])})"
            case Seq(items):
                return "".join(map(self._regex, items))
            case Alt(options):
                return f"(?:{'|'.join(map(self._regex, options))})"
            case Rep(item, least, most):
                return f"(?:{self._regex(item)}){_times(least, most)}"
            case _:
                return ""


def _together(run: list[Node]) -> list[Node]:
    return run if len(run) < 2 else [Seq(tuple(run))]


def _times(least: int, most: int | None) -> str:
    simple = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    return simple or f"{{{least},{'' if most is None else most}}}"


def _recursive(rules: Rules) -> set[str]:
    """The rules that can be reached from themselves."""
    direct: dict[str, set[str]] = {}
    for name, node in rules.items():
        direct[name], waiting = set(), [node]
        while waiting:
            one = waiting.pop()
            direct[name] |= {one.name} if isinstance(one, Ref) else set()
            waiting += children(one)
    found = set()
    for name in rules:
        seen, queue = set[str](), list(direct[name])
        while queue:
            one_name = queue.pop()
            if one_name not in seen:
                seen.add(one_name)
                queue += direct[one_name]
        found |= {name} if name in seen else set()
    return found
