"""Conversations begun with five vendors' models, in their published shapes: what a client sends to go on here."""

from __future__ import annotations

from typing import Any, NamedTuple

CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
DATA_URL = f"data:image/png;base64,{PNG}"


class History(NamedTuple):
    """A conversation, what a model has to read of it, and the paths that the reply's headers name."""

    name: str
    path: str
    turns: list[dict[str, Any]]
    read: tuple[str, ...]
    named: tuple[str, ...] = ()

    def body(self) -> dict[str, Any]:
        where = "input" if self.path == RESPONSES else "messages"
        limit: dict[str, Any] = {"max_tokens": 1}
        if self.path == RESPONSES:
            limit = {"max_output_tokens": 1}
        elif self.path == OLLAMA:
            limit = {"stream": False, "options": {"num_predict": 1}}
        return {"model": "demo", where: self.turns, **limit}


def said(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    texts = content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)
    return {"role": role, "content": texts, **more}


def text(words: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": kind, "text": words, **more}


def called(id: str, name: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


USER, NEXT = said("user", "What is this?"), said("user", "Go on.")
PICTURE = {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "high"}}
CLAUDES = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SEEN = said("assistant", "A red square.")
NO_IMAGE, NO_AUDIO = "[image omitted: the model cannot see images]", "[audio omitted: the model cannot hear audio]"
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.png"}}


def _result(*content: Any, **more: Any) -> dict[str, Any]:
    return said("user", {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(content), **more})


OPENAI = [
    History(
        "picture", CHAT, [said("user", text("Look:"), PICTURE), SEEN, NEXT], (NO_IMAGE,), ("messages[0].content[1]",)
    ),
    History(
        "picture of a tool",
        CHAT,
        [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [called("c", "screenshot")]},
            said("tool", text("taken"), PICTURE, tool_call_id="c"),
        ],
        ("taken", NO_IMAGE),
        ("messages[2].content[1]",),
    ),
    History(
        "picture that an agent sends after a tool's result",
        CHAT,
        [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [called("c", "shot")]},
            said("tool", "see below", tool_call_id="c"),
            said("user", text("The screen:"), PICTURE),
        ],
        ("The screen:", NO_IMAGE),
        ("messages[3].content[1]",),
    ),
    History(
        "voice",
        CHAT,
        [
            said("user", {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}),
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "audio": {"id": "audio_1", "expires_at": 1, "data": "UklG", "transcript": "It is noon."},
            },
            NEXT,
        ],
        (NO_AUDIO, "It is noon."),
        ("messages[0].content[0]",),
    ),
    History(
        "voice of which only the id is left",
        CHAT,
        [USER, {"role": "assistant", "audio": {"id": "audio_1"}}, NEXT],
        (NO_AUDIO,),
        ("messages[1].audio",),
    ),
    History(
        "file",
        CHAT,
        [
            said(
                "user", {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}}
            ),
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
            NEXT,
        ],
        ("[document omitted: a.pdf is of no format that is read here", "I cannot."),
        ("messages[0].content[0]",),
    ),
    History(
        "web search with annotations",
        CHAT,
        [
            USER,
            {
                "role": "assistant",
                "content": "Ulm has 128,000 people.",
                "refusal": None,
                "audio": None,
                "function_call": None,
                "tool_calls": None,
                "annotations": [
                    {"type": "url_citation", "url_citation": {"url": "https://e.org", "start_index": 0, "end_index": 3}}
                ],
            },
            NEXT,
        ],
        ("Ulm has 128,000 people.",),
        ("messages[].annotations",),
    ),
    History(
        "custom tool and developer message",
        CHAT,
        [
            said("developer", text("Be short.")),
            USER,
            {
                "role": "assistant",
                "content": None,
                "refusal": "No.",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}],
            },
            said("tool", "a.txt", tool_call_id="c"),
            NEXT,
        ],
        ("Be short.", "No.", "a.txt"),
    ),
]
GEMINI = [
    History(
        "thought signatures",
        CHAT,
        [
            USER,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    called("function-call-1", "f", '{"x":1}', extra_content={"google": {"thought_signature": "Cg=="}})
                ],
            },
            said("tool", "2", tool_call_id="function-call-1", name="f"),
        ],
        ("2",),
    ),
    History(
        "signature of a text",
        CHAT,
        [
            USER,
            {"role": "assistant", "content": "Yes.", "extra_content": {"google": {"thought_signature": "Cg=="}}},
            NEXT,
        ],
        ("Yes.",),
        ("messages[].extra_content",),
    ),
    History(
        "picture that a model painted",
        CHAT,
        [
            USER,
            {
                "role": "assistant",
                "content": "Here.",
                "images": [{"type": "image_url", "image_url": {"url": DATA_URL}}],
            },
            NEXT,
        ],
        ("Here.",),
        ("messages[].images",),
    ),
    History(
        "picture in an answer's parts",
        CHAT,
        [USER, said("assistant", text("Here:"), PICTURE), NEXT],
        ("Here:", NO_IMAGE),
        ("messages[1].content[1]",),
    ),
    History(
        "video",
        CHAT,
        [said("user", {"type": "video_url", "video_url": {"url": "https://e.org/v.mp4"}}, text("What?")), SEEN, NEXT],
        ("[video omitted: its address was not fetched]", "What?"),
        ("messages[0].content[0]",),
    ),
    History(
        "reasoning details of OpenRouter",
        CHAT,
        [
            USER,
            {
                "role": "assistant",
                "content": "4",
                "reasoning": "2 + 2",
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "format": "google-gemini-v1"}],
            },
            NEXT,
        ],
        ("2 + 2", "4"),
        ("messages[].reasoning_details",),
    ),
    History(
        "thinking and references of Mistral",
        CHAT,
        [
            USER,
            said(
                "assistant",
                {"type": "thinking", "thinking": [text("Hm.")]},
                text("So."),
                {"type": "reference", "reference_ids": [1]},
            ),
            NEXT,
        ],
        ("Hm.", "So."),
        ("messages[1].content[2]",),
    ),
    History(
        "encrypted thought through LiteLLM",
        CHAT,
        [USER, said("assistant", {"type": "redacted_thinking", "data": "x"}, text("So.")), NEXT],
        ("So.",),
        ("messages[1].content[0]",),
    ),
]
_SEARCHED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Ulm"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://ulm.de",
                "title": "Ulm",
                "encrypted_content": "Eq",
                "page_age": None,
            }
        ],
    },
    text(
        "It lies on the Danube.",
        citations=[
            {
                "type": "web_search_result_location",
                "url": "https://ulm.de",
                "title": "Ulm",
                "encrypted_index": "E",
                "cited_text": "Ulm",
            }
        ],
    ),
]
ANTHROPIC = [
    History(
        "picture",
        MESSAGES,
        [said("user", CLAUDES, text("Look.")), SEEN, NEXT],
        (NO_IMAGE, "Look."),
        ("messages[0].content[0]",),
    ),
    History(
        "picture of a tool",
        MESSAGES,
        [USER, said("assistant", TOOL_USE), _result(text("read"), CLAUDES)],
        ("read", NO_IMAGE),
        ("messages[2].content[0].content[1]",),
    ),
    History(
        "picture beside a result",
        MESSAGES,
        [USER, said("assistant", TOOL_USE), {"role": "user", "content": [*_result(text("read"))["content"], CLAUDES]}],
        ("read", NO_IMAGE),
        ("messages[2].content[1]",),
    ),
    History(
        "documents",
        MESSAGES,
        [
            said(
                "user",
                {
                    "type": "document",
                    "title": "Notes",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Rain."},
                },
                {"type": "document", "source": {"type": "content", "content": [text("Snow."), CLAUDES]}},
                {
                    "type": "document",
                    "title": "Bill",
                    "context": "of May",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
                },
            ),
            SEEN,
            NEXT,
        ],
        ("Notes", "Rain.", "Snow.", NO_IMAGE, "[document omitted: Bill is of no format", "of May"),
        ("messages[0].content[1]", "messages[0].content[2]"),
    ),
    History(
        "search results",
        MESSAGES,
        [
            USER,
            said("assistant", TOOL_USE),
            _result(
                {
                    "type": "search_result",
                    "source": "https://e.org",
                    "title": "Found",
                    "content": [text("Hail.")],
                    "citations": {"enabled": True},
                }
            ),
        ],
        ("https://e.org", "Found", "Hail."),
    ),
    History(
        "tools that were searched for",
        MESSAGES,
        [USER, said("assistant", TOOL_USE), _result({"type": "tool_reference", "tool_name": "get_weather"})],
        ("get_weather",),
    ),
    History(
        "web search",
        MESSAGES,
        [USER, said("assistant", text("I search."), *_SEARCHED), NEXT],
        ("I search.", "https://ulm.de", "It lies on the Danube."),
    ),
    History(
        "search that failed",
        MESSAGES,
        [
            USER,
            said(
                "assistant",
                _SEARCHED[0],
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
                },
            ),
            NEXT,
        ],
        ("max_uses_exceeded",),
    ),
    History(
        "code that was run",
        MESSAGES,
        [
            USER,
            said(
                "assistant",
                {"type": "server_tool_use", "id": "s", "name": "bash_code_execution", "input": {"command": "ls"}},
                {
                    "type": "bash_code_execution_tool_result",
                    "tool_use_id": "s",
                    "content": {
                        "type": "bash_code_execution_result",
                        "stdout": "a.csv",
                        "stderr": "warned",
                        "return_code": 0,
                        "content": [{"type": "bash_code_execution_output", "file_id": "file_1"}],
                    },
                },
                text("Done."),
            ),
            NEXT,
        ],
        ("a.csv", "warned", "Done."),
    ),
    History(
        "page that was fetched",
        MESSAGES,
        [
            USER,
            said(
                "assistant",
                {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {"url": "u"}},
                {
                    "type": "web_fetch_tool_result",
                    "tool_use_id": "s",
                    "content": {
                        "type": "web_fetch_result",
                        "url": "https://e.org/p",
                        "retrieved_at": "2026-01-01",
                        "content": {
                            "type": "document",
                            "title": "Page",
                            "citations": {"enabled": True},
                            "source": {"type": "text", "media_type": "text/plain", "data": "Its text."},
                        },
                    },
                },
            ),
            NEXT,
        ],
        ("https://e.org/p", "Page", "Its text."),
    ),
    History(
        "MCP",
        MESSAGES,
        [
            USER,
            said(
                "assistant",
                {"type": "mcp_tool_use", "id": "m", "name": "echo", "server_name": "s", "input": {"x": 1}},
                {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": [text("one")]},
            ),
            NEXT,
        ],
        ("one",),
    ),
    History(
        "thoughts, a summary and what nobody knows yet",
        MESSAGES,
        [
            said("user", {"type": "container_upload", "file_id": "file_1"}),
            said(
                "assistant",
                {"type": "compaction", "content": "They spoke of Ulm."},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "hologram", "rays": [1]},
                text("So."),
            ),
            NEXT,
        ],
        ("[file omitted: the model reads only text]", "They spoke of Ulm.", "Hm.", "So."),
        ("messages[0].content[0]", "messages[1].content[1]", "messages[1].content[3]"),
    ),
]
_ASKED = {"type": "message", **said("user", text("What?", "input_text"))}
_IMAGE = {"type": "input_image", "image_url": DATA_URL, "detail": "auto"}
OF_RESPONSES = [
    History(
        "picture",
        RESPONSES,
        [
            said("user", _IMAGE, text("Look.", "input_text")),
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                **said("assistant", text("A square.", "output_text", annotations=[], logprobs=[])),
            },
            NEXT,
        ],
        (NO_IMAGE, "Look.", "A square."),
        ("input[0].content[0]",),
    ),
    History(
        "tools that ran elsewhere",
        RESPONSES,
        [
            _ASKED,
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "Ulm"},
            },
            {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["Ulm"], "results": None},
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": "1",
                "container_id": "c",
                "outputs": [{"type": "logs", "logs": "1"}],
            },
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG},
            {"type": "message", **said("assistant", text("Done.", "output_text", annotations=[]))},
            NEXT,
        ],
        ("What?", "Done."),
        tuple(f"input[{n}]" for n in (1, 2, 3, 4)),
    ),
    History(
        "computer",
        RESPONSES,
        [
            _ASKED,
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c",
                "status": "completed",
                "pending_safety_checks": [],
                "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
            },
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "computer_screenshot", "image_url": DATA_URL},
            },
        ],
        ("What?", NO_IMAGE),
        ("input[2].output",),
    ),
    History(
        "thought of another vendor",
        RESPONSES,
        [
            _ASKED,
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "Patched."},
        ],
        ("What?", "Patched."),
        ("input[1]",),
    ),
    History(
        "MCP",
        RESPONSES,
        [
            _ASKED,
            {
                "type": "mcp_list_tools",
                "id": "mcpl_1",
                "server_label": "s",
                "tools": [
                    {
                        "name": "roll",
                        "description": "Rolls.",
                        "input_schema": {"type": "object"},
                        "annotations": {"readOnlyHint": True},
                    }
                ],
            },
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "s",
                "name": "roll",
                "arguments": "{}",
                "output": "Rolled a 4.",
                "error": None,
                "approval_request_id": None,
            },
            NEXT,
        ],
        ("What?", "Rolled a 4."),
    ),
    History(
        "shell, results with pictures, items of tomorrow",
        RESPONSES,
        [
            _ASKED,
            {"type": "function_call", "id": "fc_1", "call_id": "f", "name": "view_image", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "f", "output": [_IMAGE, text("It is red.", "input_text")]},
            {"type": "shell_call", "id": "sh_1", "call_id": "s", "status": "completed", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output",
                "call_id": "s",
                "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
            {"type": "telepathy_call", "id": "tp_1"},
            {"type": "mcp_dream", "id": "d"},
            NEXT,
        ],
        (NO_IMAGE, "It is red.", "a.txt"),
        ("input[2].output[0]", "input[5]", "input[6]"),
    ),
]
OF_OLLAMA = [
    History(
        "picture",
        OLLAMA,
        [said("user", "Look.", images=[PNG]), SEEN, NEXT],
        ("Look.", NO_IMAGE),
        ("messages[0].images[0]",),
    ),
    History(
        "picture of a tool",
        OLLAMA,
        [
            USER,
            said("assistant", "", tool_calls=[{"function": {"index": 0, "name": "shot", "arguments": {"x": 1}}}]),
            said("tool", "taken", tool_name="shot", images=[PNG]),
        ],
        ("taken", NO_IMAGE),
        ("messages[2].images[0]",),
    ),
    History(
        "pictures without a word",
        OLLAMA,
        [said("user", "", images=[PNG, PNG]), SEEN, NEXT],
        (f"{NO_IMAGE}\n{NO_IMAGE}",),
        ("messages[0].images[0]", "messages[0].images[1]"),
    ),
    History("thought", OLLAMA, [USER, said("assistant", "4", thinking="2 + 2", images=None), NEXT], ("2 + 2", "4")),
]
LM_STUDIO = [
    History(
        "picture",
        CHAT,
        [said("user", text("Look."), {"type": "image_url", "image_url": {"url": PNG}}), SEEN, NEXT],
        ("Look.", NO_IMAGE),
        ("messages[0].content[1]",),
    ),
    History(
        "picture over Responses",
        RESPONSES,
        [said("user", _IMAGE), said("assistant", "A square."), NEXT],
        (NO_IMAGE, "A square."),
        ("input[0].content[0]",),
    ),
]

HISTORIES = [*OPENAI, *GEMINI, *ANTHROPIC, *OF_RESPONSES, *OF_OLLAMA, *LM_STUDIO]
