"""`/v1/rerank` and its other names: Jina's shape, TEI's shape, what a score is, every field."""

from __future__ import annotations

import math

import httpx
import msgspec
import pytest

from localllm.errors import ContextLengthExceeded
from localllm.types.embeddings import RerankRequest
from tests.server.conftest import Served
from tests.server.fake_runtime import tiny_model

DOCUMENTS = ["apple", "pear", "plum"]
SCORES = [-2.0, 3.5, 0.0]


@pytest.fixture
def scored(served: Served) -> Served:
    served.runtime.scores = SCORES
    return served


def _post(served: Served, path: str = "/v1/rerank", /, **fields: object) -> httpx.Response:
    return served.http.post(path, json={"model": "tiny", "query": "fruit", "documents": DOCUMENTS} | fields)


def _tei(served: Served, **fields: object) -> httpx.Response:
    return served.http.post("/rerank", json={"query": "fruit", "texts": DOCUMENTS} | fields)


def _error(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    return response.status_code, error["code"], error["param"]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/reranking", "/rerank", "/reranking"])
def test_documents_come_back_best_first_with_scores_between_0_and_1(scored: Served, path: str) -> None:
    answer = _post(scored, path).json()
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert answer["usage"] == {"prompt_tokens": 13, "total_tokens": 13}
    assert [result["index"] for result in answer["results"]] == [1, 2, 0]
    scores = [result["relevance_score"] for result in answer["results"]]
    assert scores == pytest.approx([_sigmoid(3.5), 0.5, _sigmoid(-2.0)])
    assert all(set(result) == {"index", "relevance_score"} for result in answer["results"])
    assert scored.runtime.ranked == [RerankRequest(query="fruit", documents=tuple(DOCUMENTS))]


def test_raw_scores_are_the_models_own(scored: Served) -> None:
    results = _post(scored, raw_scores=True).json()["results"]
    assert [result["relevance_score"] for result in results] == [3.5, 0.0, -2.0]
    assert [rank["score"] for rank in _tei(scored, raw_scores=True).json()] == [3.5, 0.0, -2.0]


def test_the_order_is_that_of_the_raw_scores_even_where_the_others_are_equal(served: Served) -> None:
    served.runtime.scores = [800.0, 900.0, -900.0]
    results = _post(served).json()["results"]
    assert [(result["index"], result["relevance_score"]) for result in results] == [(1, 1.0), (0, 1.0), (2, 0.0)]


def test_a_model_that_gives_probabilities_is_not_squeezed_once_more(served: Served) -> None:
    model = tiny_model()
    served.runtime.models = [
        msgspec.structs.replace(model, info=msgspec.structs.replace(model.info, architecture="qwen3"))
    ]
    served.runtime.scores = [0.1, 0.9, 0.5]
    assert [result["relevance_score"] for result in _post(served).json()["results"]] == [0.9, 0.5, 0.1]


def test_as_many_as_are_wanted_with_their_texts(scored: Served) -> None:
    documents: list[object] = ["apple", {"text": "pear"}, "plum"]
    results = _post(scored, documents=documents, top_n=2, return_documents=True).json()["results"]
    assert [result["document"] for result in results] == [{"text": "pear"}, {"text": "plum"}]
    assert len(_post(scored, top_n=99).json()["results"]) == 3


def test_other_fields_of_a_document_are_not_read_and_that_is_said(scored: Served) -> None:
    response = _post(scored, documents=[{"text": "pear", "title": "P"}])
    assert response.headers["x-localllm-ignored"] == "documents[].title"


def test_with_texts_question_and_answer_are_teis(scored: Served) -> None:
    assert _tei(scored).json() == [
        {"index": index, "score": pytest.approx(_sigmoid(SCORES[index]))} for index in (1, 2, 0)
    ]
    best, *_ = _tei(scored, return_text=True, truncate=True, truncation_direction="Right").json()
    assert best == {"index": 1, "score": pytest.approx(_sigmoid(3.5)), "text": "pear"}
    assert scored.runtime.ranked[1] == RerankRequest(query="fruit", documents=tuple(DOCUMENTS), truncate=True)


def test_the_model_may_be_left_out_while_there_is_only_one(scored: Served) -> None:
    scored.runtime.models = [tiny_model("one"), tiny_model("two")]
    assert _tei(scored).status_code == 404
    assert _tei(scored, model="two").status_code == 200


def test_what_was_cut_is_said(scored: Served) -> None:
    scored.runtime.truncated = (2,)
    response = _post(scored, truncate=True)
    assert (response.json()["truncated"], response.headers["x-localllm-truncated"]) == ([2], "1")
    response = _tei(scored, truncate=True)
    assert [rank.get("truncated") for rank in response.json()] == [None, True, None]
    assert response.headers["x-localllm-truncated"] == "1"


def test_extensions_reach_the_model(scored: Served) -> None:
    assert _post(scored, priority=3, timeout=2, keep_alive=-1).status_code == 200
    asked = RerankRequest(query="fruit", documents=tuple(DOCUMENTS), priority=3, timeout_s=2)
    assert (scored.runtime.ranked, scored.runtime.keep_alives) == ([asked], [-1.0])


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"query": None}, "query"),
        ({"query": ""}, "query"),
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": ["a", 3]}, "documents[1]"),
        ({"documents": ["a", {"title": "b"}]}, "documents[1].text"),
        ({"documents": ["a"] * (2049)}, "documents"),
        ({"top_n": 0}, "top_n"),
        ({"raw_scores": "yes"}, "raw_scores"),
        ({"timeout": 0}, "timeout"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(served: Served, change: dict[str, object], param: str) -> None:
    response = _post(served, **change)
    assert _error(response) == (400, "invalid_parameter", param)
    assert param in response.json()["error"]["message"]
    assert served.runtime.ranked == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("truncation_direction", "Left"),
        ("max_tokens_per_doc", 512),
        ("rank_fields", ["title"]),
        ("truncate_prompt_tokens", 9),
    ],
)
def test_a_field_that_would_change_the_scores_is_refused_by_name(served: Served, field: str, value: object) -> None:
    response = _post(served, **{field: value})
    assert _error(response) == (400, "unsupported_parameter", field)
    assert served.runtime.ranked == []


def test_what_the_model_refuses_is_named_as_the_request_names_it(served: Served) -> None:
    served.runtime.refusal = ContextLengthExceeded("document 2 is too long", param="documents", item=2)
    assert _error(_post(served)) == (400, "context_length_exceeded", "documents[2]")
    response = _tei(served)
    assert response.status_code == 413
    assert response.json() == {"error": "texts[2] is too long", "error_type": "Validation"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"texts": []}, "texts must not be an empty array"),
        ({"documents": ["a"]}, "documents and texts are mutually exclusive"),
        ({"texts": [3]}, "texts[0] must be a string, got a whole number"),
        ({"truncation_direction": "Left"}, "truncation_direction is not supported"),
    ],
)
def test_with_texts_what_is_wrong_is_said_as_tei_says_it(served: Served, change: dict[str, object], said: str) -> None:
    response = _tei(served, **change)
    assert response.status_code == 422
    assert response.json()["error_type"] == "Validation"
    assert said in response.json()["error"]
