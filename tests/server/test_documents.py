"""Documents in every dialect become the text of the prompt; what was taken is said, what cannot be read is a 400."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from localllm.settings.config import Settings
from tests.documents import made
from tests.later import anthropic, openai
from tests.pictures import data_url
from tests.server.conftest import Served, running

PDF = made.pdf(["Rent is due.", ""])
TEXT = "Document a.pdf, 2 pages:\n\nPage 1:\n```text\nRent is due.\n```\n\nPage 2:"
URL = data_url(PDF, "application/pdf")
BARE = base64.b64encode(PDF).decode()


def _user(*content: object) -> list[Any]:
    return [{"role": "user", "content": list(content)}]


def _file(data: str = URL, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": "a.pdf", "file_data": data, **fields}}


def _claudes(**source: Any) -> dict[str, Any]:
    return {"type": "document", "title": "a.pdf", "source": source}


def _forms() -> list[tuple[str, dict[str, Any]]]:
    base64_source = _claudes(type="base64", media_type="application/pdf", data=BARE)
    result = {"type": "tool_result", "tool_use_id": "c", "content": [base64_source]}
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {}}
    claude_code = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [call]}, *_user(result)]
    output = {"type": "function_call_output", "call_id": "c", "output": [
        {"type": "input_file", "filename": "a.pdf", "file_data": URL}
    ]}  # fmt: skip
    calling = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    return [
        ("/v1/chat/completions", {"messages": _user(_file())}),
        ("/v1/chat/completions", {"messages": _user(_file(BARE))}),
        ("/v1/responses", {"input": _user({"type": "input_file", "filename": "a.pdf", "file_data": URL})}),
        ("/v1/responses", {"input": [*_user({"type": "input_text", "text": "a"}), calling, output]}),
        ("/v1/messages", {"max_tokens": 5, "messages": _user(base64_source)}),
        ("/v1/messages", {"max_tokens": 5, "messages": claude_code}),
    ]


def test_a_pdf_is_the_same_in_every_form(served: Served) -> None:
    served.runtime.reads = frozenset({"image"})
    for path, body in _forms():
        response = served.http.post(path, json=body)
        assert response.status_code == 200, response.text
        message = (served.runtime.requests[-1].messages or ())[-1]
        assert message.parts[0] == TEXT
        (page,) = message.media
        assert (page.kind, page.page) == ("image", 2)
        assert message.parts[-1] == "End of a.pdf"
        assert response.headers["x-localllm-documents"] == "a.pdf, PDF, characters=12, pages=2 of 2, images=1"


def test_a_model_that_does_not_see_gets_a_note_for_a_page_without_text(served: Served) -> None:
    served.runtime.reads = frozenset()
    response = served.http.post("/apply-template", json={"messages": _user(_file())})
    assert "Page 2:\n[no text; it is a picture" in response.json()["prompt"]
    refused = served.http.post("/v1/chat/completions", json={"messages": _user(_file(page_images="always"))})
    assert refused.status_code == 400


def test_anthropics_texts_and_contents_are_documents_with_title_and_context(served: Served) -> None:
    plain = {**_claudes(type="text", data="%PDF-1.4 `` ``` x"), "context": "of\nMay", "citations": {"enabled": True}}
    blocks = _claudes(type="content", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    response = served.http.post("/v1/messages", json={"max_tokens": 5, "messages": _user(plain, blocks)})
    assert response.status_code == 200, response.text
    (message,) = served.runtime.requests[-1].messages or ()
    assert message.content == (
        "Document a.pdf:\nContext: of May\n````text\n%PDF-1.4 `` ``` x\n````\nDocument a.pdf:\n```text\na\n\nb\n```"
    )


@pytest.fixture(scope="module")
def limited() -> Iterator[Served]:
    limits: dict[str, Any] = {
        "max_document_bytes": 100_000, "max_document_pages": 3, "max_document_chars": 400, "max_documents": 2,
        "max_request_document_chars": 600,
    }  # fmt: skip
    with running(Settings(port=0, grace_s=0.1, **limits)) as served:
        yield served


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([_file(data_url(bytes(100_001)))], "max_document_bytes"),
        ([_file(data_url(made.pdf(["a"] * 4)))], "max_document_pages"),
        ([_file(data_url(made.pdf(["a"] * 4)), pages="9")], "none of 9"),
        ([_file(data_url(b"x" * 401))], "max_document_chars"),
        ([_file(data_url(b"x")) for _ in range(3)], "max_documents"),
        ([_file(data_url(b"x" * 301)), _file(data_url(b"y" * 301))], "max_request_document_chars"),
        ([_file(data_url(b"plain"), pages="1")], "has no pages"),
        ([{"type": "file", "file": {"file_id": "f"}}], "name no files by id"),
        ([_file("not base64!")], "not valid base64"),
        ([_file(data_url(bytes(range(256))))], "of no format"),
        ([{"type": "input_file", "file_url": "https://example.com/a.pdf"}], "--media-urls public"),
    ],
)
def test_what_cannot_be_read_is_a_400_and_in_a_tools_result_a_note(
    limited: Served, parts: list[Any], says: str
) -> None:
    refused = limited.http.post("/v1/chat/completions", json={"messages": _user(*parts)})
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]
    assert refused.json()["error"]["param"].startswith("messages[0].content")
    if len(parts) > 1:
        return  # of all documents together, wherever they are
    call = {"id": "c", "function": {"name": "read"}}
    messages = [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": parts},
    ]  # fmt: skip
    response = limited.http.post("/v1/chat/completions", json={"messages": messages})
    assert response.status_code == 200, response.text
    assert "omitted" in (limited.runtime.requests[-1].messages or ())[-1].content


def test_chosen_pages_are_read_and_the_rest_is_counted_as_omitted(limited: Served) -> None:
    body = {"messages": _user(_file(data_url(made.pdf(["a", "b", "c", "d"])), pages="2-3"))}
    response = limited.http.post("/v1/chat/completions", json=body)
    assert response.headers["x-localllm-documents"] == "a.pdf, PDF, characters=2, pages=2 of 4"
    counted = limited.http.post("/v1/chat/completions/input_tokens", json=body).json()["input_tokens"]
    assert counted > len("Document a.pdf, pages 2-3 of 4 pages:")


def test_twenty_turns_with_one_document_cost_no_more_than_the_first(served: Served) -> None:
    document = _file(data_url(made.word()), filename="a.docx")
    started = time.process_time()
    texts = set()
    for turn in range(20):
        earlier = [{"role": role, "content": "a"} for _ in range(turn) for role in ("assistant", "user")]
        response = served.http.post("/v1/chat/completions", json={"messages": [*_user(document), *earlier]})
        assert response.status_code == 200
        texts.add((served.runtime.requests[-1].messages or ())[0].content)
    assert len(texts) == 1
    assert time.process_time() - started < 5


def test_openais_client_sends_a_pdf(served: Served) -> None:
    served.runtime.reads = frozenset({"image"})
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="x")
    part: Any = {"type": "file", "file": {"filename": "a.pdf", "file_data": URL}}
    client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": [part]}])
    assert (served.runtime.requests[-1].messages or ())[0].parts[0] == TEXT
    given: Any = [{"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": URL}]}]
    first = client.responses.create(model="tiny", input=given)
    client.responses.create(model="tiny", input="And?", previous_response_id=first.id)
    assert (served.runtime.requests[-1].messages or ())[0].parts[0] == TEXT


def test_anthropics_client_sends_a_pdf(served: Served) -> None:
    served.runtime.reads = frozenset({"image"})
    client = anthropic.Anthropic(base_url=served.url, api_key="x")
    block: Any = _claudes(type="base64", media_type="application/pdf", data=BARE)
    client.messages.create(model="tiny", max_tokens=5, messages=[{"role": "user", "content": [block]}])
    assert (served.runtime.requests[-1].messages or ())[0].parts[0] == TEXT
