"""What the requests of all clients are made of: what was said so far, tools, calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.agents.replay_readers import Json, Seen, SeenCall


class Results(NamedTuple):
    """What the tools of an answer gave."""

    texts: list[str]


Said = str | Seen | Results
"""By the user, by the model, by the tools."""


@dataclass(frozen=True)
class Client:
    """`body` gives a whole request but for its model; `read` takes the lines of the answer."""

    name: str
    tools: Sequence[Json]
    body: Callable[[Sequence[Said]], Json]
    read: Callable[[Iterable[str]], Seen]
    path: str = "chat/completions"


def rules(name: str) -> str:
    """A system prompt as long as theirs."""
    written = [
        f"{number}. Before step {number}, read what the user asked for, look at file {number} of the project, and do "
        f"no more than was asked. Say in one sentence what you did."
        for number in range(150)
    ]
    return "\n".join([f"You are {name}, an agent that edits code.", *written])


def tool(name: str, description: str, required: Sequence[str], /, **properties: Any) -> Json:
    parameters: Json = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def string(description: str) -> Json:
    return {"type": "string", "description": description}


def text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def sent_calls(calls: Sequence[SeenCall]) -> list[Json]:
    """Their arguments are written anew of what was parsed, as JSON.stringify does."""
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")),
            },
        }
        for call in calls
    ]


def last_calls(said: Sequence[Said]) -> list[SeenCall]:
    """Of the last answer before some results."""
    return next(one.calls for one in reversed(said) if isinstance(one, Seen))
