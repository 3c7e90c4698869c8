"""The page's check of an answer against its schema agrees with the library `jsonschema`."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.later import jsonschema
from tests.server.conftest import Served

FITS = """
async ([value, schema]) => (await import("/ui/schema.js")).problems(value, schema).size === 0
"""
VALUES: list[Any] = [
    None, True, 0, 1, -1.5, 7, "", "a", "abc", "é😀", [], [1], [1, "a"], ["a", 1, None], {}, {"name": "Mira"},
    {"name": 7}, {"name": "Mira", "age": 3}, {"name": "x", "child": {"name": "y", "child": {"name": 1}}}, {"other": 1},
]  # fmt: skip
SCHEMAS: list[Any] = [
    {"type": "integer"}, {"type": ["string", "null"]}, {"enum": [1, "a", None, [1]]}, {"const": {"name": "Mira"}},
    {"minimum": 0, "maximum": 1}, {"exclusiveMinimum": 0, "exclusiveMaximum": 7}, {"minLength": 2, "maxLength": 3},
    {"pattern": "^a"}, {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, {"required": ["name"]},
    {"properties": {"name": {"type": "string"}}, "additionalProperties": False},
    {"properties": {"name": {}}, "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "string"}, {"minimum": 1}]}, {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    {"allOf": [{"type": "object"}, {"required": ["age"]}]}, {"not": {"type": "string"}}, True, False,
    {
        "$ref": "#/$defs/person",
        "$defs": {
            "person": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/person"}},
                "required": ["name"],
            }
        },
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def blank(browser: Browser, scripted: Served) -> Page:
    page = browser.new_page()
    page.goto(scripted.url)
    return page


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_value_fits_where_the_library_says_so(blank: Page, schema: Any) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    for value in VALUES:
        assert blank.evaluate(FITS, [value, schema]) == validator.is_valid(value), value
