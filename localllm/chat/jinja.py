"""Jinja as chat templates expect it: a sandbox with the filters, globals and dates of Transformers and llama.cpp.

Knows nothing of messages. Limits neither time nor memory, which is left to the process that it runs in.
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

from localllm.errors import TemplateError

MAX_OUTPUT_CHARS = 16 * 1024 * 1024


def apply(template: str, **variables: object) -> str:
    """Render a template with these variables (`messages`, `tools`, `enable_thinking` ...). Raises `TemplateError`."""
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
    """`{% generation %} ... {% endgeneration %}` marks training data; here it only renders its content.

    It has its own scope, as in Transformers: variables set inside are not visible outside.
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
    """Today's date in llama.cpp's variables. Without them, some templates write a date long past."""
    now = datetime.datetime.now()
    return {"date_string": now.strftime("%d %b %Y"), "datetime": now.strftime("%b %d %Y %H:%M:%S GMT")}


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)
