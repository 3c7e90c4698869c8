"""Pictures, sounds and resources in what tools return, in every API and in the shapes that agents pass on."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from localllm.types import Media, Message
from tests.picture_forms import CHAT, MESSAGES, OLLAMA, RESPONSES, Form, limited, own_parts, session, shapes
from tests.pictures import LARGE, SMALL, WAV, data_url
from tests.server.conftest import Served

NOTE = "[image omitted: the model cannot see images]"
PDF_URI = "file:///tmp/report.csv"


def _bare(data: bytes) -> str:
    return base64.b64encode(data).decode()


def result_of(served: Served, path: str, returned: Any, reads: set[str]) -> Message:
    """What the model gets as the tool's result."""
    served.runtime.reads = frozenset(reads)
    response = served.http.post(path, json=limited(Form(path, session(path, returned)), "tiny"))
    assert response.status_code == 200, response.text
    result = (served.runtime.requests[-1].messages or ())[-1]
    assert (result.role, result.tool_call_id) == ("tool", "c")
    return result


WITH_PARTS = [CHAT, RESPONSES, MESSAGES]


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("path", WITH_PARTS)
def test_a_picture_in_a_result_is_seen_in_every_shape_or_gets_a_note(served: Served, path: str, data: bytes) -> None:
    for shape in [*shapes(data), own_parts(path, data)[0]]:
        returned = [{"type": "text", "text": "Here:"}, shape]
        result = result_of(served, path, returned, {"image"})
        assert (result.parts[0], [part.kind for part in result.media]) == ("Here:", ["image"]), shape
        assert [file.data for file in served.runtime.requests[-1].media] == [data]
        result = result_of(served, path, returned, set())
        assert (result.content, result.media) == (f"Here:\n{NOTE}", ()), shape


@pytest.mark.parametrize("path", [*WITH_PARTS, OLLAMA])
def test_a_result_that_is_the_json_of_parts_is_read_as_these(served: Served, path: str) -> None:
    """As agents write it where an API has only text."""
    for shape in shapes(LARGE):
        here = {"type": "text", "text": "Here:"}
        whole = {"content": [here, shape], "isError": False, "structuredContent": {"a": 1}}
        for returned in ([here, shape], whole):
            result = result_of(served, path, json.dumps(returned), {"image"})
            assert (result.parts[0], [part.kind for part in result.media]) == ("Here:", ["image"]), shape
            assert [file.data for file in served.runtime.requests[-1].media] == [LARGE]
        assert result_of(served, path, json.dumps(whole), set()).content == f"Here:\n{NOTE}"
        assert result_of(served, path, json.dumps(shape), {"image"}).media
    assert result_of(served, path, data_url(SMALL), {"image"}).media


@pytest.mark.parametrize("path", [*WITH_PARTS, OLLAMA])
def test_every_other_text_of_a_tool_stays_as_it_is(served: Served, path: str) -> None:
    texts = [
        '[{"type": "image", "data": "not base64", "mimeType": "image/png"}]',
        json.dumps([{"type": "image", "data": _bare(b"no picture at all, but base64"), "mimeType": "image/png"}]),
        '[{"type": "image", "image": "https://example.com/a.png"}]',
        '{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}',
        '{"type": "text", "text": "a"}',
        '[{"type": "text", "text": "a"}, {"type": "resource_link", "uri": "a", "name": "b"}]',
        '{"content": "a", "type": 5}',
        '[{"type": "image", "data": ' + "[" * 5000,
        '{"type": "image", "data": {"x": 1}, "content": [1, null]}',
        f"see {data_url(SMALL)}",
        _bare(SMALL),
        "[1, 2]",
    ]
    for text in texts:
        result = result_of(served, path, text, {"image"})
        assert (result.content, result.media) == (text, ())
        assert served.runtime.requests[-1].media == ()


@pytest.mark.parametrize("path", WITH_PARTS)
def test_resources_are_texts_links_sounds_and_documents(served: Served, path: str) -> None:
    resources = [
        {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "Words."}},
        {"type": "resource_link", "uri": "file:///b.txt", "name": "b"},
        {"type": "audio", "data": _bare(WAV), "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": PDF_URI, "mimeType": "text/csv", "blob": _bare(b"a,b\n1,2\n")}},
    ]
    result = result_of(served, path, resources, {"audio"})
    assert result.parts[:2] == ("Words.", "[a resource: b at file:///b.txt]")
    assert [part.kind for part in result.media] == ["audio"]
    (document,) = result.parts[3:]
    assert "report.csv" in str(document)
    assert "1,2" in str(document)
    assert "[audio omitted: the model cannot hear audio]" in result_of(served, path, resources, set()).content


@pytest.mark.parametrize("path", WITH_PARTS)
def test_a_part_that_is_broken_is_a_note_in_a_result(served: Served, path: str) -> None:
    broken: list[dict[str, Any]] = [
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "image", "data": 5},
        {"type": "image", "mimeType": "image/png"},
        {"type": "audio", "data": ""},
        {"type": "resource", "resource": {"uri": "a", "blob": ""}},
        {"type": "resource", "resource": "a"},
        {"type": "resource"},
        {"type": "media", "data": None, "mediaType": []},
    ]
    for part in broken:
        result = result_of(served, path, [{"type": "text", "text": "Here:"}, part], {"image", "audio"})
        assert (result.parts or (result.content,))[0].startswith("Here:"), part  # type: ignore[union-attr]
        assert result.media == ()
        assert " omitted: " in result.content, part


@pytest.mark.parametrize("path", WITH_PARTS)
def test_a_user_may_send_these_shapes_too(served: Served, path: str) -> None:
    words = {"type": "input_text" if path == RESPONSES else "text", "text": "What?"}
    said = [{"role": "user", "content": [shapes(SMALL)[0], words]}]
    body = {"input": said} if path == RESPONSES else {"messages": said, "max_tokens": 5}
    served.runtime.reads = frozenset({"image"})
    response = served.http.post(path, json=body)
    assert response.status_code == 200, response.text
    (message,) = served.runtime.requests[-1].messages or ()
    (medium, text) = message.parts
    assert isinstance(medium, Media)
    assert text == "What?"
    served.runtime.reads = frozenset()
    refused = served.http.post(path, json=body)
    assert (refused.status_code, "content[0]" in refused.text) == (400, True)
