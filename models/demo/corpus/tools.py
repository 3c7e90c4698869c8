"""Tools: calling the right one with the user's values, reporting its result, and knowing when none fits."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from . import tool_fillers as fill
from .grammar import (
    Check,
    Example,
    Generator,
    Message,
    Split,
    assistant,
    calls,
    is_call,
    mentions,
    mentions_one_of,
    say,
    tool_result,
    user,
)
from .name_lists import person
from .tool_box import ALIKE, KNOWS_ITSELF, Tool, random_tools, with_decoys
from .tool_catalog import CONCEPTS
from .tool_concept import Concept
from .tool_talk import (
    COMMAND,
    ERRORS,
    FAILED,
    FOLLOW_UP_COMMANDS,
    FOLLOW_UPS,
    NO_TOOL,
    POLITE,
    SMALL_TALK,
    SUCCESS,
    UNDOABLE,
    WHICH_TOOLS,
)

_ARTICLE = re.compile(r"\b([Aa])(?= \{(\w+)\})()")
_VOWEL = re.compile(r"[AEIOUaeiou]|8|1[18]\b")


def tool_call(rng: random.Random, split: Split) -> Example:
    """A question that one of the tools answers, and its call."""
    concept = rng.choice(CONCEPTS)
    question, values = _question(rng, split, concept)
    tool, tools = with_decoys(rng, concept, values, rng.choices((1, 2, 3, 4), (2, 4, 3, 2))[0])
    arguments = tool.arguments(values)
    messages = [user(question), calls(tool.name, arguments)]
    return Example("tool_call", messages, is_call(tool.name, arguments), tools)


def tool_answer(rng: random.Random, split: Split) -> Example:
    """A tool's result, reported to the user."""
    concept = rng.choice(CONCEPTS)
    question, values = _question(rng, split, concept)
    tool, tools = with_decoys(rng, concept, values, rng.choice((1, 1, 2)))
    messages, check = _used(rng, tool, question, values, fails=rng.random() < 0.2)
    return Example("tool_answer", messages, check, tools)


def tool_after(rng: random.Random, split: Split) -> Example:
    """A second question that depends on the first, and the second call."""
    concept = rng.choice(CONCEPTS)
    question, values = _question(rng, split, concept)
    follow_up, others = _follow_up(rng, split, concept, values)
    tool, tools = with_decoys(rng, concept, {**values, **others}, rng.choice((1, 1, 2)))
    arguments = tool.arguments({**values, **others} if concept.carries else others)
    before, _ = _used(rng, tool, question, values, fails=False)
    messages = [*before, user(follow_up), calls(tool.name, arguments)]
    return Example("tool_after", messages, is_call(tool.name, arguments), tools)


def tool_none(rng: random.Random, split: Split) -> Example:
    """A request that no tool fits."""
    kind = rng.random()
    count = rng.choices((1, 2, 3, 4), (3, 4, 2, 1))[0]
    if kind < 0.25:
        asked, answers, words = rng.choice(SMALL_TALK)
        question, answer = asked.say(rng, split, name=person(rng)), rng.choice(answers)
        return _uncalled(question, answer, mentions_one_of(*words), random_tools(rng, count))
    if kind < 0.35:
        tools = random_tools(rng, count)
        names = [str(tool["function"]["name"]) for tool in tools]
        *first, last = names
        answer = f"I have these tools: {', '.join(first)} and {last}." if first else f"I have one tool: {last}."
        return _uncalled(WHICH_TOOLS.say(rng, split), answer, mentions(*names), tools)
    if kind < 0.55:
        question = _polite(rng, split, UNDOABLE.say(rng, split, city=fill.city(rng), name=person(rng)))
        unfit = set("search shopping table file news message email light app directions trains".split())
    else:
        concept = rng.choice([concept for concept in CONCEPTS if concept.key not in KNOWS_ITSELF])
        question, _ = _question(rng, split, concept)
        unfit = {key for group in ALIKE if concept.key in group for key in group} | {concept.key}
    return _uncalled(question, NO_TOOL, mentions("no tool"), random_tools(rng, count, unfit))


def _uncalled(question: str, answer: str, says: Check, tools: list[dict[str, Any]]) -> Example:
    def check(given: str) -> bool:
        return "<tool_call>" not in given and says(given)

    return Example("tool_none", [user(question), assistant(answer)], check, tools)


def _question(rng: random.Random, split: Split, concept: Concept) -> tuple[str, dict[str, Any]]:
    """The user's question, and the values in it."""
    templates = concept.templates(split)
    skeleton = _skeleton(rng, rng.choice(templates), concept)
    if skeleton[0].islower():
        skeleton = _polite(rng, split, skeleton)
    return _filled(rng, skeleton, concept, {})


def _polite(rng: random.Random, split: Split, command: str) -> str:
    """A command with polite words around it; anything else unchanged."""
    if not command[0].islower():
        return command
    said = say(rng, rng.choice(POLITE.train if split == "train" else POLITE.held_out), x=command.rstrip("."))
    return said[0].upper() + said[1:]


def _follow_up(
    rng: random.Random, split: Split, concept: Concept, values: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """A second question with other values."""
    asked = rng.choice(concept.follow)
    frames = FOLLOW_UP_COMMANDS if COMMAND.match(asked) else FOLLOW_UPS
    skeleton = frames.say(rng, split, x=asked)
    if not skeleton.startswith("{"):
        skeleton = skeleton[0].upper() + skeleton[1:]
    return _filled(rng, skeleton, concept, values)


def _skeleton(rng: random.Random, template: str, concept: Concept) -> str:
    """The template with alternatives resolved and slots kept."""
    return say(rng, template, **{param.key: f"{{{param.key}}}" for param in concept.params})


def _filled(rng: random.Random, skeleton: str, concept: Concept, taken: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The text with unused values in its slots, and the values."""
    together = concept.together(rng)
    values: dict[str, Any] = {}
    spoken: dict[str, str] = {}
    for param in concept.params:
        if f"{{{param.key}}}" not in skeleton:
            continue
        value = together.get(param.key, param.fill(rng))
        while param.key not in together and value in (*values.values(), *taken.values()):
            value = param.fill(rng)
        values[param.key] = value
        spoken[param.key] = rng.choice(param.spoken[str(value)]) if param.spoken else str(value)
    text = _ARTICLE.sub(lambda found: found[1] + ("n" if _VOWEL.match(spoken[found[2]]) else "") + found[3], skeleton)
    return say(rng, text, **spoken), values


def _used(
    rng: random.Random, tool: Tool, question: str, values: dict[str, Any], *, fails: bool
) -> tuple[list[Message], Check]:
    """Question, call, result and answer, with the check of the answer."""
    called = [user(question), calls(tool.name, tool.arguments(values))]
    if fails:
        error = say(rng, f"[{tool.concept.errors}|{ERRORS}]", number=rng.randint(100, 999))
        form = rng.choice(({"error": error}, {"status": "error", "message": error}, f"Error: {error}"))
        answer = say(rng, rng.choice(FAILED), error=error)
        return [*called, tool_result(_text(form)), assistant(answer)], mentions(error)
    result, found = _result(rng, tool, values)
    template = _richest(rng, tool.concept.answers, {**values, **found})
    answer = say(rng, template, **{**values, **found})
    said = found or {key: values[key] for key in _slots(template)}
    wanted = mentions(*(str(said[key]) for key in _slots(template) if key in said))
    return [*called, tool_result(_text(result)), assistant(answer)], wanted


def _result(rng: random.Random, tool: Tool, values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The tool's result, and its values by slot."""
    if not tool.concept.result:
        return rng.choice(SUCCESS), {}
    found: dict[str, Any] = {}
    named: dict[str, Any] = tool.arguments(values) if rng.random() < 0.3 else {}
    derived = tool.concept.derive(values) if tool.concept.derive else {}
    for index, (names, make) in enumerate(tool.concept.result.items()):
        if index == 0 or rng.random() < 0.75:
            key = names.split()[0]
            found[key] = derived.get(key, make(rng))
            name = rng.choice([name for name in names.split() if name not in named])
            named[name] = found[key]
    if rng.random() < 0.15:
        return ", ".join(str(value) for value in found.values()) if len(found) == 1 else _listed(found), found
    return named, found


def _listed(found: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in found.items())


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result)


def _slots(template: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", template)


def _richest(rng: random.Random, templates: Sequence[str], values: dict[str, Any]) -> str:
    """One of the templates with the most fillable slots."""
    fit = [template for template in templates if all(slot in values for slot in _slots(template))]
    most = max(len(_slots(template)) for template in fit)
    return rng.choice([template for template in fit if len(_slots(template)) == most])


KINDS: dict[str, Generator] = {
    "tool_call": tool_call,
    "tool_answer": tool_answer,
    "tool_after": tool_after,
    "tool_none": tool_none,
}
