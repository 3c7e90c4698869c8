"""What instructor makes of a server, in each of its modes: one line of JSON a mode. Usage: URL KEY.

Run with an interpreter that has instructor, which no environment has together with the newest `openai`.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import instructor  # type: ignore[import-not-found,unused-ignore]
import openai
from pydantic import BaseModel, ConfigDict, Field


class Person(BaseModel):
    """Somebody."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=12)]
    age: Annotated[int, Field(ge=0, le=150)]


def main(url: str, key: str) -> None:
    """Ask for a person in each mode, without a second try."""
    messages: Any = [{"role": "user", "content": "Give me JSON with name and age: Mira is 34 years old."}]
    for mode in ("JSON_SCHEMA", "TOOLS", "TOOLS_STRICT", "JSON"):
        if not hasattr(instructor.Mode, mode):
            continue
        plain = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        client = instructor.from_openai(plain, mode=getattr(instructor.Mode, mode))
        asked = {"model": "demo", "messages": messages, "max_retries": 0, "max_tokens": 100, "temperature": 0}
        # In this mode the client asks for any object, and only tells the model of the schema: space as it learned it
        # helps the carried one to do so.
        more: Any = {"extra_body": {"guided_whitespace_pattern": " ?"}} if mode == "JSON" else {}
        made: Any = client.chat.completions.create(response_model=Person, **asked, **more)  # type: ignore[call-overload,unused-ignore]
        print(json.dumps({"mode": mode, "name": made.name, "age": made.age}), flush=True)


main(*sys.argv[1:])
