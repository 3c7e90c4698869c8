"""The five schemas of `benchmarks.structure`, from flat to recursive. Documents are longer than `max_tokens`.

Strings are short, since a model of random weights never ends one. Knows nothing of servers.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

WORD: Schema = {"type": "string", "minLength": 4, "maxLength": 16}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 99999}


def closed(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def many(items: Schema, count: int = 40) -> Schema:
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


FLAT = closed(**{f"{name}_{number}": kind for number in range(12) for name, kind in (("text", WORD), ("count", COUNT))})
NESTED = closed(
    people=many(
        closed(
            name=WORD,
            address=closed(street=WORD, number=COUNT, city=closed(name=WORD, code=COUNT)),
            tags=many(WORD, 2),
        )
    )
)
FORM = closed(
    measurements=many(
        closed(
            sensor_identifier=COUNT,
            temperature_in_celsius={"type": "integer", "minimum": -99, "maximum": 99},
            is_operational={"type": "boolean"},
            maintenance_status={"enum": ["operational", "maintenance required", "decommissioned"]},
        )
    )
)
"""More than half of it is names, which a grammar forces."""
ALTERNATIVES = closed(
    events=many(
        {
            "anyOf": [
                closed(kind={"const": "login"}, user=WORD, at={"type": "string", "format": "date-time"}),
                closed(kind={"const": "payment"}, amount={"type": "number"}, currency={"enum": ["EUR", "USD", "JPY"]}),
                closed(kind={"const": "note"}, text={"type": "string", "pattern": "^[A-Z][a-z ]{4,30}[.!]$"}),
            ]
        }
    )
)
_NODE: Schema = {
    "type": "object",
    "properties": {
        "name": WORD,
        "weight": COUNT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 2, "maxItems": 3},
    },
    "required": ["name", "weight"],
    "additionalProperties": False,
}
RECURSIVE = {**closed(trees=many({"$ref": "#/$defs/node"})), "$defs": {"node": _NODE}}

SCHEMAS: dict[str, Schema] = {
    "flat": FLAT,
    "nested": NESTED,
    "form": FORM,
    "alternatives": ALTERNATIVES,
    "recursive": RECURSIVE,
}
