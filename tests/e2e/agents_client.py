"""One tool's loop through openai-agents (chat and Responses, streamed and whole, with a type for the end) and through
smolagents: one line of JSON each. Usage: URL KEY.

Run with an interpreter that has both, since they hold other packages back.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import agents  # type: ignore[import-not-found,unused-ignore]
import openai
import smolagents  # type: ignore[import-not-found,unused-ignore]
from pydantic import BaseModel, ConfigDict

QUESTION = "What is the weather in Paris?"
CLOUDY = '{"temperature": 19, "sky": "cloudy"}'


class Weather(BaseModel):
    """What an agent ends with."""

    model_config = ConfigDict(extra="forbid")

    temperature: int


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def openai_agents(url: str, key: str) -> None:
    """Its runner calls the tool and asks again."""
    agents.set_tracing_disabled(True)
    asked: list[str] = []

    @agents.function_tool  # type: ignore[untyped-decorator,unused-ignore]
    def get_weather(city: str) -> str:
        """Get the weather in a city."""
        asked.append(city)
        return CLOUDY

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    settings = agents.ModelSettings(temperature=0, max_tokens=200)
    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        model = kind("demo", client)
        for output in (None, Weather):
            agent = agents.Agent(
                "Helper", model=model, tools=[get_weather], model_settings=settings, output_type=output
            )
            whole = await agents.Runner.run(agent, QUESTION, max_turns=4)
            streamed = agents.Runner.run_streamed(agent, QUESTION, max_turns=4)
            async for _ in streamed.stream_events():
                pass
            for how, made in (("whole", whole), ("streamed", streamed)):
                end = made.final_output if output is None else made.final_output.temperature
                _say(through=f"{kind.__name__}, {how}", typed=output is not None, answer=end, asked=asked[-1])
    await client.close()


class GetWeather(smolagents.Tool):  # type: ignore[misc,unused-ignore]
    name = "get_weather"
    description = "Get the weather in a city."
    inputs = {"city": {"type": "string", "description": "The city"}}  # noqa: RUF012
    output_type = "string"

    def forward(self, city: str) -> str:  # noqa: ARG002
        return CLOUDY


def smol(url: str, key: str) -> None:
    """The model alone: its agents' prompts are longer than the carried model's context."""
    model = smolagents.OpenAIModel("demo", api_base=f"{url}/v1", api_key=key, temperature=0, max_tokens=200)
    turns: list[Any] = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    called = model.generate(turns, tools_to_call_from=[GetWeather()])
    (call,) = called.tool_calls
    result = f"Observation:\n{CLOUDY}"
    turns += [called, {"role": "tool-response", "content": [{"type": "text", "text": result}]}]
    answer = model.generate(turns)
    arguments = call.function.arguments
    city = (json.loads(arguments) if isinstance(arguments, str) else arguments)["city"]
    _say(through="smolagents", typed=False, answer=answer.content, asked=city)


asyncio.run(openai_agents(*sys.argv[1:]))
smol(*sys.argv[1:])
