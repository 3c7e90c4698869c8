"""`/v1/embeddings`: the official `openai` client, every field of the request, and what is not in any field."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import ContextLengthExceeded, QueueFull, WorkerCrashed
from localllm.server.answers.decimals import short_decimals
from localllm.server.apis.embeddings.encoding import embedding_list
from localllm.server.requests.marked_prompts import MARKER
from localllm.settings.config import Settings
from localllm.types import Media
from localllm.types.embeddings import EmbeddingRequest, Embeddings
from tests.documents import made
from tests.later import openai
from tests.pictures import LARGE, SMALL, data_url
from tests.server.conftest import Served, running
from tests.server.fake_runtime import VECTOR, tiny_model

PDF = base64.b64encode(made.pdf(["a"])).decode()


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def _post(served: Served, **fields: object) -> httpx.Response:
    return served.http.post("/v1/embeddings", json={"model": "tiny", "input": "Hi"} | fields)


def _error(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


def _vector(number: int) -> list[float]:
    vector: list[float] = np.array([number + VECTOR[0], *VECTOR[1:]], np.float32).tolist()
    return vector


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_the_openai_client_gets_every_texts_vector_in_either_form(
    served: Served, client: openai.OpenAI, form: dict[str, Any]
) -> None:
    answer = client.embeddings.create(model="tiny", input=["Hi", "there ✓"], user="me", **form)
    assert (answer.object, answer.model) == ("list", "tiny")
    assert [(item.object, item.index) for item in answer.data] == [("embedding", 0), ("embedding", 1)]
    for number, item in enumerate(answer.data):
        vector: Any = item.embedding
        if isinstance(vector, str):
            vector = np.frombuffer(base64.b64decode(vector), "<f4").tolist()
        assert np.array_equal(np.array(vector, np.float32), np.array(_vector(number), np.float32))
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (11, 11)
    assert served.runtime.embedded == [EmbeddingRequest(texts=("Hi", "there ✓"))]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("Hi", EmbeddingRequest(texts=("Hi",))),
        ([5, 6], EmbeddingRequest(tokens=((5, 6),))),
        ([[5, 6], [7]], EmbeddingRequest(tokens=((5, 6), (7,)))),
        ([5, "a", 6], EmbeddingRequest(tokens=((5, 97, 6),))),
        (["a", 5, "b"], EmbeddingRequest(tokens=((256, 97, 5, 98),))),
        (["ab", [5, 6]], EmbeddingRequest(tokens=((256, 97, 98), (5, 6)))),
        ({"prompt_string": "Hi"}, EmbeddingRequest(texts=("Hi",))),
        (
            ["a", {"content": [{"type": "text", "text": "b "}, {"type": "text", "text": "c"}]}],
            EmbeddingRequest(texts=("a", "b c")),
        ),
    ],
)
def test_a_text_its_tokens_or_several_of_them_may_be_given(
    served: Served, client: openai.OpenAI, given: Any, asked: EmbeddingRequest
) -> None:
    answer = client.embeddings.create(model="tiny", input=given)
    assert [item.embedding for item in answer.data] == [_vector(number) for number in range(len(answer.data))]
    assert served.runtime.embedded == [asked]


def test_fewer_dimensions_are_the_first_ones(served: Served, client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="tiny", input="Hi", dimensions=2)
    assert answer.data[0].embedding == _vector(0)[:2]
    assert served.runtime.embedded[0].dimensions == 2


def test_extensions_reach_the_model(served: Served) -> None:
    fields = {"normalize": False, "truncate": True, "priority": -2, "timeout": 1.5, "keep_alive": "2m"}
    assert _post(served, **fields).status_code == 200
    asked = EmbeddingRequest(texts=("Hi",), normalize=False, truncate=True, priority=-2, timeout_s=1.5)
    assert (served.runtime.embedded, served.runtime.keep_alives) == ([asked], [120.0])


def test_what_llama_server_and_vllm_call_them_is_understood(served: Served) -> None:
    assert _post(served, embd_normalize=-1, truncate_prompt_tokens=-1).status_code == 200
    assert _post(served, embd_normalize=2, truncate=False).status_code == 200
    first, second = served.runtime.embedded
    assert (first.normalize, first.truncate, second.normalize, second.truncate) == (False, True, True, False)


def test_the_servers_time_limit_holds_where_the_request_brings_none() -> None:
    with running(Settings(port=0, grace_s=0.1, request_timeout_s=30, queue_timeout_s=4)) as served:
        assert _post(served).status_code == _post(served, timeout=2).status_code == 200
        rank = {"model": "tiny", "query": "q", "documents": ["d"]}
        assert served.http.post("/v1/rerank", json=rank).status_code == 200
        assert [request.timeout_s for request in served.runtime.embedded] == [30, 2]
        assert [request.queue_timeout_s for request in served.runtime.embedded] == [4, 4]
        (ranked,) = served.runtime.ranked
        assert (ranked.timeout_s, ranked.queue_timeout_s) == (30, 4)


def test_what_was_cut_is_said_in_the_answer_and_in_a_header(served: Served) -> None:
    assert "truncated" not in _post(served).json()
    served.runtime.truncated = (1, 2)
    response = _post(served, input=["a", "b", "c"], truncate=True)
    assert response.json()["truncated"] == [1, 2]
    assert response.headers["x-localllm-truncated"] == "2"


@pytest.mark.parametrize("form", ["float", "base64"])
def test_without_pooling_an_item_is_an_array_of_vectors(served: Served, form: str) -> None:
    served.runtime.models = [msgspec.structs.replace(tiny_model(), pooling="none")]
    items = [item["embedding"] for item in _post(served, input=["a", "bc"], encoding_format=form).json()["data"]]
    if form == "base64":
        items = [[np.frombuffer(base64.b64decode(text), "<f4").tolist() for text in item] for item in items]
    assert [np.array(item, np.float32).tolist() for item in items] == [[_vector(0)], [_vector(1)] * 2]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": 3}, "model"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": [[1], []]}, "input[1]"),
        ({"input": [3, [4]]}, "input[1]"),
        ({"input": {}}, "input"),
        ({"input": {"content": "Hi"}}, "input.content"),
        ({"input": {"content": []}}, "input"),
        ({"input": ["a", {"content": [{"type": "text"}]}]}, "input[1].content[0].text"),
        ({"input": [1.5]}, "input[0]"),
        ({"input": [-1]}, "input[0]"),
        ({"input": [[1, 2**63]]}, "input[0][1]"),
        ({"input": ["a"] * (2049)}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"normalize": 1}, "normalize"),
        ({"normalize": True, "embd_normalize": -1}, "normalize"),
        ({"truncate": False, "truncate_prompt_tokens": -1}, "truncate"),
        ({"priority": 1001}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"keep_alive": "soon"}, "keep_alive"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(served: Served, change: dict[str, object], param: str) -> None:
    response = _post(served, **change)
    assert _error(response) == (400, "invalid_parameter", param)
    assert param in response.json()["error"]["message"]
    assert served.runtime.embedded == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("embd_normalize", 1),
        ("truncate_prompt_tokens", 64),
        ("truncation_side", "left"),
        ("messages", [{"role": "user", "content": "Hi"}]),
        ("task", "retrieval.query"),
        ("embed_dtype", "float16"),
        ("add_special_tokens", False),
    ],
)
def test_a_field_that_would_change_the_vectors_is_refused_by_name(served: Served, field: str, value: object) -> None:
    response = _post(served, **{field: value})
    assert _error(response) == (400, "unsupported_parameter", field)
    assert field in response.json()["error"]["message"]
    assert served.runtime.embedded == []


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt_string": "<__media__>", "multimodal_data": ["AAAA"]}, "input.multimodal_data[0]"),
        ({"prompt_string": "no marker", "multimodal_data": ["AAAA"]}, "input.multimodal_data"),
        ({"multimodal_data": ["AAAA"]}, "input.prompt_string"),
        ([{"content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}], "input[0].content[0]"),
        ([{"content": [{"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}]}], "input[0].content[0]"),
        ({"content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]}, "input.content[0]"),
        ({"content": [{"type": "input_video"}]}, "input.content[0]"),
        ({"content": [{"type": "file", "file": {"file_data": PDF}}]}, "input.content[0]"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
def test_pictures_and_sounds_that_cannot_be_read_are_refused_by_where_they_stand(
    served: Served, path: str, given: object, param: str
) -> None:
    response = served.http.post(path, json={"input": given})
    assert response.status_code == 400
    assert param in response.text
    assert served.runtime.embedded == []


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings", "/embed"])
def test_a_picture_among_texts_is_embedded_in_both_forms(served: Served, path: str) -> None:
    served.runtime.reads = frozenset({"image", "audio"})
    for data in (SMALL, LARGE):
        bare = base64.b64encode(data).decode()
        image = {"type": "image_url", "image_url": {"url": data_url(data)}}
        items = [
            {"content": [{"type": "text", "text": "a "}, image, {"type": "text", "text": " b"}]},
            {"prompt_string": f"a {MARKER} b", "multimodal_data": [bare]},
            "plain",
            {"content": [image]},
        ]
        response = served.http.post(path, json={"inputs" if path == "/embed" else "input": items})
        assert response.status_code == 200, response.text
        asked = served.runtime.embedded[-1]
        assert asked.texts is None
        assert [file.data for file in asked.media] == [data]
        shown = [tuple("#" if isinstance(part, Media) else part for part in parts) for parts in asked.parts or ()]
        assert shown == [("a ", "#", " b"), ("a ", "#", " b"), ("plain",), ("#",)]
    mixed = served.http.post("/v1/embeddings", json={"input": [{"content": [image]}, [1, 2]]})
    assert (mixed.status_code, "requests of their own" in mixed.text) == (400, True)


def test_text_in_base64_is_embedded_as_text(served: Served) -> None:
    bare = base64.b64encode(LARGE).decode()
    assert _post(served, input=[bare, {"prompt_string": bare}]).status_code == 200
    assert served.runtime.embedded[-1].texts == (bare, bare)


def test_llama_servers_own_endpoints_give_an_array_with_an_array_of_vectors_each(served: Served) -> None:
    for path, body in (("/embedding", {"content": ["Hi", "there"]}), ("/embeddings", {"input": ["Hi", "there"]})):
        made = served.http.post(path, json=body).json()
        assert [set(item) for item in made] == [{"index", "embedding"}] * 2
        assert [item["index"] for item in made] == [0, 1]
        assert [np.array(item["embedding"], np.float32).tolist() for item in made] == [[_vector(0)], [_vector(1)]]
    assert served.runtime.embedded == [EmbeddingRequest(texts=("Hi", "there"))] * 2


def test_llama_servers_own_endpoints_without_pooling_give_vectors_as_they_are(served: Served) -> None:
    served.runtime.models = [msgspec.structs.replace(tiny_model(), pooling="none")]
    (item,) = served.http.post("/embedding", json={"content": "abc"}).json()
    assert np.array(item["embedding"], np.float32).tolist() == [_vector(0)] * 3
    assert served.runtime.embedded == [EmbeddingRequest(texts=("abc",), normalize=False)]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": "a", "content": "b"}, "content"),
        ({"input": []}, "input"),
        ({"content": [[]]}, "content[0]"),
        ({"input": "a", "encoding_format": "base64"}, "encoding_format"),
        ({"input": "a", "embd_normalize": 1}, "embd_normalize"),
    ],
)
def test_llama_servers_own_endpoints_name_the_field_at_fault(
    served: Served, body: dict[str, object], param: str
) -> None:
    response = served.http.post("/embedding", json=body)
    assert response.status_code == 400
    assert param in response.json()["error"]["message"]


def test_an_empty_text_is_left_to_the_model_where_llama_server_does_so(served: Served) -> None:
    assert served.http.post("/embedding", json={"content": ["", "a"]}).status_code == 200
    assert served.runtime.embedded == [EmbeddingRequest(texts=("", "a"))]


def test_a_field_that_is_nobodys_is_ignored_and_named_in_a_header(served: Served) -> None:
    neutral = {"truncation_side": "right", "add_special_tokens": True, "user": "me", "dimensions": None}
    assert "x-localllm-ignored" not in _post(served, **neutral).headers
    assert _post(served, zeal=3).headers["x-localllm-ignored"] == "zeal"


@pytest.mark.parametrize(
    ("given", "param", "details", "ours"),
    [
        (["a", "b"], "input", {"item": 1}, "input[1]"),
        ("a", "input", {"item": 0}, "input"),
        ([[1], [2]], "input", {"item": 1}, "input[1]"),
        ([1, 2], "input", {"item": 0}, "input"),
        (["a", "b"], "input", {}, "input"),
        ("a", "dimensions", {}, "dimensions"),
    ],
)
def test_what_the_model_refuses_is_named_as_the_request_names_it(
    served: Served, given: object, param: str, details: dict[str, Any], ours: str
) -> None:
    name = f"{param} {details['item']}" if details else param
    served.runtime.refusal = ContextLengthExceeded(f"{name} is too long", param=param, **details)
    response = _post(served, input=given)
    assert _error(response) == (400, "context_length_exceeded", ours)
    assert response.json()["error"]["message"] == f"{ours} is too long"


def test_other_errors_have_their_own_status(served: Served) -> None:
    served.runtime.refusal = QueueFull("full", retry_after_s=3)
    response = _post(served)
    assert (_error(response), response.headers["retry-after"]) == ((429, "queue_full", None), "3")
    served.runtime.refusal = WorkerCrashed("it died")
    assert _error(_post(served)) == (503, "worker_crashed", None)
    assert _error(_post(served, model="other")) == (404, "model_not_found", "model")


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/embeddings", {"model": "tiny", "input": "Hi"}), ("/rerank", {"query": "q", "texts": ["a"]})],
)
def test_a_client_that_goes_away_takes_its_work_with_it(served: Served, path: str, body: object) -> None:
    served.runtime.accepts = False
    with (
        httpx.Client(base_url=served.url, timeout=httpx.Timeout(10, read=0.2), trust_env=False) as http,
        pytest.raises(httpx.ReadTimeout),
    ):
        http.post(path, json=body)
    assert served.runtime.asking.is_set()
    assert served.runtime.gave_up.wait(5)


def test_a_key_has_as_many_of_these_as_of_answers() -> None:
    with running(Settings(port=0, grace_s=0.1, api_keys="k", requests_per_minute_per_key=3)) as served:
        served.http.headers["x-api-key"] = "k"
        rank = {"query": "q", "texts": ["a"]}
        assert _post(served).status_code == 200
        assert served.http.post("/rerank", json=rank).status_code == 200
        assert served.http.post("/v1/reranking", json=rank).status_code == 200
        assert _post(served).status_code == served.http.post("/reranking", json=rank).status_code == 429


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_every_number_comes_back_as_it_was_and_short(values: list[float]) -> None:
    exact = np.array(values, np.float32)
    made = Embeddings(data=exact.tobytes(), dimensions=len(values), num_vectors=(1,), num_tokens=(3,))
    (item,) = json.loads(embedding_list(made, "m", "float"))["data"]
    assert np.array_equal(np.array(item["embedding"], np.float32), exact)
    usual = exact[(np.abs(exact) > 1e-12) & (np.abs(exact) < 1e7)]
    for value in short_decimals(usual).tolist():
        assert len(Decimal(repr(value)).normalize().as_tuple().digits) <= 9
