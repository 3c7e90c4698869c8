"""One picture in every form that clients send, in every API: what each has to read as the same picture."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.pictures import data_url

CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"

COMPLETIONS = ("/completion", "/v1/completions")


class Form(NamedTuple):
    """A request in which a picture stands in one place."""

    path: str
    body: dict[str, Any]


def session(path: str, returned: Any) -> dict[str, Any]:
    """A conversation in the words of this API, whose last turn is what a tool returned: a text, or parts."""
    if path == RESPONSES:
        call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": returned}
        return {"input": [{"role": "user", "content": "Look."}, call, output]}
    user = {"role": "user", "content": "Look."}
    if path == MESSAGES:
        use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": returned}
        turns = [user, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        return {"messages": turns}
    called = {"id": "c", "function": {"name": "look", "arguments": {} if path == OLLAMA else "{}"}}
    turns = [user, {"role": "assistant", "content": "", "tool_calls": [called]}]
    return {"messages": [*turns, {"role": "tool", "tool_call_id": "c", "content": returned}]}


def shapes(data: bytes) -> list[dict[str, Any]]:
    """Parts in the shapes of MCP, of Vercel's SDK, of Qwen and of Anthropic."""
    bare = base64.b64encode(data).decode()
    return [
        {"type": "image", "data": bare, "mimeType": "image/png"},
        {"type": "image", "data": bare, "mimeType": "image/png", "annotations": {"audience": ["user"]}, "_meta": {}},
        {"type": "resource", "resource": {"uri": "file:///a.png", "mimeType": "image/png", "blob": bare}},
        {"type": "media", "data": bare, "mediaType": "image/png"},
        {"type": "image-data", "data": bare, "mediaType": "image/png"},
        {"type": "file", "data": data_url(data), "mediaType": "image/png"},
        {"type": "image", "image": data_url(data)},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": bare}},
    ]


def own_parts(path: str, data: bytes) -> list[dict[str, Any]]:
    """The API's own parts."""
    bare, url = base64.b64encode(data).decode(), data_url(data)
    url_safe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    if path == MESSAGES:
        file = {"type": "base64", "media_type": "image/webp", "data": bare}
        inner = [{"type": "image", "source": file}]
        return [
            {"type": "image", "source": file},
            {"type": "image", "source": file | {"data": url_safe}, "cache_control": {"type": "ephemeral"}},
            {"type": "document", "source": {"type": "content", "content": inner}},
            {"type": "document", "source": file | {"media_type": "application/pdf"}},
        ]
    if path == RESPONSES:
        return [
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_image", "image_url": data_url(data, "application/octet-stream")},
            {"type": "input_file", "file_data": url, "filename": "a.pdf"},
        ]
    return [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": {"url": data_url(data, "application/octet-stream"), "detail": "auto"}},
        {"type": "image_url", "image_url": data_url(data, "image/jpeg"), "detail": "auto"},
        {"type": "image_url", "image_url": {"url": url_safe}},
        {"type": "input_image", "image_url": bare},
        {"type": "file", "file": {"file_data": url, "filename": "a.png"}},
    ]


def forms(data: bytes) -> Iterator[Form]:
    """Each in the turn of a user, in what a tool returned, and where else an API has places for it."""
    bare, url = base64.b64encode(data).decode(), data_url(data)
    for path, places in ((CHAT, "messages"), (RESPONSES, "input"), (MESSAGES, "messages")):
        text = {"type": "input_text" if path == RESPONSES else "text", "text": "What?"}
        for part in [*own_parts(path, data), *shapes(data)]:
            yield Form(path, {places: [{"role": "user", "content": [text, part]}]})
            yield Form(path, session(path, [text, part]))
        yield Form(path, session(path, json.dumps(shapes(data)[:1])))
        yield Form(path, session(path, url))
    for turn in ({"content": "What?", "images": [bare]}, {"content": "", "images": [url]}):
        yield Form(OLLAMA, {"messages": [{"role": "user", **turn}]})
        returned = session(OLLAMA, "")
        returned["messages"][-1] |= turn
        yield Form(OLLAMA, returned)
    yield Form(OLLAMA, session(OLLAMA, json.dumps({"content": shapes(data)[:1]})))
    yield Form("/api/generate", {"prompt": "What?", "images": [bare]})
    prompt = "<|im_start|>user\nWhat?<__media__><|im_end|>\n<|im_start|>assistant\n"
    for given in ([bare], [url], url):
        for path in COMPLETIONS:
            yield Form(path, {"prompt": {"prompt_string": prompt, "multimodal_data": given}})
    yield from _in_responses(data)
    yield from _in_messages(data)


def pages(pdf: bytes) -> Iterator[Form]:
    """A PDF, which a model sees page by page if it has no text, in the turn of a user and in what a tool returned."""
    bare, url = base64.b64encode(pdf).decode(), data_url(pdf, "application/pdf")
    blob = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": bare}
    ours: dict[str, list[dict[str, Any]]] = {
        CHAT: [{"type": "file", "file": {"file_data": url, "filename": "a.pdf"}}],
        RESPONSES: [{"type": "input_file", "file_data": url, "filename": "a.pdf"}],
        MESSAGES: [{"type": "document", "source": {"type": "base64", "data": bare}, "title": "a.pdf"}],
    }
    for path, parts in ours.items():
        places = "input" if path == RESPONSES else "messages"
        for part in [*parts, {"type": "resource", "resource": blob}]:
            yield Form(path, {places: [{"role": "user", "content": [part]}]})
            yield Form(path, session(path, [part]))
        yield Form(path, session(path, json.dumps([{"type": "resource", "resource": blob}])))
    yield Form(OLLAMA, {"messages": [{"role": "user", "content": "", "images": [bare]}]})
    yield Form("/api/generate", {"prompt": "What?", "images": [bare]})


def _in_responses(data: bytes) -> Iterator[Form]:
    """Results of tools that OpenAI knows by name."""
    url = data_url(data)
    part = {"type": "input_image", "image_url": url}
    asked = {"role": "user", "content": "Look."}
    for call, output in (
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "look", "input": ""},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [part]},
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "look", "input": ""},
            {"type": "custom_tool_call_output", "call_id": "c", "output": json.dumps(shapes(data)[:1])},
        ),
        (
            {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": url},
            },
        ),
    ):
        yield Form(RESPONSES, {"input": [asked, call, output]})
    mcp = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "look", "arguments": "{}"}
    returned: list[Any] = [json.dumps(shapes(data)[:1]), shapes(data)[:1], {"content": shapes(data)[:1]}]
    for each in returned:
        yield Form(RESPONSES, {"input": [asked, mcp | {"output": each}]})


def _in_messages(data: bytes) -> Iterator[Form]:
    """The system prompt, and a result of an MCP tool."""
    image = own_parts(MESSAGES, data)[0]
    user = {"role": "user", "content": "Look."}
    yield Form(MESSAGES, {"system": [image], "messages": [user]})
    use = {"type": "mcp_tool_use", "id": "m", "name": "look", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": shapes(data)[:1]}
    yield Form(MESSAGES, {"messages": [user, {"role": "assistant", "content": [use, result]}, user]})


def limited(form: Form, model: str) -> dict[str, Any]:
    """The body of a request for a short answer, always the same."""
    if form.path == RESPONSES:
        return {"model": model, "max_output_tokens": 8, "temperature": 0, **form.body}
    if form.path.startswith("/api/"):
        return {"model": model, "stream": False, "options": {"num_predict": 8, "temperature": 0}, **form.body}
    limit = "n_predict" if form.path == "/completion" else "max_tokens"
    return {"model": model, limit: 8, "temperature": 0, **form.body}


def text_of(path: str, answer: dict[str, Any]) -> str:
    """What the model said."""
    if path == RESPONSES:
        return "".join(part["text"] for item in answer["output"] for part in item["content"])
    if path == MESSAGES:
        return "".join(block["text"] for block in answer["content"])
    if path in COMPLETIONS:
        return str(answer["content"] if path == "/completion" else answer["choices"][0]["text"])
    if path == CHAT:
        return str(answer["choices"][0]["message"]["content"])
    return str(answer["message"]["content"] if path == OLLAMA else answer["response"])
