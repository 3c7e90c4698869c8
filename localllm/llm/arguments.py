"""Checks the arguments of the Python API before anything is sent: each error names the argument at fault.

Knows nothing about how requests are answered.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from localllm.chat.surrogates import REPLACED, whole_text
from localllm.errors import InvalidParameter
from localllm.llm.keywords import (
    ChatArguments,
    CompleteArguments,
    EmbedArguments,
    LoadArguments,
    RerankArguments,
    ScoreArguments,
    TranscribeArguments,
    WaitArguments,
)
from localllm.llm.messages import Messages, to_conversation
from localllm.llm.schemas import SchemaShape
from localllm.llm.tools import toolbox
from localllm.settings import config
from localllm.settings.config import Settings
from localllm.system.cancel import Cancel
from localllm.types import GenerationRequest, Rendering, SamplingParams, Speculative
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.types.load_options import LoadOptions
from localllm.types.mismatches import mismatch

T = TypeVar("T")
THINKING = ("enable_thinking", "thinking")
"""The two names under which chat templates have this switch."""
Texts = Sequence[str] | Sequence[Sequence[int]]
"""Texts, or arrays of token ids."""


def settings_from(settings: Settings | None, home: str | Path | None) -> Settings:
    """`settings` as given; else the `config.toml` of `home` alone; else this user's configuration."""
    if settings is not None and home is not None:
        raise InvalidParameter("give settings or home, not both; Settings has a home of its own", param="home")
    if settings is not None:
        _of_type("settings", settings, Settings, "a localllm.Settings")
        return settings
    if home is None:
        return config.load()
    if not isinstance(home, str | os.PathLike) or not str(home):
        raise InvalidParameter(f"home must be the path of a folder, got {_shown(home)}", param="home")
    return config.load({"home": Path(home).expanduser().absolute()}, environ={})


def load_overrides(settings: Settings, asked: LoadArguments) -> dict[str, Any]:
    """The load options that do not come from the settings: those that `options` sets, and arguments of their own."""
    options = asked["options"]
    given = {} if options is None else _set_fields(_of_type("options", options, LoadOptions, "LoadOptions"))
    own = {**asked, **{name: _file(name, asked[name]) for name in ("draft", "mmproj")}}
    given |= {
        name: value
        for name, value in own.items()
        if name in LoadOptions.__struct_fields__ and value is not None and (value != "auto" or name == "draft")
    }
    whole = _checked("options", settings.load_options(), LoadOptions, given)
    return {name: getattr(whole, name) for name in given}


def _file(name: Literal["draft", "mmproj"], given: str | Path | None) -> str | None:
    if given is not None and (not isinstance(given, str | os.PathLike) or not str(given)):
        takes = "a name or a path" if name == "draft" else "the path of a projector"
        raise InvalidParameter(f"{name} must be {takes}, got {_shown(given)}", param=name)
    return None if given is None else os.fspath(given)


def chat_request(messages: Messages, shape: SchemaShape[Any] | None, asked: ChatArguments) -> GenerationRequest:
    """The request of `chat`. Raises `InvalidParameter`."""
    return answering(chat_base(shape, asked), messages)


def chat_base(shape: SchemaShape[Any] | None, asked: ChatArguments) -> GenerationRequest:
    """The request of `chat` without messages, the same for many. Raises `InvalidParameter`."""
    given = toolbox(asked["tools"], asked["tool_choice"], parallel=asked["parallel_tool_calls"])
    return GenerationRequest(
        rendering=rendering(asked["thinking"], given.definitions), calling=given.calling, **_generation(shape, asked)
    )


def answering(base: GenerationRequest, messages: Messages) -> GenerationRequest:
    """The request for an answer to these messages. Raises `InvalidParameter`."""
    said = to_conversation(messages)
    return replace(base, messages=said.messages, media=said.files, notes=said.notes)


def rendering(thinking: bool | None, tools: str = "") -> Rendering:
    """How messages are rendered. Raises `InvalidParameter`."""
    if thinking is None:
        return Rendering(tools=tools)
    switch = _of_type("thinking", thinking, bool, "True, False or None")
    return Rendering(variables=json.dumps(dict.fromkeys(THINKING, switch)), tools=tools)


def completion_request(prompt: str, shape: SchemaShape[Any] | None, asked: CompleteArguments) -> GenerationRequest:
    """The request of `complete`. Raises `InvalidParameter`."""
    if not isinstance(prompt, str):
        raise InvalidParameter(f"prompt must be a string, got {_shown(prompt)}", param="prompt")
    return continuing(completion_base(shape, asked), prompt)


def completion_base(shape: SchemaShape[Any] | None, asked: CompleteArguments) -> GenerationRequest:
    """The request of `complete` without a prompt, the same for many. Raises `InvalidParameter`."""
    if asked["thinking_budget"] is not None and shape is None:
        raise InvalidParameter(
            "thinking_budget bounds the thought before an answer to messages; use chat(), or leave it out",
            param="thinking_budget",
        )
    return GenerationRequest(**_generation(shape, asked))


def continuing(base: GenerationRequest, prompt: str) -> GenerationRequest:
    """The request for a continuation of this text."""
    whole = whole_text(prompt)
    return replace(base, prompt=whole, notes=() if whole == prompt else (f"prompt: {REPLACED}",))


def score_request(prompt: str | Messages, asked: ScoreArguments) -> GenerationRequest:
    """What `score` asks for each text, without the text. Raises `InvalidParameter`."""
    fields = {
        "params": SamplingParams(prompt_logprobs=0),
        "cache_prompt": _of_type("cache_prompt", asked["cache_prompt"], bool, "True or False"),
        "batch": _of_type("batch", asked["batch"], bool, "True or False"),
        **_waiting(asked),
    }
    if isinstance(prompt, str):
        return GenerationRequest(prompt=whole_text(prompt), **fields)
    said = to_conversation(prompt)
    return GenerationRequest(
        messages=said.messages, media=said.files, notes=said.notes, rendering=rendering(thinking=False), **fields
    )


def to_texts(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Raises `InvalidParameter`."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise InvalidParameter(f"{name} must be a list of texts, got {_shown(texts)}", param=name)
    found = tuple(texts)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise InvalidParameter(f"each of them is a text, got {_shown(text)}", param=f"{name}[{number}]")
    return found


def embedding_request(texts: Texts, asked: EmbedArguments) -> EmbeddingRequest:
    """The request of `embed`. Raises `InvalidParameter`."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise InvalidParameter("give a list of texts, not one text", param="input")
    items = tuple(texts)
    as_text = tuple(item for item in items if isinstance(item, str))
    tokens = tuple(to_tokens("input", item) for item in items if not isinstance(item, str))
    if as_text and tokens:
        raise InvalidParameter("give texts or token arrays, not both in one list", param="input")
    return EmbeddingRequest(
        texts=None if tokens else as_text,
        tokens=tokens or None,
        dimensions=None if (dimensions := asked["dimensions"]) is None else _integer("dimensions", dimensions),
        normalize=bool(asked["normalize"]),
        truncate=bool(asked["truncate"]),
        **_waiting(asked),
    )


def rerank_request(query: str, documents: Sequence[str], asked: RerankArguments) -> RerankRequest:
    """The request of `rerank`. Raises `InvalidParameter`."""
    if not isinstance(query, str):
        raise InvalidParameter(f"query must be a string, got {_shown(query)}", param="query")
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise InvalidParameter("give a list of documents, not one text", param="documents")
    items = tuple(documents)
    for number, document in enumerate(items):
        if not isinstance(document, str):
            raise InvalidParameter(f"each document is a text, got {_shown(document)}", param=f"documents[{number}]")
    return RerankRequest(query=query, documents=items, truncate=bool(asked["truncate"]), **_waiting(asked))


def transcript_request(asked: TranscribeArguments) -> dict[str, Any]:
    """The fields of the request for each part of a sound, besides the prompt. Raises `InvalidParameter`."""
    given = {"temperature": 0.0, "max_tokens": asked["max_tokens"]}
    return {"params": _checked("params", SamplingParams(), SamplingParams, given), **_waiting(asked)}


def to_tokens(name: str, tokens: object) -> tuple[int, ...]:
    """The token ids as Python integers. Raises `InvalidParameter`."""
    if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
        raise InvalidParameter(f"{name} must be a list of token ids, got {_shown(tokens)}", param=name)
    return tuple(_integer(name, token) for token in tokens)


def to_top_n(top_n: int | None) -> int | None:
    """The checked number. Raises `InvalidParameter`."""
    if top_n is not None and _integer("top_n", top_n) < 1:
        raise InvalidParameter(f"top_n must be at least 1, or None for all, got {top_n}", param="top_n")
    return top_n


def check_cancel(cancel: Cancel | None) -> Cancel | None:
    """The checked `cancel`. Raises `InvalidParameter`."""
    return None if cancel is None else _of_type("cancel", cancel, Cancel, "a localllm.Cancel")


def check_callback(name: str, callback: Callable[..., object] | None) -> None:
    """Raises `InvalidParameter` for anything but a function or None."""
    if callback is not None and not callable(callback):
        raise InvalidParameter(f"{name} must be a function, got {_shown(callback)}", param=name)


def _generation(shape: SchemaShape[Any] | None, asked: CompleteArguments) -> dict[str, Any]:
    budget = asked["thinking_budget"]
    return {
        "params": _sampling(asked),
        "structure": None if shape is None else shape.structure,
        "thinking_budget": None if budget is None else _integer("thinking_budget", budget),
        "cache_prompt": _of_type("cache_prompt", asked["cache_prompt"], bool, "True or False"),
        "batch": _of_type("batch", asked["batch"], bool, "True or False"),
        "prediction": _prediction(asked["prediction"]),
        "speculative": _speculative(asked["speculative"]),
        **_waiting(asked),
    }


def _sampling(asked: CompleteArguments) -> SamplingParams:
    """`params` with the fields that are keywords of the call."""
    params = SamplingParams() if asked["params"] is None else asked["params"]
    params = _of_type("params", params, SamplingParams, "SamplingParams")
    direct = {
        name: value for name, value in asked.items() if name in SamplingParams.__struct_fields__ and value is not None
    }
    for name in direct.keys() & _set_fields(params).keys():
        raise InvalidParameter(f"{name} is given twice, by itself and in params; leave one out", param=name)
    return _checked("params", params, SamplingParams, direct)


def _prediction(text: str | None) -> str | None:
    return None if text is None else _of_type("prediction", text, str, "a string or None")


def _speculative(given: bool | Speculative | None) -> Speculative:
    if given is None or isinstance(given, bool):
        return Speculative.switched(given)
    limits: Speculative = _of_type("speculative", given, Speculative, "True, False, a localllm.Speculative or None")
    return _checked("speculative", limits, Speculative, {"is_named": True})


def _waiting(asked: WaitArguments) -> dict[str, Any]:
    timeout = asked["timeout"]
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not math.isfinite(timeout) or timeout <= 0
    ):
        raise InvalidParameter(
            f"timeout must be a positive number of seconds, or None, got {_shown(timeout)}", param="timeout"
        )
    return {"timeout_s": timeout, "priority": _integer("priority", asked["priority"])}


def _checked(name: str, value: msgspec.Struct, kind: type[T], changed: Mapping[str, Any]) -> T:
    """The changed struct with its types checked: constructing one in Python checks only its ranges."""
    try:
        return msgspec.convert({**msgspec.to_builtins(value), **changed}, kind)
    except TypeError as error:
        raise InvalidParameter(f"{name} has a value of a wrong type: {error}", param=name) from error
    except msgspec.ValidationError as error:
        path, what = mismatch(error)
        param = re.split(r"[.\[]", path)[0] or name
        raise InvalidParameter(f"{path or name} {what}", param=param) from error


def _set_fields(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ from their default, as values of Python's own types."""
    default = type(struct)()
    values = msgspec.to_builtins(struct)
    return {name: value for name, value in values.items() if getattr(struct, name) != getattr(default, name)}


def _integer(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)  # NumPy's integers too
    except TypeError:
        pass
    raise InvalidParameter(f"{name} must be an integer, got {_shown(value)}", param=name)


def _of_type(name: str, value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise InvalidParameter(f"{name} must be {what}, got {_shown(value)}", param=name)
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
