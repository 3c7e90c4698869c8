"""While one model is loaded nobody has to name it, in any API, as llama-server's clients do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Served
from tests.server.fake_runtime import tiny_model

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
        ("/v1/embeddings", {"input": "Hi"}),
        ("/v1/rerank", {"query": "Hi", "documents": ["Hi"]}),
    ],
)
def test_without_a_name_the_model_that_is_loaded_answers_and_is_named(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    assert served.http.post(path, json=body).json()["model"] == "tiny"


def test_with_several_models_the_name_is_asked_for(served: Served) -> None:
    served.runtime.models = [*served.runtime.models, tiny_model("other")]
    response = served.http.post("/v1/chat/completions", json={"messages": MESSAGES})
    assert (response.status_code, response.json()["error"]["param"]) == (404, "model")
    assert "tiny" in response.json()["error"]["message"]
