"""text-embeddings-inference's endpoints: shapes, fields and errors as its clients read them."""

from __future__ import annotations

import httpx
import msgspec
import numpy as np
import pytest

from localllm.errors import ContextLengthExceeded, InvalidParameter, LocalLLMError, QueueFull, WorkerCrashed
from localllm.server.apis.tei.requests import EmbedBody
from localllm.types.embeddings import EmbeddingRequest
from tests.server.conftest import Served
from tests.server.fake_runtime import VECTOR, tiny_model


def _post(served: Served, path: str = "/embed", /, **fields: object) -> httpx.Response:
    return served.http.post(path, json={"inputs": "Hi"} | fields)


def _vector(number: int) -> list[float]:
    vector: list[float] = np.array([number + VECTOR[0], *VECTOR[1:]], np.float32).tolist()
    return vector


def _numbers(found: object) -> list[object]:
    numbers: list[object] = np.array(found, np.float32).tolist()
    return numbers


@pytest.mark.parametrize(
    ("inputs", "asked"),
    [
        ("Hi", EmbeddingRequest(texts=("Hi",))),
        (["Hi", "there"], EmbeddingRequest(texts=("Hi", "there"))),
        ([5, 6], EmbeddingRequest(tokens=((5, 6),))),
        (["Hi", [5, 6]], EmbeddingRequest(tokens=((256, 72, 105), (5, 6)))),
    ],
)
def test_texts_and_tokens_become_an_array_of_vectors(served: Served, inputs: object, asked: EmbeddingRequest) -> None:
    found = _post(served, inputs=inputs).json()
    assert _numbers(found) == [_vector(number) for number in range(len(found))]
    assert served.runtime.embedded == [asked]


def test_every_field_is_honoured(served: Served) -> None:
    response = _post(
        served, truncate=True, normalize=False, dimensions=2, truncation_direction="Right", prompt_name=None
    )
    assert _numbers(response.json()) == [_vector(0)[:2]]
    asked = EmbeddingRequest(texts=("Hi",), truncate=True, normalize=False, dimensions=2)
    assert served.runtime.embedded == [asked]
    assert "x-localllm-ignored" not in response.headers
    known = {"inputs", "truncate", "truncation_direction", "prompt_name", "normalize", "dimensions"}
    assert not known - set(EmbedBody.__struct_fields__) - set(EmbedBody.fates.refused)


def test_what_was_cut_is_said_in_a_header(served: Served) -> None:
    served.runtime.truncated = (1,)
    assert _post(served, inputs=["a", "b"], truncate=True).headers["x-localllm-truncated"] == "1"


def test_without_pooling_there_is_a_vector_for_each_token(served: Served) -> None:
    refused = _post(served, "/embed_all")
    assert refused.status_code == 424
    assert refused.json()["error_type"] == "Backend"
    assert "with pooling none" in refused.json()["error"]
    served.runtime.models = [msgspec.structs.replace(tiny_model(), pooling="none")]
    found = _post(served, "/embed_all", inputs=["a", "bc"]).json()
    assert [_numbers(item) for item in found] == [[_vector(0)], [_vector(1)] * 2]
    assert served.runtime.embedded[-1].normalize is False
    refused = _post(served)
    assert (refused.status_code, "/embed_all" in refused.json()["error"]) == (424, True)


def test_sentences_are_as_near_as_the_cosine_says(served: Served) -> None:
    inputs = {"source_sentence": "a", "sentences": ["b", "c"]}
    found = _post(served, "/similarity", inputs=inputs, parameters={"truncate": True}).json()
    vectors = np.array([_vector(number) for number in range(3)], np.float32)
    assert found == pytest.approx((vectors[1:] @ vectors[0]).tolist())
    assert served.runtime.embedded == [EmbeddingRequest(texts=("a", "b", "c"), truncate=True)]


@pytest.mark.parametrize(
    ("inputs", "parameters", "said"),
    [
        ({"source_sentence": "a", "sentences": []}, {}, "inputs.sentences must not be an empty array"),
        ({"source_sentence": "a"}, {}, "inputs.sentences is missing"),
        ({"source_sentence": "a", "sentences": ["b"]}, {"prompt_name": "query"}, "parameters.prompt_name"),
        ({"source_sentence": "a", "sentences": ["b"]}, {"truncation_direction": "left"}, "truncation_direction"),
    ],
)
def test_a_similarity_that_cannot_be_is_refused(served: Served, inputs: object, parameters: object, said: str) -> None:
    response = _post(served, "/similarity", inputs=inputs, parameters=parameters)
    assert (response.status_code, response.json()["error_type"]) == (422, "Validation")
    assert said in response.json()["error"]


@pytest.mark.parametrize("path", ["/predict", "/embed_sparse"])
def test_what_no_gguf_model_does_is_said_with_what_to_use(served: Served, path: str) -> None:
    response = _post(served, path)
    assert (response.status_code, response.json()["error_type"]) == (424, "Backend")
    assert "POST /" in response.json()["error"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": None}, "inputs"),
        ({"inputs": []}, "inputs must not be an empty array"),
        ({"inputs": ["a", ""]}, "inputs[1] must not be empty"),
        ({"inputs": ["a"] * (2049)}, "inputs takes at most 2048 texts at a time (--max-texts), got 2049"),
        ({"prompt_name": "query"}, "prompt_name is not supported"),
        ({"truncation_direction": "Left"}, "truncation_direction is not supported"),
        ({"normalize": "yes"}, "normalize"),
        ({"dimensions": 0}, "dimensions"),
    ],
)
def test_what_is_wrong_is_a_422_that_names_the_field(served: Served, change: dict[str, object], said: str) -> None:
    response = _post(served, **change)
    assert (response.status_code, set(response.json())) == (422, {"error", "error_type"})
    assert response.json()["error_type"] == "Validation"
    assert said in response.json()["error"]
    assert served.runtime.embedded == []


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ContextLengthExceeded("input 0 is too long", param="input", item=0), 413, "Validation"),
        (InvalidParameter("tiny ranks documents and has no vectors", param="model"), 424, "Backend"),
        (QueueFull("full", retry_after_s=3), 429, "Overloaded"),
        (WorkerCrashed("it died"), 503, "Unhealthy"),
    ],
)
def test_every_error_has_teis_status_and_type(served: Served, error: LocalLLMError, status: int, kind: str) -> None:
    served.runtime.refusal = error
    response = _post(served)
    assert (response.status_code, response.json()["error_type"]) == (status, kind)
    if status == 413:
        assert response.json()["error"] == "inputs is too long"


def test_a_key_is_asked_for_in_teis_shape(guarded: Served) -> None:
    response = guarded.http.post("/embed", json={"inputs": "Hi"})
    assert (response.status_code, set(response.json())) == (401, {"error", "error_type"})
    response = guarded.http.get("/embed", headers={"x-api-key": "sesame"})
    assert (response.status_code, response.json()["error_type"]) == (405, "Validation")


@pytest.mark.parametrize(
    ("pooling", "kind"),
    [
        ("mean", {"embedding": {"pooling": "mean"}}),
        ("rank", {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}}),
    ],
)
def test_info_says_what_is_served_and_its_limits(served: Served, pooling: str, kind: object) -> None:
    served.runtime.models = [msgspec.structs.replace(tiny_model(), slots=0, pooling=pooling, embedding_ctx=128)]
    told = served.http.get("/info").json()
    assert told["model_id"] == "tiny"
    assert told["model_type"] == kind
    assert (told["max_input_length"], told["max_client_batch_size"], told["auto_truncate"]) == (128, 2048, False)
    assert {"model_sha", "model_dtype", "max_concurrent_requests", "max_batch_tokens", "max_batch_requests",
            "tokenization_workers", "version", "sha", "docker_label"} < set(told)  # fmt: skip


def test_info_of_a_model_that_is_not_loaded_loads_it(served: Served) -> None:
    assert served.http.get("/info?model=other:1b").json()["model_id"] == "other:1b"
    assert [name for name, *_ in served.runtime.loads] == ["other:1b"]
    response = served.http.get("/info?model=nobody")
    assert (response.status_code, response.json()["error_type"]) == (404, "Validation")
