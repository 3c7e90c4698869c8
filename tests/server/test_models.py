"""/v1/models: what a model can do, how long its conversations may be, and how its answers are read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from localllm.types import ChatFormat, LoadedModel
from localllm.types.structures import Tags
from tests.server.conftest import Served
from tests.server.fake_runtime import tiny_model

CHATTING = tiny_model()
NO_TEMPLATE = replace(CHATTING, info=replace(CHATTING.info, chat_templates={"rerank": "x"}))
THINKING = replace(
    CHATTING,
    format=ChatFormat(
        name="qwen3", origin="known", thought=Tags("<think>", "</think>"), thinking="switchable", shows_tools=True
    ),
)


def listed(served: Served, model: LoadedModel) -> dict[str, Any]:
    served.runtime.models = [model]
    entry: dict[str, Any] = served.http.get(f"/v1/models/{model.id}").json()
    assert served.http.get("/v1/models").json()["data"][0] == entry
    return entry


@pytest.mark.parametrize(
    ("model", "capabilities", "outputs"),
    [
        (CHATTING, ["completion", "chat", "tools", "structured_outputs"], ["text"]),
        (THINKING, ["completion", "chat", "tools", "thinking", "structured_outputs"], ["text"]),
        (NO_TEMPLATE, ["completion", "structured_outputs"], ["text"]),
        (replace(CHATTING, slots=0, pooling="mean"), ["embedding"], ["embeddings"]),
        (replace(CHATTING, slots=0, pooling="rank"), ["rerank"], ["scores"]),
    ],
)
def test_a_loaded_model_says_what_it_can_do(
    served: Served, model: LoadedModel, capabilities: list[str], outputs: list[str]
) -> None:
    entry = listed(served, model)
    assert entry["capabilities"] == capabilities
    assert entry["architecture"] == {"name": "llama", "input_modalities": ["text"], "output_modalities": outputs}
    assert ("chat_format" in entry) is ("chat" in capabilities)


def test_the_context_is_the_one_that_requests_have_here(served: Served) -> None:
    entry = listed(served, replace(CHATTING, ctx=256))
    assert (entry["ctx"], entry["context_length"], entry["max_model_len"]) == (256, 256, 256)
    assert entry["max_context_length"] == 512, "what it was trained for"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            replace(CHATTING, format=ChatFormat(note="calls are not found")),
            {
                "name": "generic",
                "origin": "generic",
                "note": "calls are not found",
                "thinking": "never",
                "reasoning_effort": False,
                "tools": "system_message",
            },
        ),
        (
            THINKING,
            {
                "name": "qwen3",
                "origin": "known",
                "thinking": "switchable",
                "reasoning_effort": False,
                "tools": "template",
            },
        ),
    ],
)
def test_a_chat_model_says_how_its_answers_are_read(served: Served, model: LoadedModel, told: dict[str, Any]) -> None:
    assert listed(served, model)["chat_format"] == told


def test_of_a_model_that_is_not_loaded_what_its_file_says_is_told(served: Served) -> None:
    other = served.http.get("/v1/models").json()["data"][1]
    assert (other["id"], other["loaded"], other["size_bytes"]) == ("other:1b", False, 99)
    assert other["capabilities"] == ["completion", "chat", "tools", "structured_outputs"]
    assert (other["max_context_length"], other["meta"]["n_ctx_train"]) == (512, 512)
    assert not {"ctx", "context_length", "max_model_len", "slots"} & set(other), "it has none yet"
    assert "n_ctx" not in other["meta"]
    assert other["status"] == {"value": "unloaded", "args": []}
