"""Reads and writes Modelfiles, in the syntax of Ollama's parser/parser.go.

    # a comment, on its own line
    FROM qwen3:0.6b                       a model's name or the path of a GGUF file; a second FROM is the projector
    PARAMETER temperature 0.7             see `parameters`
    SYSTEM \"\"\"text in triple or single double-quotes
    may span lines\"\"\"                    up to a line that ends with the same quotes; there are no escapes
    TEMPLATE                              in Jinja or Go's template language
    MESSAGE, LICENSE                      repeatable; roles are system, user and assistant

Instructions may come in any case and order. Line endings become \\n. Every error names the line. Opens no file and no
model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter
from localllm.registry.adapters.names import checked_scale
from localllm.registry.go_template.translating import to_jinja
from localllm.registry.making.parameters import Parameters, RawParameter, collect, lines_of
from localllm.types import Message, SamplingParams

MAX_MODELFILE_BYTES = 4 * 1024 * 1024
ROLES = ("system", "user", "assistant")
INSTRUCTIONS = (
    "FROM", "PARAMETER", "SYSTEM", "TEMPLATE", "MESSAGE", "LICENSE", "REQUIRES", "RENDERER", "PARSER", "ADAPTER",
    "DRAFT",
)  # fmt: skip

_REFUSED = {
    "draft": "DRAFT is not supported; remove it, and name the draft model with --draft when serving",
}
_ONCE = {"system": "system", "template": "template", "requires": "requires", "renderer": "renderer", "parser": "parser"}
_WITHOUT_EFFECT = {
    "requires": "REQUIRES names a version of Ollama",
    "renderer": "RENDERER is built into Ollama; the model's own chat template is used",
    "parser": "PARSER is built into Ollama; the model's own chat template is used",
}
_WORD = re.compile(r"([^\s]+)(?:[ \t]+|$)")
_GO_ACTION = re.compile(
    r"\{\{-?\s*(?:[.$]|/\*|(?:if|range|else|end|with|define|template|block|break|continue)\b|"
    r"(?:and|or|not|eq|ne|lt|le|gt|ge|len|index|slice|print|printf|println|json|currentDate)\s+[.$\"(])"
)


class Modelfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A parsed Modelfile."""

    bases: tuple[str, ...]
    """FROM: the model, then optionally its projector."""
    params: SamplingParams = SamplingParams()
    stop: tuple[str, ...] = ()
    ctx: int | None = None
    system: str | None = None
    template: str | None = None
    """Jinja; its syntax has not been checked."""
    messages: tuple[Message, ...] = ()
    license_text: tuple[str, ...] = ()
    requires: str | None = None
    renderer: str | None = None
    parser: str | None = None
    adapter: str | None = None
    """The path of a LoRA adapter."""
    adapter_scale: float = 1.0

    @property
    def notices(self) -> tuple[str, ...]:
        """Instructions that are accepted and have no effect here."""
        return tuple(f"{text}: it has no effect here" for name, text in _WITHOUT_EFFECT.items() if getattr(self, name))


def is_go_template(text: str) -> bool:
    """Whether it is a Go template, as Ollama's are. One with `{%` is Jinja."""
    return "{%" not in text and _GO_ACTION.search(text) is not None


def parse_modelfile(source: str | bytes) -> Modelfile:
    """Raises `InvalidParameter` with the line at fault and the remedy."""
    bases: list[str] = []
    given: list[RawParameter] = []
    texts: dict[str, str] = {}
    messages: list[Message] = []
    licenses: list[str] = []
    adapter: tuple[str, float] | None = None
    for one in _instructions(_text(source)):
        if one.name in _REFUSED:
            raise _wrong(one.line, _REFUSED[one.name], one.name)
        if one.name == "from":
            bases.append(_not_empty(one))
        elif one.name == "adapter":
            if adapter is not None:
                raise _wrong(one.line, "ADAPTER appears twice; combine adapters by name: MODEL+ONE+OTHER", "adapter")
            adapter = _adapter(one)
        elif one.name == "parameter":
            given.append(RawParameter(one.word, one.value, f"Modelfile, line {one.line}"))
        elif one.name == "message":
            messages.append(_message(one))
        elif one.name == "license":
            licenses.append(_not_empty(one))
        elif one.name in texts:
            raise _wrong(one.line, f"{one.name.upper()} appears twice; remove one", one.name)
        else:
            texts[one.name] = one.value
            if one.name == "template":
                texts[one.name] = checked_template(one.value, f"Modelfile, line {one.line}: this TEMPLATE")
    if not bases:
        raise InvalidParameter("the Modelfile has no FROM; begin it with FROM and a model", param="from")
    found = collect(given)
    return Modelfile(
        bases=tuple(bases),
        params=found.params,
        stop=found.stop,
        ctx=found.ctx,
        messages=tuple(messages),
        license_text=tuple(licenses),
        adapter=None if adapter is None else adapter[0],
        adapter_scale=1.0 if adapter is None else adapter[1],
        **{field: texts[name] for name, field in _ONCE.items() if name in texts},
    )


def format_modelfile(modelfile: Modelfile) -> str:
    """Text that `parse_modelfile` reads back unchanged. Raises `InvalidParameter` for values that a Modelfile cannot
    express."""
    lines = [f"FROM {quoted(base, 'FROM')}" for base in modelfile.bases]
    if modelfile.adapter is not None:
        lines.append(f"ADAPTER {modelfile.adapter} {modelfile.adapter_scale:g}")
    parameters = Parameters(params=modelfile.params, stop=modelfile.stop, ctx=modelfile.ctx)
    lines += [f"PARAMETER {name} {quoted(value, name)}" for name, value in lines_of(parameters)]
    for name, field in _ONCE.items():
        value = getattr(modelfile, field)
        if value is not None:
            lines.append(f"{name.upper()} {quoted(value, name.upper())}")
    lines += [f"MESSAGE {message.role} {quoted(message.content, 'MESSAGE')}" for message in modelfile.messages]
    lines += [f"LICENSE {quoted(text, 'LICENSE')}" for text in modelfile.license_text]
    return "\n".join(lines) + "\n"


def _adapter(one: _Instruction) -> tuple[str, float]:
    """FILE [scale]"""
    text = _not_empty(one)
    file, _, last = text.rpartition(" ")
    try:
        scale = float(last) if file else None
    except ValueError:
        scale = None
    if scale is None:
        return text, 1.0
    try:
        return file.rstrip(), checked_scale(last)
    except InvalidParameter as error:
        raise _wrong(one.line, error.message, "adapter") from None


class _Instruction(NamedTuple):
    line: int
    name: str
    """In lower case."""
    word: str
    """A parameter's name or a message's role."""
    value: str


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        number, rest = at + 1, lines[at].lstrip()
        if not rest or rest.startswith("#"):
            at += 1
            continue
        name, rest = _next_word(rest)
        if name.upper() not in INSTRUCTIONS:
            close = difflib.get_close_matches(name.upper(), INSTRUCTIONS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the instructions are {', '.join(INSTRUCTIONS)}"
            raise _wrong(number, f"{name[:60]!r} is not an instruction; {hint} (a text of several lines needs quotes)")
        word = ""
        if name.lower() in ("parameter", "message"):
            word, rest = _next_word(rest)
        value, at = _value(lines, at, rest)
        yield _Instruction(number, name.lower(), word, value)


def _next_word(text: str) -> tuple[str, str]:
    match = _WORD.match(text)
    return (match[1], text[match.end() :]) if match else ("", "")


def _value(lines: list[str], at: int, rest: str) -> tuple[str, int]:
    """The value that begins with `rest` on line `at`, and the index of the line after it."""
    first = rest.strip()
    quotes = next((quotes for quotes in ('"""', '"') if first.startswith(quotes)), None)
    if quotes is None:
        return first, at + 1
    size = len(quotes)
    if first.endswith(quotes) and len(first) >= 2 * size:
        return first[size:-size], at + 1
    pieces = [rest.lstrip()[size:]]
    for end in range(at + 1, len(lines)):
        line = lines[end].rstrip()
        if line.endswith(quotes):
            return "\n".join([*pieces, line[:-size]]), end + 1
        pieces.append(lines[end])
    raise _wrong(at + 1, f"the text that begins with {quotes} is not closed; end its last line with {quotes}")


def quoted(text: str, what: str) -> str:
    """The text in the first form of quoting that is read back unchanged. Raises `InvalidParameter`, naming `what`, if
    there is none."""
    text = _with_plain_line_ends(text)
    for quotes in ("", '"', '"""'):
        lines = f"{quotes}{text}{quotes}".split("\n")
        try:
            value, end = _value(lines, 0, lines[0])
        except InvalidParameter:
            continue
        if value == text and end == len(lines) and (quotes or text):
            return "\n".join(lines)
    raise InvalidParameter(
        f'a Modelfile cannot hold this text of {what}: one of its lines ends with """; change that line',
        param=what.lower(),
    )


def _text(source: str | bytes) -> str:
    if len(source) > MAX_MODELFILE_BYTES:
        raise InvalidParameter(f"the Modelfile is longer than {MAX_MODELFILE_BYTES:,} bytes; shorten it")
    if isinstance(source, bytes):
        encoding = "utf-16" if source.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        try:
            source = source.decode(encoding)
        except UnicodeDecodeError as error:
            raise InvalidParameter(
                f"the Modelfile is not UTF-8 text (byte {error.start:,}); save it as UTF-8"
            ) from error
    return _with_plain_line_ends(source)


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def checked_template(text: str, what: str) -> str:
    """The template in Jinja, translated if it is a Go template. Raises `InvalidParameter` that begins with `what`."""
    if is_go_template(text):
        try:
            return to_jinja(text)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"{what} cannot be translated to Jinja: {error.message}; write it in Jinja, or remove it to use the "
                "model's own template",
                param="template",
            ) from error
    if text and "{{" not in text and "{%" not in text:
        raise InvalidParameter(f"{what} has no place for messages; write it in Jinja, or remove it", param="template")
    return text


def _message(one: _Instruction) -> Message:
    if one.word.lower() not in ROLES:
        raise _wrong(one.line, f"MESSAGE needs a role, one of {', '.join(ROLES)}, not {one.word[:60]!r}", "message")
    return Message(one.word.lower(), one.value)


def _not_empty(one: _Instruction) -> str:
    if not one.value.strip():
        raise _wrong(one.line, f"{one.name.upper()} needs a value", one.name)
    return one.value


def _wrong(line: int, reason: str, param: str = "modelfile") -> InvalidParameter:
    return InvalidParameter(f"Modelfile, line {line}: {reason}", param=param)
