"""Renders a model's Jinja chat template like Transformers (`apply_chat_template`), in jinja2's immutable sandbox.

The sandbox prevents access to Python's internals; it bounds neither time nor memory, so this runs only in the worker's
template child. Knows nothing of tokens.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
from msgspec.structs import replace

from localllm.chat.formats.known import HERMES
from localllm.chat.probing import abilities, tool_variables
from localllm.chat.request import RenderedText, RenderRequest
from localllm.chat.shaping import shape
from localllm.errors import TemplateError
from localllm.types import Message

MAX_OUTPUT_CHARS = 16 * 1024 * 1024


_END = "\ue0c1\ue0c0\ue0c2"
"""Marks where the text of a message to be continued ends; occurs in no text."""


def render(request: RenderRequest) -> RenderedText:
    """The prompt. Raises `TemplateError` with the template's own message where it has one.

    Tools that a template does not show, or whose schemas it cannot read, are described in the system message.
    """
    tools = _parsed(request.rendering.tools) if request.rendering.tools else None
    if not tools:
        return _rendered(request)
    refusal: TemplateError | None = None
    if abilities(request.template).shows_tools:
        try:
            return _rendered(request, shown=tools)
        except TemplateError as error:
            refusal = error
    try:
        return _rendered(request, described=tools)
    except TemplateError as error:
        raise refusal or error from None


def _rendered(request: RenderRequest, *, shown: list[Any] | None = None, described: Sequence[Any] = ()) -> RenderedText:
    """With tools that the template shows, or that are described to the model."""
    rest = ""
    messages = request.messages
    if request.continues:
        messages, rest = _marked(messages)
    can = abilities(request.template)
    turns, notes = shape(messages, can, words=request.words or HERMES, tools=described)
    given = request.rendering
    text = apply(
        request.template,
        **{
            **_parsed(given.variables or "{}"),
            "messages": turns,
            "bos_token": request.bos_token,
            "eos_token": request.eos_token,
            "add_generation_prompt": request.add_generation_prompt and not request.continues,
            # Transformers gives these to every template: an undefined variable would pass for "is not none".
            **tool_variables(shown, can.tools),
            "documents": _parsed(given.documents) if given.documents else None,
        },
    )
    if request.continues:
        text, mark, _ = text.rpartition(_END)
        if not mark:
            raise TemplateError("the chat template leaves out the message that is to be continued", param="messages")
    return RenderedText(text + rest, notes)


def _marked(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], str]:
    """With a mark where the last one ends, and the blanks after it, which many templates would strip."""
    last = messages[-1]
    if not last.content and last.thought:
        thought = last.thought.rstrip()
        return (*messages[:-1], replace(last, thought=thought + _END)), last.thought[len(thought) :]
    text = last.content.rstrip()
    parts = (*last.parts[:-1], last.parts[-1].rstrip() + _END) if last.parts else ()
    return (*messages[:-1], replace(last, content=text + _END, parts=parts)), last.content[len(text) :]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"the input of the chat template is not JSON: {error}", param="messages") from error


def apply(template: str, **variables: object) -> str:
    """A template's text with arbitrary variables (`messages`, `tools`, `enable_thinking` ...). Raises
    `TemplateError`."""
    try:
        text = _compile(template).render({**_dates(), **variables})
    except MemoryError:
        raise TemplateError("the chat template ran out of memory on these messages", param="messages") from None
    except RecursionError:
        raise TemplateError("the chat template nests too deeply", param="messages") from None
    except Exception as error:
        raise TemplateError(f"the chat template failed: {error}", param="messages") from error
    if len(text) > MAX_OUTPUT_CHARS:
        raise TemplateError(
            f"the chat template wrote {len(text)} characters; at most {MAX_OUTPUT_CHARS} are allowed", param="messages"
        )
    return text


@functools.lru_cache(maxsize=8)
def _compile(source: str) -> jinja2.Template:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


class _Generation(jinja2.ext.Extension):
    """`{% generation %} ... {% endgeneration %}` marks what a model is trained on; here it only renders its content.

    It has its own scope, as in Transformers: what is set inside is not visible outside.
    """

    tags: ClassVar[set[str]] = {"generation"}  # type: ignore[misc]

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Transformers' `tojson`: not HTML-escaped, unlike jinja2's own."""
    pair = None if separators is None else (separators[0], separators[1])
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=pair, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _dates() -> dict[str, str]:
    """Today's date, for templates that ask for it, as llama.cpp gives it: some write one long past where it is
    missing."""
    now = datetime.datetime.now()
    return {"date_string": now.strftime("%d %b %Y"), "datetime": now.strftime("%b %d %Y %H:%M:%S GMT")}


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)
