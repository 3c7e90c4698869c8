"""Requests for structured answers, under every name that clients of several servers send, down to one `Structure`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.server.apis.openai.requests import parse_chat, parse_completion
from localllm.server.apis.responses.requests import ResponseRequest, parse_response
from localllm.server.apis.responses.tools import OfferedTools
from localllm.server.requests.structures import JsonSchema, ResponseFormat
from localllm.types.structures import MAX_SOURCE_BYTES, Structure
from tests.later import openai
from tests.server.conftest import Served

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = '{"type": "object",  "properties": {"zebra": {"const": 1e2}, "apple": {"type":"string"}}}'
"""Neither sorted nor spaced as anybody's encoder would."""
GBNF = 'root ::= "yes" | "no"'
TAG = {"type": "structural_tag", "structures": [{"begin": "<a>", "schema": {}, "end": "</a>"}], "triggers": ["<a>"]}


def structure_of(fields: str) -> Structure | None:
    """Of a chat request with these fields, and of a plain completion, which takes the same."""
    message = '"messages": [{"role": "user", "content": "Hi"}]'
    (chat,) = parse_chat(f'{{"model": "m", {message}, {fields}}}'.encode())[0].generations(most=1)
    (text,) = parse_completion(f'{{"model": "m", "prompt": "Hi", {fields}}}'.encode())[0].generations(most=1)
    assert chat.structure == text.structure
    return chat.structure


def json_schema(param: str, **more: Any) -> Structure:
    return Structure(kind="json_schema", source=SCHEMA, param=param, **more)


@pytest.mark.parametrize(
    ("fields", "structure"),
    [
        # OpenAI's.
        (
            f'"response_format": {{"type": "json_schema", "json_schema": {{"name": "n", "schema": {SCHEMA}}}}}',
            json_schema("response_format.json_schema.schema"),
        ),
        (
            f'"response_format": {{"json_schema": {{"strict": true, "schema":{SCHEMA} , "name": "n"}},'
            '"type": "json_schema"}',
            json_schema("response_format.json_schema.schema"),
        ),
        ('"response_format": {"type": "json_object"}', Structure(kind="json_object")),
        (
            '"response_format": {"type": "json_object", "close_at_limit": true}',
            Structure(kind="json_object", close_at_limit=True),
        ),
        (
            f'"response_format": {{"type": "json_schema", "json_schema": {{"close_at_limit": true, "schema": {SCHEMA}}}'
            "}",
            json_schema("response_format.json_schema.schema", close_at_limit=True),
        ),
        # llama-server's: an absent or empty schema means any object.
        (
            f'"response_format": {{"type": "json_object", "schema": {SCHEMA}}}',
            json_schema("response_format.schema"),
        ),
        (
            f'"response_format": {{"type": "json_schema", "schema": {SCHEMA}}}',
            json_schema("response_format.schema"),
        ),
        ('"response_format": {"type": "json_object", "schema": { }}', Structure(kind="json_object")),
        (
            '"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}',
            Structure(kind="json_object"),
        ),
        (f'"json_schema": {SCHEMA}', json_schema("json_schema")),
        ('"json_schema": {}', Structure(kind="json_object", param="json_schema")),
        (f'"grammar": {json.dumps(GBNF)}', Structure(kind="gbnf", source=GBNF, param="grammar")),
        # vLLM's.
        (f'"guided_json": {SCHEMA}', json_schema("guided_json")),
        (f'"guided_json": {json.dumps(SCHEMA)}', json_schema("guided_json")),
        (
            f'"guided_json": {SCHEMA}, "guided_whitespace_pattern": " ?", "guided_decoding_backend": "outlines"',
            json_schema("guided_json", whitespace_pattern=" ?"),
        ),
        ('"guided_regex": "[a-z]+"', Structure(kind="regex", source="[a-z]+", param="guided_regex")),
        ('"guided_choice": ["é", "b"]', Structure(kind="choice", source='["é","b"]', param="guided_choice")),
        (f'"guided_grammar": {json.dumps(GBNF)}', Structure(kind="gbnf", source=GBNF, param="guided_grammar")),
        ('"guided_grammar": "start: \\"a\\""', Structure(kind="lark", source='start: "a"', param="guided_grammar")),
        (f'"structured_outputs": {{"json": {SCHEMA}}}', json_schema("structured_outputs.json")),
        (
            f'"structured_outputs": {{"json": {json.dumps(SCHEMA)}, "whitespace_pattern": "\\\\n", "regex": null}}',
            json_schema("structured_outputs.json", whitespace_pattern="\\n"),
        ),
        (
            '"structured_outputs": {"json_object": true, "disable_any_whitespace": true}',
            Structure(kind="json_object", param="structured_outputs.json_object", whitespace="minimal"),
        ),
        (
            '"structured_outputs": {"choice": ["a"]}',
            Structure(kind="choice", source='["a"]', param="structured_outputs.choice"),
        ),
        (
            '"structured_outputs": {"regex": "a|b", "disable_additional_properties": false}',
            Structure(kind="regex", source="a|b", param="structured_outputs.regex"),
        ),
        (
            f'"structured_outputs": {{"structural_tag": {json.dumps(json.dumps(TAG))}}}',
            Structure(kind="structural_tag", source=json.dumps(TAG), param="structured_outputs.structural_tag"),
        ),
        (
            f'"structural_tag": {json.dumps(json.dumps(TAG))}',
            Structure(kind="structural_tag", source=json.dumps(TAG), param="structural_tag"),
        ),
        # Ours.
        (
            '"response_format": {"type": "regex", "regex": "x+"}',
            Structure(kind="regex", source="x+", param="response_format.regex"),
        ),
        (
            '"response_format": {"type": "choice", "choice": ["x", ""]}',
            Structure(kind="choice", source='["x",""]', param="response_format.choice"),
        ),
        (
            '"response_format": {"type": "lark", "lark": "start: /x/"}',
            Structure(kind="lark", source="start: /x/", param="response_format.lark"),
        ),
        (
            f'"response_format": {{"type": "grammar", "grammar": {json.dumps(GBNF)}}}',
            Structure(kind="gbnf", source=GBNF, param="response_format.grammar"),
        ),
        (
            f'"response_format": {{"type": "json_schema", "whitespace": "pretty", "schema": {SCHEMA}}}',
            json_schema("response_format.schema", whitespace="pretty"),
        ),
        (
            '"response_format": {"type": "json_schema", "json_schema": {"whitespace": "pretty"}}',
            Structure(kind="json_object", whitespace="pretty"),
        ),
        ('"response_format": {"type": "json_schema", "schema": true}', Structure(kind="json_schema", source="true")),
    ],
)
def test_a_structure_is_understood_under_every_name_and_a_schema_stays_as_it_was_written(
    fields: str, structure: Structure
) -> None:
    found = structure_of(fields)
    if structure.source == "true":
        assert found is not None
        assert (found.kind, found.source) == ("json_schema", "true")
        return
    assert found == structure


@pytest.mark.parametrize("pattern", [" ?", "[ ]?", r"[\n\t ]*", "(?: |\n {0,8})?", r"(\n|\x20){0,3}", "[ \t\r\n]*"])
def test_any_pattern_of_jsons_whitespace_is_taken(pattern: str) -> None:
    found = structure_of(f'"structured_outputs": {{"json": {{}}, "whitespace_pattern": {json.dumps(pattern)}}}')
    assert found is not None
    assert found.whitespace_pattern == pattern


def test_a_structural_tag_keeps_its_schemas_as_they_were_written() -> None:
    tag = f'"structures": [{{"begin": "<a>", "schema": {SCHEMA}, "end": "</a>"}}], "triggers": ["<a>"]'
    found = structure_of(f'"response_format": {{"type": "structural_tag", {tag}}}')
    assert found is not None
    assert (found.kind, found.param) == ("structural_tag", "response_format")
    assert SCHEMA in found.source
    assert json.loads(found.source) == json.loads(f'{{"type": "structural_tag", {tag}}}')


@pytest.mark.parametrize(
    "fields",
    [
        '"response_format": null',
        '"response_format": {"type": "text"}',
        '"response_format": {"type": "text", "json_schema": null, "schema": null}',
        '"json_schema": null, "grammar": ""',
        '"grammar": null, "guided_regex": "", "guided_choice": [], "guided_grammar": "", "guided_json": null',
        '"structural_tag": null, "structured_outputs": null, "guided_whitespace_pattern": ""',
        '"reasoning_budget_tokens": -1, "thinking_budget_tokens": null',
        '"grammar_lazy": false, "grammar_triggers": [], "regex": "", "ebnf": null',
    ],
)
def test_what_asks_for_nothing_is_free_text(fields: str) -> None:
    assert structure_of(fields) is None


@pytest.mark.parametrize(
    ("change", "code", "param", "named"),
    [
        ({"response_format": {"type": "json_object"}, "grammar": GBNF}, 0, "grammar", "response_format and grammar"),
        ({"guided_json": {"a": 1}, "guided_regex": "x"}, 0, "guided_regex", "guided_json and guided_regex"),
        ({"json_schema": {}, "structured_outputs": {"regex": "x"}}, 0, "structured_outputs", "json_schema and"),
        (
            {"structured_outputs": {"regex": "x", "choice": ["a"]}},
            0,
            "structured_outputs.choice",
            "structured_outputs.regex and structured_outputs.choice",
        ),
        ({"structured_outputs": {}}, 0, "structured_outputs", "json_object"),
        ({"structured_outputs": {"choices": ["a"]}}, 0, "structured_outputs", "choice"),
        ({"structured_outputs": {"disable_additional_properties": True}}, 1, None, "additionalProperties"),
        (
            {"structured_outputs": {"json": {}, "disable_any_whitespace": True, "whitespace_pattern": " "}},
            0,
            "structured_outputs.whitespace_pattern",
            "mutually exclusive",
        ),
        ({"guided_whitespace_pattern": " "}, 0, "guided_whitespace_pattern", "requires"),
        ({"guided_whitespace_pattern": " ", "guided_regex": "x"}, 0, "guided_whitespace_pattern", "requires"),
        *[
            ({"guided_json": {}, "guided_whitespace_pattern": pattern}, 0, "guided_whitespace_pattern", "whitespace")
            for pattern in ("x", ".?", "[^ ]", r"\s*", "[ -~]", "(?i: )", r"\u0020", "\u00a0", "(?:" * 5000 + "!")
        ],
        ({"response_format": {}}, 0, "response_format.type", "missing"),
        ({"response_format": []}, 0, "response_format", "object"),
        ({"response_format": "json"}, 0, "response_format", "object"),
        ({"response_format": {"type": "yaml"}}, 0, "response_format.type", "yaml"),
        ({"response_format": {"type": "json_schema"}}, 0, "response_format.json_schema", "missing"),
        ({"response_format": {"type": "json_schema", "json_schema": 5}}, 0, "response_format.json_schema", "object"),
        ({"response_format": {"type": "json_object", "json_schema": {}}}, 0, "response_format.json_schema", "type"),
        ({"response_format": {"type": "text", "schema": {}}}, 0, "response_format.schema", "'text'"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}, "schema": {}}},
            0,
            "response_format.schema",
            "mutually exclusive",
        ),
        *[
            (
                {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
                0,
                "response_format.json_schema.schema",
                "object",
            )
            for schema in ("{}", 5, 1.5, [], [{"type": "object"}], "object")
        ],
        ({"json_schema": "nonsense"}, 0, "json_schema", "JSON"),
        ({"json_schema": '{"a": 1'}, 0, "json_schema", "JSON"),
        ({"json_schema": "[" * 2000}, 0, "json_schema", "JSON"),
        ({"guided_json": [{}]}, 0, "guided_json", "object"),
        ({"response_format": {"type": "regex"}}, 0, "response_format.regex", "missing"),
        ({"response_format": {"type": "regex", "regex": 5}}, 0, "response_format.regex", "str"),
        ({"response_format": {"type": "choice", "choice": []}}, 0, "response_format.choice", "missing"),
        ({"response_format": {"type": "choice", "choice": [1]}}, 0, "response_format.choice[0]", "str"),
        ({"response_format": {"type": "structural_tag"}}, 0, "response_format.format", "missing"),
        ({"response_format": {"type": "structural_tag", "format": []}}, 0, "response_format.format", "object"),
        ({"response_format": {"type": "structural_tag", "structures": {}}}, 0, "response_format.structures", "array"),
        ({"response_format": {"type": "json_object", "whitespace": "wide"}}, 0, "response_format.whitespace", "wide"),
        ({"grammar": ["root"]}, 0, "grammar", "str"),
        ({"grammar": GBNF, "ignore_eos": True}, 0, "ignore_eos", "grammar"),
        ({"grammar": GBNF, "grammar_lazy": True}, 1, "grammar_lazy", "grammar_lazy"),
        ({"regex": "x"}, 1, "regex", "regex"),
        ({"grammar": GBNF, "thinking_budget_tokens": -2}, 0, "thinking_budget_tokens", "-1"),
        (
            {"grammar": GBNF, "thinking_budget_tokens": 2, "reasoning_budget_tokens": 3},
            0,
            "reasoning_budget_tokens",
            "differ",
        ),
        ({"grammar": "x" * MAX_SOURCE_BYTES + "y"}, 0, "grammar", "1000000"),
    ],
)
def test_what_is_wrong_or_asked_for_twice_is_a_400_that_names_it(
    large_served: Served, change: dict[str, object], code: int, param: str | None, named: str
) -> None:
    for path, body in (("chat/completions", CHAT), ("completions", {"model": "tiny", "prompt": "Hi"})):
        response = large_served.http.post(f"/v1/{path}", json={**body, **change})
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert error["code"] == ("invalid_parameter", "unsupported_parameter")[code]
        assert error["param"] == (param or "structured_outputs.disable_additional_properties")
        assert named in error["message"]
    assert large_served.runtime.asked == []


@pytest.mark.parametrize("field", ["reasoning_budget_tokens", "thinking_token_budget", "thinking_budget"])
def test_a_budget_of_thoughts_needs_a_chat_or_a_structure(large_served: Served, field: str) -> None:
    text = {"model": "tiny", "prompt": "Hi"}
    response = large_served.http.post("/v1/completions", json={**text, field: 5})
    assert response.status_code == 400
    assert (response.json()["error"]["code"], response.json()["error"]["param"]) == ("unsupported_parameter", field)
    for path, body in (("chat/completions", CHAT), ("completions", {**text, "grammar": GBNF})):
        assert large_served.http.post(f"/v1/{path}", json={**body, field: 5}).status_code == 200
    assert [request.thinking_budget for request in large_served.runtime.requests] == [5, 5]


def test_a_schema_that_is_nested_too_deeply_for_any_reader_is_a_400(large_served: Served) -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * 20_000 + "1" + closing * 20_000
        body = f'{{"model": "tiny", "prompt": "x", "response_format": {{"type": "json_schema", "schema": {deep}}}}}'
        response = large_served.http.post(
            "/v1/completions", content=body.encode(), headers={"content-type": "application/json"}
        )
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_parameter")


def test_a_schema_that_is_not_utf_8_is_a_400(served: Served) -> None:
    body = b'{"model": "tiny", "prompt": "x", "json_schema": {"title": "\xff"}}'
    response = served.http.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_parameter")


def test_fields_in_a_format_that_are_nobodys_are_named_in_a_header(served: Served) -> None:
    shape = {"type": "json_schema", "zeal": 1, "json_schema": {"name": "n", "schema": {"zeal": 2}, "title": "x"}}
    response = served.http.post("/v1/chat/completions", json={**CHAT, "response_format": shape})
    assert response.status_code == 200
    assert response.headers["x-localllm-ignored"] == "response_format.zeal, response_format.json_schema.title"
    outputs = {"regex": "x", "zeal": 1}
    response = served.http.post("/v1/chat/completions", json={**CHAT, "structured_outputs": outputs})
    assert response.headers["x-localllm-ignored"] == "structured_outputs.zeal"


def test_a_budget_of_the_thought_goes_with_the_structure() -> None:
    for name in ("reasoning_budget_tokens", "thinking_budget_tokens", "thinking_token_budget"):
        body = f'{{"model": "m", "prompt": "x", "guided_regex": "a", "{name}": 7}}'
        (request,) = parse_completion(body.encode())[0].generations(most=1)
        assert request.thinking_budget == 7
    (request,) = parse_completion(body.replace("7", "-1").encode())[0].generations(most=1)
    assert request.thinking_budget is None


def test_every_answer_of_several_has_the_structure(served: Served) -> None:
    response = served.http.post("/v1/chat/completions", json={**CHAT, "n": 3, "guided_choice": ["a"]})
    assert response.status_code == 200
    wanted = Structure(kind="choice", source='["a"]', param="guided_choice")
    assert [request.structure for request in served.runtime.requests] == [wanted] * 3


def test_a_response_has_its_structure_in_its_text_format() -> None:
    flat = f'{{"type": "json_schema", "name": "n", "strict": true, "schema": {SCHEMA}, "zeal": 1}}'
    cases = [
        (flat, json_schema("text.format.schema"), ["text.format.zeal"]),
        ('{"type": "json_object"}', Structure(kind="json_object", param="text.format"), []),
    ]
    for format, structure, ignored in cases:
        body = f'{{"model": "m", "input": "x", "text": {{"format": {format}}}}}'
        parsed = parse_response(body.encode(), ResponseRequest)
        said = parsed.request.taken([], lambda _: None).items
        assert parsed.request.generation(said, OfferedTools()).structure == structure
        assert parsed.ignored == ignored


def test_openais_own_fields_of_a_format_are_all_known() -> None:
    """Of both APIs: the chat API's wrapper and the Responses API's flat form."""
    known = set(ResponseFormat.__struct_encode_fields__)
    nested = openai.types.shared_params.response_format_json_schema
    assert set(nested.ResponseFormatJSONSchema.__annotations__) <= known
    assert set(nested.JSONSchema.__annotations__) <= set(JsonSchema.__struct_encode_fields__)
    flat = openai.types.responses.ResponseFormatTextJSONSchemaConfigParam
    assert set(flat.__annotations__) <= known
    assert flat in openai.types.responses.ResponseFormatTextConfigParam.__args__  # type: ignore[attr-defined]
