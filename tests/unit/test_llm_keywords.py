"""The keyword arguments of `LLM` and `AsyncLLM`: declared once, complete, typed, and readable in `help`."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import pytest

from localllm import (
    LLM,
    AsyncLLM,
    AsyncParsedStream,
    AsyncSidecar,
    AsyncStream,
    Chat,
    InvalidParameter,
    LoadOptions,
    ParsedChat,
    ParsedStream,
    SamplingParams,
    Settings,
    Sidecar,
    Stream,
    Structure,
)  # fmt: skip
from localllm.llm.arguments import completion_request, load_overrides
from localllm.llm.keywords import COMPLETE, LOAD, CompleteArguments, SamplingArguments


@dataclass
class Person:
    name: str


async def check_types(llm: LLM, other: AsyncLLM) -> None:
    """For mypy; never called."""
    assert_type(llm.chat([], temperature=0, max_tokens=4), Chat)
    assert_type(llm.chat([], stream=True, tools=[]), Stream)
    assert_type(llm.chat([], schema=Person), ParsedChat[Person])
    assert_type(llm.complete("", schema=Person, stream=True, stop=["x"]), ParsedStream[Person])
    assert_type(llm.complete("", schema=Structure.choice("a")), ParsedChat[Any])
    assert_type(llm.tokenize(""), list[int])
    assert_type(llm.rerank("", [], top_n=1), list[tuple[int, float]])
    assert_type(await other.chat([], temperature=0), Chat)
    assert_type(await other.chat([], schema=Person, stream=True), AsyncParsedStream[Person])
    assert_type(await other.complete("", stream=True), AsyncStream)
    assert_type(await other.complete("", schema={}), ParsedChat[Any])
    llm.chat([], temprature=0)  # type: ignore[call-overload]
    llm.embed([], timeout="5")  # type: ignore[arg-type]
    LLM("", ctx="big")  # type: ignore[arg-type]


def sampling(**given: Any) -> SamplingParams:
    asked: CompleteArguments = COMPLETE.filled("complete", given)  # type: ignore[arg-type]
    return completion_request("x", None, asked).params


def test_each_field_of_the_sampling_params_is_a_keyword() -> None:
    assert tuple(SamplingArguments.__annotations__) == SamplingParams.__struct_fields__


def test_sampling_keywords_complete_the_params() -> None:
    assert sampling() == SamplingParams()
    assert sampling(temperature=0, stop=["a"], seed=None) == SamplingParams(temperature=0.0, stop=("a",))
    assert sampling(params=SamplingParams(top_k=3), min_tokens=2) == SamplingParams(top_k=3, min_tokens=2)


@pytest.mark.parametrize("given", [{"top_k": 4}, {"top_k": 3}])
def test_a_field_that_is_given_twice_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="top_k is given twice") as caught:
        sampling(params=SamplingParams(top_k=3, temperature=1), **given)
    assert caught.value.param == "top_k"


def overrides(settings: Settings, **given: Any) -> dict[str, Any]:
    return load_overrides(settings, LOAD.filled("LLM", given))  # type: ignore[arg-type]


def test_settings_for_loading_count_unless_options_or_arguments_say_otherwise() -> None:
    settings = Settings(slots=2, kv_ram_mb=0)
    assert overrides(settings) == {}
    assert overrides(settings, options=LoadOptions(ctx=512)) == {"ctx": 512}
    options = LoadOptions(ctx=512, kv_disk_mb=64, gpu_layers=3)
    assert overrides(settings, options=options, ctx=256, gpu_layers="auto", draft=Path("d.gguf")) == {
        "ctx": 256,
        "kv_disk_mb": 64,
        "gpu_layers": 3,
        "draft": "d.gguf",
    }


@pytest.mark.parametrize(("blocking", "awaited"), [(LLM, AsyncLLM), (Sidecar, AsyncSidecar)])
def test_both_kinds_take_the_same_arguments_and_explain_them(blocking: type, awaited: type) -> None:
    names = {"__init__", *(name for name in vars(awaited) if not name.startswith("_"))} & vars(blocking).keys()
    if blocking is Sidecar:
        names -= {"__init__"}
    for name in names:
        ours, theirs = getattr(blocking, name), getattr(awaited, name)
        if callable(ours):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
            assert inspect.getdoc(ours)


def test_help_shows_and_explains_each_keyword() -> None:
    shown = pydoc.plain(pydoc.render_doc(LLM.chat))
    for text in ("tool_choice: 'str' = 'auto'", "-> 'Chat | Stream'", "prediction: text that", "temperature=0"):
        assert text in shown
    assert "slots: requests computed concurrently" in pydoc.plain(pydoc.render_doc(LLM))
    assert "on_exit: called with" in pydoc.plain(pydoc.render_doc(Sidecar.start))
