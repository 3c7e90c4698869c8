"""Counting a request's prompt tokens refuses what the request itself would be refused for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Served

MESSAGES = [{"role": "user", "content": "Hi"}]
COUNTING: dict[str, dict[str, Any]] = {
    "/v1/chat/completions/input_tokens": {"messages": MESSAGES},
    "/v1/messages/count_tokens": {"messages": MESSAGES},
    "/v1/responses/input_tokens": {"input": "Hi"},
}


@pytest.mark.parametrize("path", COUNTING)
@pytest.mark.parametrize(("field", "value"), [("min_p", 2), ("temperature", -1), ("top_k", -2), ("min_tokens", -1)])
def test_a_value_out_of_range_is_refused_by_name(served: Served, path: str, field: str, value: int) -> None:
    body = {"model": "tiny", **COUNTING[path]}
    assert served.http.post(path, json=body).status_code == 200
    refused = served.http.post(path, json=body | {field: value})
    assert refused.status_code == 400
    assert field in refused.json()["error"]["message"]
