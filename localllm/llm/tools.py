"""Tools that a model may call: dicts in the format of OpenAI's chat API, or Python functions with type hints.

Nothing is called here; that is up to the application. Knows nothing about the syntax of calls.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

import msgspec

from localllm.errors import InvalidParameter, clipped
from localllm.llm.typed_schemas import Schema, schema_of
from localllm.types import Calling, Function

Tool = Mapping[str, Any] | Callable[..., object]
Tools = Sequence[Tool]

_CHOICES = ("auto", "required", "none")


class Toolbox(NamedTuple):
    """The tools of a request: which ones the answer may call, and their definitions for the prompt, as JSON."""

    calling: Calling | None = None
    definitions: str = ""


def toolbox(tools: Tools | None, choice: str = "auto", *, parallel: bool = True) -> Toolbox:
    """The checked tools. `choice`: `auto`, `required`, `none`, or the tool to call. Raises `InvalidParameter`."""
    if not isinstance(choice, str):
        raise InvalidParameter(f"tool_choice must be a string, got {clipped(repr(choice))}", param="tool_choice")
    if not isinstance(parallel, bool):
        raise InvalidParameter("parallel_tool_calls must be True or False", param="parallel_tool_calls")
    if tools is not None and (isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable)):
        raise InvalidParameter("give a list of tools", param="tools")
    made = [_declared(tool, f"tools[{number}]") for number, tool in enumerate(tools or ())]
    functions = tuple(function for function, _ in made)
    names = [function.name for function in functions]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidParameter(f"two tools are named {clipped(name)!r}", param=f"tools[{number}]")
    if choice not in _CHOICES and choice not in names:
        raise InvalidParameter(
            f"tool_choice is auto, required, none or the name of a tool, got {clipped(choice)!r}", param="tool_choice"
        )
    if not functions:
        if choice == "required":
            raise InvalidParameter("tool_choice is required but there are no tools; give some", param="tool_choice")
        return Toolbox()
    if choice in _CHOICES:
        calling = Calling(functions=functions, choice=choice, parallel=parallel)  # type: ignore[arg-type]  # one of them
    else:
        named = tuple(function for function in functions if function.name == choice)
        calling = Calling(functions=named, choice="required", parallel=parallel)
    return Toolbox(calling, json.dumps([shown for _, shown in made], ensure_ascii=False))


def _declared(tool: object, path: str) -> tuple[Function, dict[str, Any]]:
    if isinstance(tool, Mapping):
        return _of_dict(tool, path)
    if callable(tool):
        return _of_python(tool, path)
    raise InvalidParameter("a tool is a dict in the format of OpenAI's API, or a Python function", param=path)


def _of_dict(tool: Mapping[str, Any], path: str) -> tuple[Function, dict[str, Any]]:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, Mapping):
        raise InvalidParameter('a tool is {"type": "function", "function": {"name": ..., ...}}', param=path)
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name:
        raise InvalidParameter("a function needs a name", param=f"{path}.function.name")
    where = f"{path}.function.parameters"
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidParameter("parameters must be a JSON Schema, as a dict", param=where)
    try:
        written = "" if parameters is None else json.dumps(parameters, ensure_ascii=False, allow_nan=False)
        shown = json.loads(json.dumps(tool, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"the tool cannot be written as JSON: {error}", param=path) from error
    return Function(name=name, parameters=written, is_strict=function.get("strict") is True, param=where), shown


def _of_python(function: Callable[..., object], path: str) -> tuple[Function, dict[str, Any]]:
    """Its schema comes from the types of its parameters, its description from the first line of its docstring."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InvalidParameter("a function needs a name to be called by; use def instead of lambda", param=path)
    try:
        parameters = parameters_of(function, name)
    except InvalidParameter as error:
        raise InvalidParameter(f"{name}: {error.message.removeprefix('schema: ')}", param=path) from error
    shown: dict[str, Any] = {"name": name}
    description = (inspect.getdoc(function) or "").partition("\n")[0]
    if description:
        shown["description"] = description
    shown["parameters"] = parameters
    declared = Function(
        name=name,
        parameters=json.dumps(parameters, ensure_ascii=False),
        is_strict=True,
        param=f"{path}.function.parameters",
    )
    return declared, {"type": "function", "function": shown}


def parameters_of(function: Callable[..., object], name: str) -> Schema:
    """The JSON Schema of a function's keyword arguments. Raises `InvalidParameter`."""
    try:
        signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidParameter(f"its parameters cannot be inspected: {error}") from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidParameter(f"{parameter} cannot be passed by name")
        kind = hints.get(parameter.name, Any)
        fields.append((parameter.name, kind) if parameter.default is parameter.empty else (parameter.name, kind, None))
    try:
        whole = schema_of(msgspec.defstruct(name, fields, kw_only=True))
    except TypeError as error:
        raise InvalidParameter(str(error)) from error
    definitions = whole["$defs"]
    parameters: Schema = definitions.pop(whole["$ref"].rpartition("/")[2])
    return {**parameters, "$defs": definitions} if definitions else parameters
