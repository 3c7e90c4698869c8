"""Clients and validators of others, imported by the first test that uses one.

`from tests.later import openai` costs nothing; `import openai` takes a second, in each process of a test run. A name
that annotations alone use is imported below `if TYPE_CHECKING`.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import pydantic

if TYPE_CHECKING:
    import anthropic as anthropic
    import jsonschema as jsonschema
    import ollama as ollama
    import openai as openai
    import schemathesis as schemathesis
else:

    class Later:
        """Stands for a module; its parts are those of the module."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, part: str) -> Any:
            if part.startswith(("_", "pytest")):  # pytest looks for marks at all names of a test's module
                raise AttributeError(part)
            return getattr(importlib.import_module(self._name), part)

    anthropic, jsonschema, ollama, openai, schemathesis = map(
        Later, ("anthropic", "jsonschema", "ollama", "openai", "schemathesis")
    )


@functools.cache
def response_event() -> pydantic.TypeAdapter[Any]:
    """Validates an event of a response's stream as OpenAI's client describes it."""
    return pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
