"""Responses that are kept: turns that go on from each other, retrieval, deletion, input items, limits and owners."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from localllm.settings.config import Settings
from localllm.types import Delta, MediaFile, Message, TokenLogprob
from tests.later import openai
from tests.pictures import LARGE, SMALL, data_url
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH

BODY = {"model": "tiny", "input": "Hi"}


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def test_three_turns_go_on_from_each_other_and_instructions_are_of_one_turn_only(
    served: Served, client: openai.OpenAI
) -> None:
    first = client.responses.create(model="tiny", input="one", instructions="Be brief.")
    *_, last = client.responses.create(model="tiny", input="two", previous_response_id=first.id, stream=True)
    assert last.type == "response.completed"
    assert last.response.previous_response_id == first.id
    third = client.responses.create(
        model="tiny", input="three", previous_response_id=last.response.id, instructions="Be long."
    )
    assert [said for _, said, _ in served.runtime.asked] == [
        [Message("system", "Be brief."), Message("user", "one")],
        [Message("user", "one"), Message("assistant", "Hello ✓"), Message("user", "two")],
        [
            Message("system", "Be long."),
            Message("user", "one"),
            Message("assistant", "Hello ✓"),
            Message("user", "two"),
            Message("assistant", "Hello ✓"),
            Message("user", "three"),
        ],
    ]
    branch = client.responses.create(model="tiny", input="other", previous_response_id=first.id)
    assert served.runtime.asked[-1][1] == [
        Message("user", "one"), Message("assistant", "Hello ✓"), Message("user", "other"),
    ]  # fmt: skip
    assert branch.id != third.id


def test_a_turn_can_go_on_from_one_that_was_deleted_before_it(served: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="one")
    second = client.responses.create(model="tiny", input="two", previous_response_id=first.id)
    client.responses.delete(first.id)
    client.responses.create(model="tiny", input="three", previous_response_id=second.id)
    said = served.runtime.asked[-1][1]
    assert isinstance(said, list)
    assert len(said) == 5


def test_a_response_is_kept_until_it_is_deleted(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Hi", metadata={"a": "b"})
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    client.responses.delete(made.id)
    for ask in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match=made.id):
            ask(made.id)
    with pytest.raises(openai.BadRequestError, match=made.id) as caught:
        client.responses.create(model="tiny", input="Hi", previous_response_id=made.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_deletion_says_what_it_deleted(served: Served) -> None:
    id = served.http.post("/v1/responses", json=BODY).json()["id"]
    assert served.http.delete(f"/v1/responses/{id}").json() == {"id": id, "object": "response", "deleted": True}


def test_a_stream_that_completed_is_kept_as_its_last_event_said(client: openai.OpenAI) -> None:
    *_, last = client.responses.create(model="tiny", input="Hi", stream=True)
    assert last.type == "response.completed"
    assert client.responses.retrieve(last.response.id).to_dict() == last.response.to_dict()


def test_a_kept_response_is_not_streamed_again(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Hi")
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.retrieve(made.id, stream=True)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "stream")


def test_a_response_that_was_not_to_be_stored_is_not(served: Served, client: openai.OpenAI) -> None:
    kept = client.responses.create(model="tiny", input="Hi")
    made = client.responses.create(model="tiny", input="Hi", store=False, previous_response_id=kept.id)
    assert made.model_extra is not None
    assert made.model_extra["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="tiny", input="Hi", previous_response_id=made.id)
    assert len(served.runtime.asked) == 2, "what cannot be continued is not started"


def test_the_input_items_are_the_conversation_that_was_answered_page_by_page(
    served: Served, client: openai.OpenAI
) -> None:
    include: Any = ["message.output_text.logprobs"]
    served.runtime.script = [Delta("Hello ✓", 1, FINISH, (TokenLogprob(b"Hello", -0.5),))]
    first = client.responses.create(model="tiny", input="one", include=include)
    second = client.responses.create(
        model="tiny", input=[{"role": "developer", "content": "two"}], previous_response_id=first.id
    )
    page = client.responses.input_items.list(second.id, order="asc", limit=2)
    assert (page.has_more, len(page.data)) == (True, 2)
    items: list[Any] = list(page)  # with the pages after it
    assert [(item.role, item.content[0].text) for item in items] == [
        ("user", "one"), ("assistant", "Hello ✓"), ("developer", "two"),
    ]  # fmt: skip
    assert items[1].id == first.output[0].id
    assert items[1].content[0].logprobs == []
    told: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(openai.types.responses.ResponseItem)
    for item in items:
        told.validate_python(item.to_dict())
    latest_first: list[Any] = list(client.responses.input_items.list(second.id))
    assert [item.id for item in latest_first] == [item.id for item in reversed(items)]
    assert len({item.id for item in items}) == 3


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=000000001999", "order=up", "after=msg_1"])
def test_a_wrong_page_is_a_400_that_names_the_parameter(served: Served, query: str) -> None:
    id = served.http.post("/v1/responses", json=BODY).json()["id"]
    response = served.http.get(f"/v1/responses/{id}/input_items?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == query.partition("=")[0]


def test_the_page_after_the_last_item_is_empty(served: Served) -> None:
    id = served.http.post("/v1/responses", json=BODY).json()["id"]
    last = served.http.get(f"/v1/responses/{id}/input_items").json()["last_id"]
    page = served.http.get(f"/v1/responses/{id}/input_items?after={last}").json()
    assert (page["data"], page["has_more"]) == ([], False)


def test_the_least_recently_used_response_goes_first() -> None:
    with running(Settings(port=0, grace_s=0.1, max_stored_responses=2)) as served:
        first, second = (served.http.post("/v1/responses", json=BODY).json()["id"] for _ in range(2))
        assert served.http.get(f"/v1/responses/{first}").status_code == 200
        third = served.http.post("/v1/responses", json=BODY).json()["id"]
        found = [served.http.get(f"/v1/responses/{id}").status_code for id in (first, second, third)]
        assert found == [200, 404, 200]


def test_a_conversation_that_is_too_large_to_be_kept_is_refused_only_if_it_was_to_be() -> None:
    with running(Settings(port=0, grace_s=0.1, max_stored_response_mb=1)) as served:
        body = {"model": "tiny", "input": "x" * 10**6}
        refused = served.http.post("/v1/responses", json={**body, "store": True})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "store")
        answered = served.http.post("/v1/responses", json=body)
        assert (answered.status_code, answered.json()["store"]) == (200, False)


@pytest.mark.parametrize("off", [{"max_stored_responses": 0}, {"max_stored_response_mb": 0}])
def test_a_server_that_keeps_nothing_says_so_to_those_who_ask_for_it(off: dict[str, int]) -> None:
    with running(Settings(port=0, grace_s=0.1, **off)) as served:  # type: ignore[arg-type]
        refused = served.http.post("/v1/responses", json={**BODY, "store": True})
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", "store")
        assert served.runtime.asked == []
        response = served.http.post("/v1/responses", json=BODY).json()
        assert response["store"] is False
        assert served.http.get(f"/v1/responses/{response['id']}").status_code == 404


def test_a_response_of_one_key_is_nobody_elses(guarded: Served) -> None:
    mine, other = ({"authorization": f"Bearer {key}"} for key in ("sesame", "another"))
    url = f"/v1/responses/{guarded.http.post('/v1/responses', json=BODY, headers=mine).json()['id']}"
    assert guarded.http.get(url, headers=other).status_code == 404
    assert guarded.http.delete(url, headers=other).status_code == 404
    continued = {**BODY, "previous_response_id": url.rpartition("/")[2]}
    assert guarded.http.post("/v1/responses", json=continued, headers=other).status_code == 400
    assert guarded.http.get(url, headers=mine).status_code == 200
    assert guarded.http.get(url).status_code == 401


def _shown(picture: bytes) -> dict[str, Any]:
    return {"type": "input_image", "image_url": data_url(picture), "detail": "high"}


@pytest.mark.parametrize("picture", [SMALL, LARGE])
def test_pictures_are_kept_with_the_response_and_a_compaction_returns_them(
    served: Served, client: openai.OpenAI, picture: bytes
) -> None:
    served.runtime.reads = frozenset({"image"})
    asked: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "What?"}, _shown(picture)]},
        {"type": "function_call", "call_id": "c", "name": "view_image", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [_shown(SMALL)]},
        {"type": "computer_call_output", "call_id": "d", "output": {**_shown(picture), "type": "computer_screenshot"}},
    ]
    first = client.responses.create(model="tiny", input=asked)
    second = client.responses.create(model="tiny", input="And?", previous_response_id=first.id)
    for request in served.runtime.requests[-2:]:
        said = request.messages or ()
        assert [medium.detail for medium in said[0].media] == ["high"]
        assert [len(message.media) for message in said[:4]] == [1, 0, 1, 1]
        assert {file.data for file in request.media} == {picture, SMALL}
    without, *_ = client.responses.input_items.list(second.id, order="asc").data
    assert (without.to_dict()["content"][1]) == {"type": "input_image", "detail": "high"}  # type: ignore[index]
    items = client.responses.input_items.list(second.id, order="asc", include=["message.input_image.image_url"])
    assert items.data[0].to_dict()["content"][1] == _shown(picture)  # type: ignore[index]
    body = {"model": "tiny", "previous_response_id": second.id}
    compacted = served.http.post("/v1/responses/compact", json=body).json()["output"]
    assert compacted[0]["content"][1] == _shown(picture)
    client.responses.create(model="tiny", input=compacted)
    assert served.runtime.requests[-1].media == (MediaFile(hashlib.sha256(picture).hexdigest(), picture),)
    served.runtime.reads = frozenset()
    client.responses.create(model="tiny", input="Still?", previous_response_id=second.id)
    assert "image omitted" in (served.runtime.requests[-1].messages or ())[0].content
