"""The tools that an example gives to the model, under names chosen each time, so that it must read them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .name_lists import made_up
from .tool_catalog import CONCEPTS
from .tool_concept import Concept, Param

_BY_KEY = {concept.key: concept for concept in CONCEPTS}
_MOST_CHARACTERS = 950
"""Limit on the definitions of an example, as JSON."""
_RIVALS = tuple(
    line.split()
    for line in (
        "timer alarm reminder time",
        "message email note translate",
        "weather time thermostat",
        "currency units stock",
        "calculator units currency dice",
        "arithmetic currency dice",
        "search file music app",
        "define translate search news",
        "light thermostat",
        "note event reminder shopping",
        "directions trains",
        "table event",
    )
)
"""Tools that are easily confused: often given together."""
ALIKE = tuple(
    line.split()
    for line in (
        "timer alarm reminder",
        "calculator arithmetic currency units",
        "message email",
        "note event reminder shopping",
        "directions trains search",
        "search define news translate weather time stock currency units table directions trains",
        "music app",
        "search file",
        "table event message email",
    )
)
"""Tools that could do the work of another one in the line, which are thus not examples of "no tool fits"."""
_NEVER_TOGETHER = ({"calculator", "arithmetic"}, {"search", "news"}, {"directions", "trains"}, {"search", "define"})
KNOWS_ITSELF = ("calculator", "arithmetic", "define")
"""What the model answers or attempts without tools."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as given to the model in an example: its concept, its name and the names of its parameters."""

    concept: Concept
    name: str
    params: list[tuple[Param, str]]
    definition: dict[str, Any]

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        """Those values by the names of the parameters, in their order."""
        return {name: values[param.key] for param, name in self.params if param.key in values}


def random_tools(rng: random.Random, count: int, avoid: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Definitions of some tools, excluding concepts to avoid."""
    return [tool.definition for tool in _with_others(rng, [], count, set(avoid))]


def with_decoys(
    rng: random.Random, concept: Concept, values: dict[str, Any], count: int
) -> tuple[Tool, list[dict[str, Any]]]:
    """A tool for the concept, and the definitions of it and of others, in random order."""
    tool = _tool(rng, concept, values)
    tools = _with_others(rng, [tool], count, set())
    rng.shuffle(tools)
    return tool, [each.definition for each in tools]


def _with_others(rng: random.Random, tools: list[Tool], count: int, avoid: set[str]) -> list[Tool]:
    """These tools and others up to a count, fewer if they get long."""
    tools = list(tools)
    while len(tools) < count:
        given = {tool.concept.key for tool in tools}
        rivals = [key for group in _RIVALS if given & set(group) for key in group]
        keys = rivals if rivals and rng.random() < 0.45 else list(_BY_KEY)
        key = rng.choice(keys)
        if key in given | avoid or any(key in pair and pair & given for pair in _NEVER_TOGETHER):
            if tools and rng.random() < 0.05:
                break
            continue
        tools.append(_tool(rng, _BY_KEY[key], {}))
        if sum(len(json.dumps(tool.definition)) for tool in tools) > _MOST_CHARACTERS:
            return tools[:-1] if len(tools) > 1 else tools
    return tools


def _tool(rng: random.Random, concept: Concept, values: dict[str, Any]) -> Tool:
    """A tool with random names that takes at least those values."""
    params: list[tuple[Param, str]] = []
    for param in concept.params:
        if param.optional and param.key not in values and rng.random() < 0.6:
            continue
        taken = [name for _, name in params]
        params.append((param, rng.choice([name for name in param.names.split() if name not in taken])))
    if rng.random() < 0.2:
        rng.shuffle(params)
    name = _name(rng, concept)
    function = {
        "name": name,
        "description": rng.choice(concept.descriptions) + rng.choice(("", "", ".")),
        "parameters": {
            "type": "object",
            "properties": {called: _schema(rng, param) for param, called in params},
            "required": [called for param, called in params if not param.optional],
        },
    }
    return Tool(concept, name, params, {"type": "function", "function": function})


def _name(rng: random.Random, concept: Concept) -> str:
    """The tool's name: mostly descriptive, sometimes in another style, occasionally a made-up word."""
    chance = rng.random()
    if chance < 0.04:
        return made_up(rng).lower() + rng.choice(("", "", "_tool", f"_{rng.randint(1, 99)}"))
    name = rng.choice(concept.names)
    if chance < 0.15:
        first, *others = name.split("_")
        return first + "".join(word.capitalize() for word in others)
    if chance < 0.28:
        return rng.choice(("my_{}", "do_{}", "home_{}", "{}_tool", "{}_api", "{}_v2", "{}_app", "{}2")).format(name)
    return name


def _schema(rng: random.Random, param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "number" if param.type == "integer" and rng.random() < 0.3 else param.type}
    if rng.random() < 0.75:
        schema["description"] = rng.choice(param.descriptions.split("|"))
    if param.enum and (param.spoken or rng.random() < 0.8):
        schema["enum"] = list(param.enum)
    return schema
