"""Lark for structural tags: free text in which only the parts between given tags have a structure.

Two forms are in use: vLLM's original one (`structures` and `triggers`), and xgrammar's tree of formats (`format`).
Parts of the latter that cannot be enforced are rejected: formats of single tokens, excluded texts, XML styles.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from localllm.grammar.refusals import refused, under, unsupported
from localllm.grammar.schema.notes import Notes
from localllm.grammar.schema.schemas import checked
from localllm.grammar.texts.gbnf import lark_of

Grammar = dict[str, Any]
Source = dict[str, Any]

MAX_DEPTH = 40

_TEXT = "/(?s:.*)/"


def grammars_of_tags(source: Any, param: str, options: dict[str, Any], notes: Notes) -> list[Grammar]:
    """The grammars of a structural tag, the first named `document`. Raises `InvalidParameter` with the path."""
    if not isinstance(source, dict):
        raise refused(param, "must be an object")
    writer = _Writer(options, notes)
    if "format" in source:
        _only(source, param, "type", "format")
        body = writer.format(source["format"], under(param, "format"), 0)
    else:
        _only(source, param, "type", "structures", "triggers")
        structures = _list(source, "structures", param)
        placed = [(one, under(param, "structures", index)) for index, one in enumerate(structures)]
        body = writer.triggered(_triggers(source, param), [(_as_tag(one, path), path) for one, path in placed])
    lark = "\n".join(["%llguidance {}", f"start: {body}", *writer.rules])
    return [{"name": "document", "lark_grammar": lark}, *writer.grammars]


def _as_tag(structure: Any, path: str) -> Source:
    if not isinstance(structure, dict):
        raise refused(path, "must be an object with begin, schema and end")
    _only(structure, path, "begin", "schema", "end")
    content = {"type": "json_schema", "json_schema": structure.get("schema", True), "_path": under(path, "schema")}
    return {"type": "tag", "begin": structure.get("begin"), "content": content, "end": structure.get("end")}


class _Writer:
    """Collects rules and the grammars they refer to."""

    def __init__(self, options: dict[str, Any], notes: Notes) -> None:
        self._options = options
        self._notes = notes
        self.rules: list[str] = []
        self.grammars: list[Grammar] = []
        self._formats: dict[str, Callable[[Source, str, int], str]] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "regex": self._regex,
            "grammar": self._grammar,
            "any_text": self._any_text,
            "sequence": self._sequence,
            "or": self._or,
            "tag": self._tag,
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._tags_with_separator,
            "optional": self._repeated,
            "star": self._repeated,
            "plus": self._repeated,
        }

    def format(self, source: Any, path: str, depth: int) -> str:
        """A Lark expression for one format."""
        if not isinstance(source, dict) or not isinstance(source.get("type"), str):
            raise refused(path, "must be an object with a type")
        if source["type"] not in self._formats:
            raise unsupported(under(path, "type"), f"{source['type'][:80]!r} is not among {', '.join(self._formats)}")
        if depth > MAX_DEPTH:
            raise refused(path, f"is nested more than {MAX_DEPTH} formats deep")
        return self._formats[source["type"]](source, path, depth + 1)

    def _const_string(self, source: Source, path: str, _depth: int) -> str:
        _only(source, path, "type", "value")
        return _literal(_string(source, "value", path))

    def _json_schema(self, source: Source, path: str, _depth: int) -> str:
        _only(source, path, "type", "json_schema", "style", "_path")
        if source.get("style", "json") != "json":
            raise unsupported(under(path, "style"), "it must be json")
        schema = checked(source.get("json_schema"), source.get("_path", under(path, "json_schema")), self._notes)
        return self._named({"json_schema": schema | {"x-guidance": self._options}})

    def _regex(self, source: Source, path: str, _depth: int) -> str:
        _only(source, path, "type", "pattern")
        return self._named({"lark_grammar": f"start: {regex(_string(source, 'pattern', path))}"})

    def _grammar(self, source: Source, path: str, _depth: int) -> str:
        _only(source, path, "type", "grammar")
        return self._named({"lark_grammar": lark_of(_string(source, "grammar", path), under(path, "grammar"))})

    def _any_text(self, source: Source, path: str, _depth: int) -> str:
        _only(source, path, "type")
        return _TEXT

    def _sequence(self, source: Source, path: str, depth: int) -> str:
        elements = self._elements(source, path, depth)
        for index, one in enumerate(elements[:-1]):
            if one == _TEXT:
                raise unsupported(under(path, "elements", index), "any_text must come last, or be a tag's content")
        return f"({' '.join(elements)})"

    def _or(self, source: Source, path: str, depth: int) -> str:
        return f"({' | '.join(self._elements(source, path, depth))})"

    def _elements(self, source: Source, path: str, depth: int) -> list[str]:
        _only(source, path, "type", "elements")
        elements = _list(source, "elements", path)
        return [self.format(one, under(path, "elements", index), depth) for index, one in enumerate(elements)]

    def _repeated(self, source: Source, path: str, depth: int) -> str:
        _only(source, path, "type", "content")
        mark = {"optional": "?", "star": "*", "plus": "+"}[source["type"]]
        return f"({self.format(source.get('content'), under(path, 'content'), depth)}){mark}"

    def _tag(self, source: Source, path: str, depth: int) -> str:
        return f"({_literal(_string(source, 'begin', path, may_be_empty=True))} {self._behind(source, path, depth)})"

    def _behind(self, source: Source, path: str, depth: int) -> str:
        """A tag's content and its end."""
        _only(source, path, "type", "begin", "content", "end")
        ends = (
            source.get("end")
            if isinstance(source.get("end"), list)
            else [_string(source, "end", path, may_be_empty=True)]
        )
        if not ends or not all(isinstance(one, str) for one in ends):
            raise refused(under(path, "end"), "must be a text or a list of texts")
        content = self.format(source.get("content"), under(path, "content"), depth)
        if content == _TEXT and all(ends):  # up to the first of its ends
            return self._rule(f"{_TEXT} ({' | '.join(map(_literal, ends))})", "[lazy]")
        return f"{content} ({' | '.join(map(_literal, ends))})"

    def _triggered_tags(self, source: Source, path: str, depth: int) -> str:
        _only(source, path, "type", "triggers", "tags", "at_least_one", "stop_after_first")
        tags = _list(source, "tags", path)
        return self.triggered(
            _triggers(source, path),
            [(tag, under(path, "tags", index)) for index, tag in enumerate(tags)],
            at_least_one=source.get("at_least_one") is True,
            stop_after_first=source.get("stop_after_first") is True,
            depth=depth,
        )

    def triggered(
        self,
        triggers: list[str],
        tags: list[tuple[Any, str]],
        *,
        at_least_one: bool = False,
        stop_after_first: bool = False,
        depth: int = 0,
    ) -> str:
        """Free text in which each trigger begins one of its tags."""
        behind: dict[str, list[str]] = {trigger: [] for trigger in triggers}
        for tag, path in tags:
            if not isinstance(tag, dict):
                raise refused(path, "must be a tag")
            begin = _string(tag, "begin", path)
            trigger = next((one for one in triggers if begin.startswith(one)), None)
            if trigger is None:
                raise refused(under(path, "begin"), "does not begin with any of the triggers")
            behind[trigger].append(f"{_literal(begin.removeprefix(trigger))} {self._behind(tag, path, depth)}")
        one = " | ".join(
            f"{self._rule(f'{_TEXT} {_literal(trigger)}', '[lazy]')} ({' | '.join(ways)})"
            for trigger, ways in behind.items()
            if ways
        )
        name = self._rule(one)
        if stop_after_first:
            return name if at_least_one else f"({name} | {_TEXT})"
        return f"({name}{'+' if at_least_one else '*'} {self._rule(_TEXT)})"

    def _tags_with_separator(self, source: Source, path: str, depth: int) -> str:
        _only(source, path, "type", "tags", "separator", "at_least_one", "stop_after_first")
        tags = _list(source, "tags", path)
        one = self._rule(
            " | ".join(self.format(tag, under(path, "tags", index), depth) for index, tag in enumerate(tags))
        )
        separator = _literal(_string(source, "separator", path, may_be_empty=True))
        several = one if source.get("stop_after_first") is True else f"{one} ({separator} {one})*"
        return f"({several})" if source.get("at_least_one") is True else f"({several})?"

    def _named(self, grammar: Grammar) -> str:
        name = f"part{len(self.grammars)}"
        self.grammars.append({"name": name} | grammar)
        return f"@{name}"

    def _rule(self, body: str, options: str = "") -> str:
        name = f"rule{len(self.rules)}"
        self.rules.append(f"{name}{options}: {body}")
        return name


def regex(pattern: str) -> str:
    """A regular expression in Lark's notation, between slashes, without flags."""
    parts, is_escaped = [], False
    for character in pattern:
        written = {"/": "\\/", "\n": "\\n", "\r": "\\r"}.get(character, character)
        parts.append(
            written.removeprefix("\\") if is_escaped and character in "\n\r" else character if is_escaped else written
        )
        is_escaped = character == "\\" and not is_escaped
    return f"/{''.join(parts)}/"


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _triggers(source: Source, path: str) -> list[str]:
    triggers = _list(source, "triggers", path)
    for index, one in enumerate(triggers):
        if not isinstance(one, str) or not one:
            raise refused(under(path, "triggers", index), "must be a nonempty text")
    return triggers


def _only(source: Source, path: str, *names: str) -> None:
    for name in source:
        if name not in names:
            raise unsupported(under(path, name), f"only {', '.join(names)} here")


def _list(source: Source, name: str, path: str) -> list[Any]:
    found = source.get(name)
    if not isinstance(found, list) or not found:
        raise refused(under(path, name), "must be a nonempty list")
    return found


def _string(source: Source, name: str, path: str, *, may_be_empty: bool = False) -> str:
    found = source.get(name)
    if not isinstance(found, str) or not (found or may_be_empty):
        raise refused(under(path, name), "must be a text" if may_be_empty else "must be a nonempty text")
    return found
