"""Splits lookaheads off the beginning of a pattern: `^(?=a)(?!b)c` is `^c` where `^a` matches and `^b` does not."""

from __future__ import annotations

from localllm.grammar.texts.patterns import PatternRefused


def split_lookaheads(pattern: str) -> tuple[list[str], list[str], str]:
    """Patterns that must match as well, patterns that must not, and the rest. Raises `PatternRefused`."""
    required, excluded, rest = list[str](), list[str](), pattern
    while rest.startswith(("^(?=", "^(?!")) and (end := _group_end(rest, 1)):
        inner = [f"^{one}" for one in _alternatives(rest[4:end])]
        if rest[3] == "=":
            required.append("|".join(inner))
        else:
            excluded += inner
        rest = f"^{rest[end + 1 :]}"
    if rest != pattern and len(_alternatives(rest)) > 1:
        raise PatternRefused("it belongs to one of several alternatives")
    return required, excluded, rest


def _group_end(text: str, at: int) -> int:
    """Index of the parenthesis that closes the group at `at`; 0 if there is none."""
    depth = 0
    for place, character in _outside_classes(text, at):
        if character in "()":
            depth += 1 if character == "(" else -1
            if not depth:
                return place
    return 0


def _alternatives(text: str) -> list[str]:
    """The text, split at each `|` that is in no group."""
    found, depth, begin = list[str](), 0, 0
    for place, character in _outside_classes(text, 0):
        if character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and not depth:
            found.append(text[begin:place])
            begin = place + 1
    return [*found, text[begin:]]


def _outside_classes(text: str, at: int) -> list[tuple[int, str]]:
    """The characters that are neither escaped nor in a class, with their places."""
    found, is_class = list[tuple[int, str]](), False
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif is_class:
            is_class = character != "]"
        elif character == "[":
            is_class = True
        else:
            found.append((at, character))
        at += 1
    return found
