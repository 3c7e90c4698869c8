"""Translates Ollama's Go chat templates to Jinja, with Ollama's semantics.

Supported: text, comments, trimming, `if`/`else if`/`else`, `with`, `range` with `break` and `continue`, variables,
pipelines, parentheses; the functions of `_FUNCTIONS`; the fields of `_ROOT` and `_FIELDS`. Refused by name and
position: `define`, `template`, `block`, and any other function, field or literal.

A template that uses `.Messages` is rendered once, with messages merged by role. Any other is of the older kind: it is
rendered once per turn with `.System`, `.Prompt` and `.Response`, and for the last turn up to `.Response`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from localllm.registry.go_template.lexing import Text, refused
from localllm.registry.go_template.parsing import (
    Assign,
    Branch,
    Call,
    Expression,
    Jump,
    Literal,
    Node,
    Print,
    Reference,
    parse,
)

_FIELDS = {
    "Role": "role",
    "Content": "content",
    "Thinking": "reasoning_content",
    "ToolCalls": "tool_calls",
    "ToolName": "name",
    "ToolCallID": "tool_call_id",
    "ID": "id",
    "Function": "function",
    "Name": "name",
    "Arguments": "arguments",
    "Description": "description",
    "Parameters": "parameters",
    "Properties": "properties",
    "Required": "required",
    "Type": "type",
    "Enum": "enum",
    "Items": "items",
}
"""Fields of messages, tools and calls."""
_ROOT = {
    "System": "go_system",
    "Prompt": "go_prompt",
    "Response": "go_response",
    "Suffix": "''",
    "Messages": "go_messages",
    "Tools": "(tools or [])",
    "Think": "(enable_thinking | default(false))",
    "ThinkLevel": "(reasoning_effort | default(''))",
    "IsThinkSet": "(enable_thinking is defined)",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., str]]] = {
    **{
        name: (2, 2 if name != "eq" else 9, lambda first, *others, sign=sign: _any_of(first, sign, others))
        for name, sign in _COMPARISONS.items()
    },
    "and": (1, 99, lambda *values: f"({' and '.join(values)})"),
    "or": (1, 99, lambda *values: f"({' or '.join(values)})"),
    "not": (1, 1, lambda value: f"(not {value})"),
    "len": (1, 1, lambda value: f"({value} or []) | length"),
    "slice": (1, 3, lambda value, first="", end="": f"({value} or [])[{first}:{end}]"),
    "index": (1, 9, lambda value, *keys: value + "".join(f"[{key}]" for key in keys)),
    "json": (1, 1, lambda value: f"{value} | tojson(separators=(',', ':'))"),
    "print": (1, 99, lambda *values: f"({' ~ '.join(values)})"),
    "printf": (1, 99, lambda pattern, *values: f"{pattern} | format({', '.join(values)})"),
    "currentDate": (0, 0, lambda: "strftime_now('%Y-%m-%d')"),
}
"""Name -> minimum and maximum number of arguments, and its Jinja equivalent."""

_PRINT = (
    "{%- macro go_print(value) -%}{%- if value is string -%}{{ value }}{%- elif value is defined and value is not none "
    "-%}{{ value | tojson(separators=(',', ':')) }}{%- endif -%}{%- endmacro -%}"
)
"""Prints values as Go does: text, numbers, and tools and their arguments, which are JSON."""
_TEXT = (
    "{%- set text = message.content if message.content is string else (message.content or []) "
    "| selectattr('type', 'equalto', 'text') | map(attribute='text') | join -%}"
)
_MERGED = (
    "{%- set go = namespace(system='', messages=[]) -%}{%- for message in messages -%}" + _TEXT + "{%- if message.role "
    "== 'system' -%}{%- set go.system = go.system + ('\\n\\n' if go.system else '') + text -%}{%- endif -%}"
    "{%- if go.messages and go.messages[-1].role == message.role and message.role != 'tool' -%}"
    "{%- set last = go.messages[-1] -%}"
    "{%- set go.messages = go.messages[:-1] + [dict(last, content=last.content + '\\n\\n' + text)] -%}"
    "{%- else -%}{%- set go.messages = go.messages + [dict(message, content=text)] -%}{%- endif -%}{%- endfor -%}"
    "{%- set go_system = go.system -%}{%- set go_messages = go.messages -%}{%- set go_prompt = '' -%}"
    "{%- set go_response = '' -%}"
)
"""Merges consecutive messages of one role, and collects all system messages in `.System`."""
_TURN = "{{- go_turn(turn.system, turn.prompt, turn.response) -}}"
_CLEARED = "{%- set turn.system = '' -%}{%- set turn.prompt = '' -%}{%- set turn.response = '' -%}"
_TURNS = (
    _MERGED + "{%- set turn = namespace(system='', prompt='', response='') -%}{%- for message in go_messages -%}"
    "{%- if message.role == 'system' -%}{%- if turn.prompt or turn.response -%}" + _TURN + _CLEARED + "{%- endif -%}"
    "{%- set turn.system = message.content -%}{%- elif message.role == 'user' -%}{%- if turn.response -%}" + _TURN
    + _CLEARED + "{%- endif -%}{%- set turn.prompt = message.content -%}{%- elif message.role == 'assistant' -%}"
    "{%- set turn.response = message.content -%}{%- endif -%}{%- endfor -%}"
    "{%- if turn.response and not add_generation_prompt -%}" + _TURN + "{%- else -%}"
    "{{- go_last(turn.system, turn.prompt, turn.response) -}}{%- endif -%}"
)  # fmt: skip
"""A turn ends when a user or system message follows an answer; the last one awaits its answer."""


def to_jinja(source: str) -> str:
    """Translates a template. Raises `InvalidParameter` with line and column for unsupported constructs."""
    nodes = parse(source)
    names = {name for node in nodes for name in _root_fields(node)}
    if "Messages" in names:
        return _PRINT + _MERGED + _Writer(source).write(nodes)
    if "Response" not in names:
        nodes = [*nodes, Print(Reference(".", ("Response",), len(source)))]
    return (
        _PRINT
        + "{%- macro go_turn(go_system, go_prompt, go_response) -%}" + _Writer(source).write(nodes) + "{%- endmacro -%}"
        + "{%- macro go_last(go_system, go_prompt, go_response) -%}"
        + _Writer(source).write(_until_response(nodes)[0]) + "{%- endmacro -%}" + _TURNS
    )  # fmt: skip


def _expressions(node: Node) -> Iterator[Expression]:
    """Yields the expressions of a node, including nested ones."""
    if isinstance(node, (Print, Assign, Branch)):
        waiting: list[Expression] = [node.value]
        while waiting:
            value = waiting.pop()
            yield value
            if isinstance(value, Call):
                waiting += value.arguments
            elif isinstance(value, Reference) and not isinstance(value.start, str):
                waiting.append(value.start)


def _root_fields(node: Node) -> Iterator[str]:
    for value in _expressions(node):
        if isinstance(value, Reference):
            yield from value.fields
    if isinstance(node, Branch):
        for inner in (*node.body, *node.otherwise):
            yield from _root_fields(inner)


def _until_response(nodes: Sequence[Node]) -> tuple[list[Node], bool]:
    """The nodes up to and including `.Response`, and whether it occurs."""
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, Branch):
            body, is_there = _until_response(node.body)
            otherwise, is_otherwise = ([], True) if is_there else _until_response(node.otherwise)
            kept.append(Branch(node.kind, node.variables, node.value, node.at, body, otherwise))
            is_there = is_there or is_otherwise
        else:
            kept.append(node)
            is_there = isinstance(node, Print) and any(
                isinstance(value, Reference) and "Response" in value.fields for value in _expressions(node)
            )
        if is_there:
            return kept, True
    return kept, False


def _any_of(first: str, sign: str, others: Sequence[str]) -> str:
    return f"({' or '.join(f'{first} {sign} {other}' for other in others)})"


class _Writer:
    """Writes nodes as Jinja. Go variables live in a Jinja namespace, so that assignments in loops persist."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._scopes: list[dict[str, str]] = [{}]
        self._dots: list[str | None] = [None]
        """The current value of the dot; None: the root."""
        self._count = 0

    def write(self, nodes: Sequence[Node]) -> str:
        return "{%- set v = namespace() -%}" + self._all(nodes)

    def _all(self, nodes: Sequence[Node]) -> str:
        return "".join(self._node(node) for node in nodes)

    def _new(self) -> str:
        self._count += 1
        return f"v.x{self._count}"

    def _node(self, node: Node) -> str:
        if isinstance(node, Text):
            return "{{- " + _quoted(node.text) + " -}}"
        if isinstance(node, Print):
            return "{{- go_print(" + self._value(node.value) + ") -}}"
        if isinstance(node, Jump):
            return "{%- " + node.kind + " -%}"
        if isinstance(node, Assign):
            value = self._value(node.value)
            name = self._declared(node.variable) if node.declares else self._variable(node.variable, node.at)
            return _set(name, value)
        self._scopes.append({})
        try:
            return self._range(node) if node.kind == "range" else self._choice(node)
        finally:
            self._scopes.pop()

    def _declared(self, variable: str) -> str:
        self._scopes[-1][variable] = name = self._new()
        return name

    def _variable(self, variable: str, at: int) -> str:
        for scope in reversed(self._scopes):
            if variable in scope:
                return scope[variable]
        raise refused(self._source, at, f"the variable {variable} is used before it is set")

    def _choice(self, node: Branch) -> str:
        value = self._value(node.value)
        before = ""
        if node.variables or node.kind == "with":
            name = self._declared(node.variables[0]) if node.variables else self._new()
            before, value = _set(name, value), name
        body = self._block(node.body, value) if node.kind == "with" else self._block(node.body, self._dots[-1])
        otherwise = self._block(node.otherwise, self._dots[-1])
        end = "{%- else -%}" + otherwise + "{%- endif -%}" if node.otherwise else "{%- endif -%}"
        return before + "{%- if " + value + " -%}" + body + end

    def _range(self, node: Branch) -> str:
        values, value, item = self._new(), self._new(), f"item{self._count}"
        begin = _set(values, self._value(node.value))
        begin += "{%- for " + item + f" in ({values} | dictsort(true) if {values} is mapping else {values} or []) -%}}"
        begin += _set(value, f"({item}[1] if {values} is mapping else {item})")
        if len(node.variables) == 2:
            begin += _set(self._declared(node.variables[0]), f"({item}[0] if {values} is mapping else loop.index0)")
        if node.variables:
            begin += _set(self._declared(node.variables[-1]), value)
        body = self._block(node.body, value)
        otherwise = self._block(node.otherwise, self._dots[-1])
        return begin + body + ("{%- else -%}" + otherwise if node.otherwise else "") + "{%- endfor -%}"

    def _block(self, nodes: Sequence[Node], dot: str | None) -> str:
        self._scopes.append({})
        self._dots.append(dot)
        try:
            return self._all(nodes)
        finally:
            self._scopes.pop()
            self._dots.pop()

    def _value(self, value: Expression) -> str:
        if isinstance(value, Literal):
            return _quoted(value.value) if isinstance(value.value, str) else _constant(value.value)
        if isinstance(value, Reference):
            return self._reference(value)
        if value.name not in _FUNCTIONS:
            raise refused(self._source, value.at, f"the function {value.name} is not supported")
        fewest, most, write = _FUNCTIONS[value.name]
        if not fewest <= len(value.arguments) <= most:
            raise refused(self._source, value.at, f"{value.name} does not take {len(value.arguments)} arguments")
        if value.name == "json" and _is_arguments(value.arguments[0]):  # they may be JSON already
            return f"go_print({self._value(value.arguments[0])})"
        if value.name == "printf":
            return "(" + write(self._pattern(value), *(self._value(one) for one in value.arguments[1:])) + ")"
        return "(" + write(*(self._value(one) for one in value.arguments)) + ")"

    def _pattern(self, call: Call) -> str:
        first = call.arguments[0]
        text = first.value if isinstance(first, Literal) else None
        if not isinstance(text, str) or any(verb[:1] not in "sdv" for verb in text.replace("%%", "").split("%")[1:]):
            raise refused(self._source, call.at, "printf is supported only with %s, %d and %v")
        return _quoted(text.replace("%v", "%s"))

    def _reference(self, reference: Reference) -> str:
        fields = list(reference.fields)
        if not isinstance(reference.start, str):
            found = self._value(reference.start)
        else:
            root = reference.start == "$" or (reference.start == "." and self._dots[-1] is None)
            if root and not fields:
                raise refused(self._source, reference.at, f"{reference.start!r} without a field is not supported here")
            if root:
                name = fields.pop(0)
                if name not in _ROOT:
                    raise refused(self._source, reference.at, f"the field .{name} is not supported")
                found = _ROOT[name]
            elif reference.start == ".":
                found = str(self._dots[-1])
            else:
                found = self._variable(reference.start, reference.at)
        for name in fields:
            if name not in _FIELDS:
                raise refused(self._source, reference.at, f"the field .{name} is not supported")
            found = f"({found} or {{}}).get('{_FIELDS[name]}')"
        return found


def _is_arguments(value: Expression) -> bool:
    return isinstance(value, Reference) and value.fields[-1:] == ("Arguments",)


def _set(name: str, value: str) -> str:
    return "{%- set " + name + " = " + value + " -%}"


def _constant(value: float | None) -> str:
    return "none" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    """A Jinja string literal that contains nothing that looks like a tag."""
    return json.dumps(text, ensure_ascii=False).replace("{", "\\x7b").replace("}", "\\x7d").replace("'", "\\x27")
