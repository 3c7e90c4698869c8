"""The lists of models in every API: Anthropic's by its official client, LM Studio's, and what all must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from localllm.errors import LoadFailed
from localllm.planning.projector_plan import Companion, Projector
from localllm.server.answers.catalog import Entry
from localllm.server.apis.anthropic.models import Page, model_page
from localllm.types import AudioEncoder, ChatFormat, ProjectorInfo, VisionEncoder
from localllm.types.states import AvailableModel
from localllm.types.structures import Tags
from tests.later import anthropic, openai
from tests.server.conftest import Served
from tests.server.fake_runtime import tiny_model

THINKING = replace(
    tiny_model(),
    ctx=256,
    format=ChatFormat(
        name="qwen3", origin="known", thought=Tags("<think>", "</think>"), thinking="switchable", shows_tools=True,
        efforts=True,
    ),
)  # fmt: skip
HEADERS = {"anthropic-version": "2023-06-01"}


@pytest.fixture
def claude(served: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0, timeout=10) as client:
        yield client


def test_anthropics_client_lists_the_models_with_the_context_that_they_have(
    served: Served, claude: anthropic.Anthropic
) -> None:
    served.runtime.models = [THINKING]
    page = claude.models.list()
    assert [each.id for each in page] == ["tiny", "other:1b"]
    first = page.data[0]
    assert (first.type, first.display_name, first.created_at.year, first.lifecycle) == ("model", "Tiny", 2023, "active")
    assert (first.max_input_tokens, first.max_tokens) == (256, 256)
    assert first.capabilities is not None
    assert first.capabilities.thinking.supported
    assert first.capabilities.effort.high.supported
    assert first.capabilities.structured_outputs.supported
    assert not first.capabilities.image_input.supported
    assert not first.capabilities.server_tools.web_search.supported
    assert page.data[1].max_input_tokens == 512, "of one that is not loaded what it was trained for"


def test_anthropics_client_turns_pages_both_ways(served: Served, claude: anthropic.Anthropic) -> None:
    served.runtime.others = [
        AvailableModel(id=f"m{number}:1b", size_bytes=1, created_unix_s=1_600_000_000) for number in range(5)
    ]
    ids = ["tiny", *(f"m{number}:1b" for number in range(5))]
    assert [each.id for each in claude.models.list(limit=2)] == ids
    assert [each.id for each in claude.models.list(limit=2, before_id="m3:1b").data] == ["m1:1b", "m2:1b"]
    last = claude.models.list(limit=4, after_id="m1:1b")
    assert ([each.id for each in last.data], last.has_more) == (ids[3:], False)
    assert (last.first_id, last.last_id) == ("m2:1b", "m4:1b")
    for each in claude.models.list(limit=1000):
        assert claude.models.retrieve(each.id).id == each.id


@pytest.mark.parametrize("total", range(6))
@pytest.mark.parametrize("limit", range(1, 7))
def test_pages_forwards_and_backwards_hold_every_model_once(total: int, limit: int) -> None:
    entries = [Entry(f"m{number}", 0, None, None, None) for number in range(total)]
    ids = [entry.id for entry in entries]
    page = model_page(entries, Page(limit))
    seen = [each.id for each in page.data]
    while page.has_more:
        page = model_page(entries, Page(limit, after_id=page.last_id))
        assert page.data
        seen += [each.id for each in page.data]
    assert seen == ids
    if total:
        page = model_page(entries, Page(limit, before_id=ids[-1]))
        back = [each.id for each in page.data]
        while page.has_more:
            page = model_page(entries, Page(limit, before_id=page.first_id))
            back = [each.id for each in page.data] + back
        assert back == ids[:-1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=many", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number from 1 to 1000"),
        ("after_id=nobody", "after_id: no model is called 'nobody' here"),
        ("after_id=tiny&before_id=tiny", "mutually exclusive"),
    ],
)
def test_a_page_that_there_cannot_be_is_refused_in_anthropics_shape(served: Served, query: str, said: str) -> None:
    response = served.http.get(f"/v1/models?{query}", headers=HEADERS)
    assert response.status_code == 400
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert said in response.json()["error"]["message"]


def test_a_model_that_is_not_there_is_an_error_that_each_client_knows(
    served: Served, claude: anthropic.Anthropic
) -> None:
    with pytest.raises(anthropic.NotFoundError, match="no model is called 'nobody' here"):
        claude.models.retrieve("nobody")
    with (
        openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.NotFoundError, match="no model is called 'nobody' here"),
    ):
        client.models.retrieve("nobody")
    response = served.http.get("/api/v0/models/nobody")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_anthropics_clients_without_a_key_are_told_so_in_their_shape(guarded: Served) -> None:
    response = guarded.http.get("/v1/models", headers=HEADERS)
    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")
    assert guarded.http.get("/v1/models").json()["error"]["code"] == "invalid_api_key"


def test_lm_studios_first_list_says_what_is_loaded_with_which_context(served: Served) -> None:
    served.runtime.models = [THINKING]
    served.runtime.others = [
        AvailableModel(id="hf.co/somebody/thing:Q4_K_M", size_bytes=99, created_unix_s=1, quant="Q4_K_M")
    ]
    first, second = served.http.get("/api/v0/models").json()["data"]
    assert first == {
        "id": "tiny",
        "object": "model",
        "type": "llm",
        "publisher": "",
        "arch": "llama",
        "compatibility_type": "gguf",
        "quantization": "Q8_0",
        "state": "loaded",
        "max_context_length": 512,
        "loaded_context_length": 256,
        "capabilities": ["tool_use"],
    }
    assert (second["state"], second["publisher"], "loaded_context_length" in second) == (
        "not-loaded",
        "somebody",
        False,
    )
    assert second["capabilities"] == ["tool_use"]
    assert served.http.get("/api/v0/models/hf.co/somebody/thing:Q4_K_M").json() == second


def test_lm_studios_second_list_has_the_instances_that_are_loaded(served: Served) -> None:
    served.runtime.models = [THINKING]
    first, second = served.http.get("/api/v1/models").json()["models"]
    assert first == {
        "type": "llm",
        "publisher": "",
        "key": "tiny",
        "display_name": "Tiny",
        "architecture": "llama",
        "quantization": {"name": "Q8_0", "bits_per_weight": 36.81},
        "size_bytes": 5678,
        "params_string": "1.23K",
        "loaded_instances": [{"id": "tiny", "config": {"context_length": 256, "parallel": 4, "flash_attention": True}}],
        "max_context_length": 512,
        "format": "gguf",
        "capabilities": {"vision": False, "trained_for_tool_use": True},
        "description": None,
    }
    assert second["loaded_instances"] == []


@pytest.mark.parametrize("pooling", ["mean", "rank"])
def test_a_model_that_only_embeds_or_ranks_is_no_llm_anywhere(served: Served, pooling: str) -> None:
    served.runtime.models = [replace(tiny_model(), slots=0, pooling=pooling, embedding_ctx=128)]
    first = served.http.get("/api/v0/models").json()["data"][0]
    assert (first["type"], "capabilities" in first, first["loaded_context_length"]) == ("embeddings", False, 128)
    assert served.http.get("/api/v1/models").json()["models"][0]["type"] == "embedding"
    assert served.http.get("/v1/models").json()["data"][0]["max_model_len"] == 128


def test_every_list_names_the_same_models_and_the_same_context(served: Served) -> None:
    served.runtime.models = [THINKING]
    ours = served.http.get("/v1/models").json()["data"]
    theirs = served.http.get("/v1/models", headers=HEADERS).json()["data"]
    studio = served.http.get("/api/v0/models").json()["data"]
    keys = served.http.get("/api/v1/models").json()["models"]
    names = [[each["id"] for each in found] for found in (ours, theirs, studio)]
    assert names == [["tiny", "other:1b"]] * 3
    assert [each["key"] for each in keys] == names[0]
    assert ours[0]["meta"]["n_ctx"] == ours[0]["max_model_len"] == ours[0]["context_length"] == 256
    assert theirs[0]["max_input_tokens"] == studio[0]["loaded_context_length"] == 256
    assert keys[0]["loaded_instances"][0]["config"]["context_length"] == 256
    assert ours[0]["meta"] == {
        "n_vocab": 300, "n_ctx": 256, "n_ctx_train": 512, "n_embd": 64, "n_params": 1234, "size": 5678, "ftype": "Q8_0"
    }  # fmt: skip


def test_a_file_that_cannot_be_read_is_listed_all_the_same(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: AvailableModel) -> None:
        raise LoadFailed("the header is cut")

    monkeypatch.setattr(served.runtime, "described", broken)
    other = served.http.get("/v1/models").json()["data"][1]
    assert (other["id"], other["loaded"], other["size_bytes"]) == ("other:1b", False, 99)
    assert not {"capabilities", "architecture", "max_context_length", "meta"} & set(other)
    assert served.http.get("/v1/models", headers=HEADERS).json()["data"][1]["capabilities"] is None
    other = served.http.get("/api/v0/models/other:1b").json()
    assert (other["quantization"], other["arch"], other["max_context_length"]) == ("Q4_K_M", None, None)


PROJECTOR = ProjectorInfo(
    name=None,
    file_type="F16",
    size_bytes=1,
    num_parameters=2,
    width=64,
    vision=VisionEncoder(type="gemma3", image_size=896, patch_size=14, max_rows=256, span_rows=256, span_patches=4096),
    audio=AudioEncoder(type="voxtral", sample_rate_hz=16_000, rows_per_s=6.2, span_rows=187),
)


def test_every_list_says_what_a_model_reads_loaded_or_not(served: Served) -> None:
    served.runtime.models = [replace(THINKING, projector=PROJECTOR)]
    served.runtime.companion = Companion(Projector(Path("mmproj.gguf"), PROJECTOR))
    with httpx.Client(base_url=served.url, timeout=10) as client:

        def got(path: str, **body: str) -> Any:
            reply = client.post(path, json=body) if body else client.get(path)
            assert reply.status_code == 200, reply.text
            return reply.json()

        for entry in got("/v1/models")["data"]:
            assert entry["architecture"]["input_modalities"] == ["text", "image", "video", "audio"]
            assert {"vision", "audio"} <= {*entry["capabilities"]}
        assert all("multimodal" in each["capabilities"] for each in got("/v1/models")["models"])
        for name in ("tiny", "other:1b"):
            assert got(f"/props?model={name}")["modalities"] == {"vision": True, "video": True, "audio": True}
            shown = got("/api/show", model=name)
            assert {"vision", "audio"} <= {*shown["capabilities"]}
            assert "clip" in shown["details"]["families"]
            assert shown["projector_info"]["clip.vision.projector_type"] == "gemma3"
        assert all({"vision", "audio"} <= {*each["capabilities"]} for each in got("/api/tags")["models"])
        assert {each["type"] for each in got("/api/v0/models")["data"]} == {"vlm"}
        assert all(each["capabilities"]["vision"] for each in got("/api/v1/models")["models"])
        listed = client.get("/v1/models", headers=HEADERS).json()["data"]
        assert all(each["capabilities"]["image_input"]["supported"] for each in listed)
