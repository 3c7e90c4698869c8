"""Agents of libraries that speak the Responses API: pydantic-ai and LangChain run their loops through it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from localllm.types import CallDelta, Delta
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

END = Delta("", 0, FINISH)


class Forecast(BaseModel):
    """What an agent is to answer with."""

    city: str
    degrees: int


def call(name: str, arguments: dict[str, Any], number: int) -> list[Delta]:
    text = json.dumps(arguments)
    first, rest = CallDelta(number, text[:4], name, f"call_{name}{number}"), CallDelta(number, text[4:])
    return [Delta(calls=(first,), num_tokens=1), Delta(calls=(rest,), num_tokens=1)]


def results(served: Served) -> list[tuple[str, str]]:
    """Of the calls that the last request brings back: their name, and what they gave."""
    return [(each.name, each.content) for each in served.runtime.requests[-1].messages or () if each.role == "tool"]


@pytest.mark.parametrize("stream", [False, True])
def test_pydantic_ai_calls_two_tools_and_answers_with_its_type(served: Served, stream: bool) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    served.runtime.scripts = [
        [Delta(thought="Both."), *call("degrees", {"city": "Ulm"}, 0), *call("degrees", {"city": "Bonn"}, 1), END],
        [*call("final_result", {"city": "Ulm", "degrees": 3}, 0), END],
    ]

    async def run() -> Forecast:
        async with OpenAIProvider(base_url=f"{served.url}/v1", api_key="none") as provider:
            agent = Agent(OpenAIResponsesModel("tiny", provider=provider), output_type=Forecast)

            @agent.tool_plain
            def degrees(city: str) -> str:
                return f"3 in {city}"

            if not stream:
                return (await agent.run("Where is it warmer?")).output
            async with agent.run_stream("Where is it warmer?") as result:
                return await result.get_output()

    assert asyncio.run(run()) == Forecast(city="Ulm", degrees=3)
    assert results(served) == [("degrees", "3 in Ulm"), ("degrees", "3 in Bonn")]
    said = [each for each in served.runtime.requests[-1].messages or () if each.role == "assistant"]
    assert [(each.thought, len(each.tool_calls)) for each in said] == [("Both.", 2)]


@pytest.mark.parametrize("stream", [False, True])
def test_langchain_binds_tools_and_sends_what_they_gave(served: Served, stream: bool) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    served.runtime.scripts = [
        [Delta("I look."), *call("get_weather", {"city": "Ulm"}, 0), END],
        [Delta("Rain.", 1, FINISH)],
    ]
    url = f"{served.url}/v1"
    chat = ChatOpenAI(model="tiny", base_url=url, api_key=SecretStr("none"), use_responses_api=True, max_retries=0)

    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    model = chat.bind_tools([get_weather])
    history: list[Any] = [HumanMessage("Hi")]

    def answered() -> Any:
        if not stream:
            return model.invoke(history)
        chunks = list(model.stream(history))
        return sum(chunks[1:], chunks[0])

    first = answered()
    (made,) = first.tool_calls
    assert (made["name"], made["args"]) == ("get_weather", {"city": "Ulm"})
    history += [first, ToolMessage(get_weather(**made["args"]), tool_call_id=made["id"])]
    assert answered().text == "Rain."
    assert results(served) == [("get_weather", "rain in Ulm")]
    said = [each for each in served.runtime.requests[-1].messages or () if each.role == "assistant"]
    assert [(each.content, [one.name for one in each.tool_calls]) for each in said] == [("I look.", ["get_weather"])]
