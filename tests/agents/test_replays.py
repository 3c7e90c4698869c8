"""Editors that no test can run here, by their requests' shapes: what each would see of an answer, in five formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.agents.agent_models import FORMATS
from tests.agents.conftest import LARGE, PATIENCE_S, AgentServer, Step, started
from tests.agents.replay_agents import CLAUDE_ASIDE
from tests.agents.replay_clients import CLIENTS
from tests.agents.replay_readers import Seen, SeenCall, told
from tests.agents.replay_shapes import Client, Results, Said

TASK = "Change hello to goodbye in a.txt"
ANSWER = 'Done: a.txt says "goodbye" — ✓\n\n```diff\n-hello\n+goodbye\n```'
QUESTION = "Are you sure?"
AGAIN = "Yes: it says goodbye."
ODD = '------- SEARCH\n\t"hello"\\n</b> {\'\n=======\ngoodbye — é🙂\n+++++++ REPLACE\n'
THOUGHT = "I look at the file first.\nIt may say <hello>."
XML = "<thinking>First I read.</thinking>\n\n<read_file>\n<path>a.txt</path>\n</read_file>"
XML_EDIT = f"Now I edit.\n\n<replace_in_file>\n<path>a.txt</path>\n<diff>\n{ODD}</diff>\n</replace_in_file>"
XML_DONE = f"<attempt_completion>\n<result>\n{ANSWER}\n</result>\n</attempt_completion>"
INVENTED = "\n\nThe file says something that I did not wait for, as weak models write it."


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


EDIT = {"old_text": ODD, "new_text": "goodbye"}
CONVERSATIONS: dict[str, list[Step]] = {
    "Cline": [
        {"thought": THOUGHT, "calls": [call("read_file", path="a.txt", task_progress="- [ ] read\n- [ ] edit")]},
        {"text": "Now I edit it.", "calls": [call("replace_in_file", absolutePath="/r/a.txt", diff=ODD)]},
        {"thought": "That was all.", "calls": [call("attempt_completion", result=ANSWER)]},
        {"calls": [call("attempt_completion", result=AGAIN)]},
    ],
    "Cline with XML": [
        {"thought": THOUGHT, "text": XML + INVENTED},
        {"text": XML_EDIT + INVENTED},
        {"thought": "That was all.", "text": XML_DONE + INVENTED},
        {"text": AGAIN},
    ],
    "Continue": [
        {"thought": THOUGHT, "calls": [call("read_currently_open_file")]},
        {
            "text": "Now I edit it.",
            "calls": [
                call("single_find_and_replace", filepath="a.txt", old_string=ODD, new_string="", replace_all=True)
            ],
        },
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN},
    ],
    "Zed": [
        {"thought": THOUGHT, "calls": [call("read_file", path="r/a.txt", start_line=1)]},
        {
            "text": "Now I edit it.",
            "calls": [call("edit_file", display_description="Edit", path="r/a.txt", mode="edit", edits=[EDIT, EDIT])],
        },
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN},
    ],
    "Open WebUI": [
        {"thought": THOUGHT, "calls": [call("search_notes", query=ODD, count=3)]},
        {"text": "Now I read them.", "calls": [call("read_note", note_id="1"), call("read_note", note_id="2")]},
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN, "asked": QUESTION},
    ],
    "Codex": [
        {"thought": THOUGHT, "calls": [call("exec_command", cmd="cat a.txt")]},
        {"text": "Now I edit.", "calls": [call("apply_patch", input=ODD)]},
        {"thought": "I add.", "calls": [call("mcp__demo__add", a=1, b=2), call("exec_command", cmd="ls", login=True)]},
        {"calls": [call("exec_command", cmd=f"echo '{ODD}'")]},
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN},
    ],
    "Claude Code": [
        {"thought": THOUGHT, "calls": [call("Read", file_path="/r/a.txt")]},
        {"text": "Now I edit.", "calls": [call("Edit", file_path="/r/a.txt", old_string=ODD, new_string="goodbye")]},
        {"calls": [call("Bash", command="cat a.txt"), call("Bash", command=f"echo '{ODD}'", timeout=1000)]},
        {"thought": "Once more.", "calls": [call("mcp__server__tool_7", what="check")]},
        {"text": "I read it again.", "calls": [call("Read", file_path="/r/a.txt", limit=20)]},
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN},
        {"thought": "He asks again.", "text": AGAIN},
    ],
    "opencode": [
        {"thought": THOUGHT, "calls": [call("read", filePath="a.txt", limit=20)]},
        {"text": "Now I look and edit.", "calls": [call("bash", command="ls"), call("bash", command=f"echo '{ODD}'")]},
        {"thought": "That was all.", "text": ANSWER},
        {"text": AGAIN},
    ],
}
"""What the model says, by who asks."""


def steps(format: str, asker: str) -> list[Step]:
    """Without thoughts where the format's model has none; Harmony's has one call in an answer.

    DeepSeek's thinks where it is asked to, as Claude Code does, and then in every answer.
    """
    thinks = format in ("hermes", "harmony") or (format, asker) == ("deepseek", "Claude Code")
    most = 1 if format == "harmony" else 2
    return [
        {
            **step,
            "thought": step.get("thought", "Hm." * (format == "deepseek")) if thinks else "",
            "calls": step.get("calls", [])[:most],
        }
        for step in CONVERSATIONS[asker]
    ]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], AgentServer]]:
    """The server of a format. There is one at a time: it ends, and its log is looked at, when another one is wanted."""
    servers: dict[str, AgentServer] = {}

    def end() -> None:
        for server in servers.values():
            told = {(line["status"], line.get("outcome")) for line in server.requests()}
            server.close()
            assert told <= {(200, None), (200, "client_gone")}
        servers.clear()

    def serve(format: str) -> AgentServer:
        if format not in servers:
            end()
            script = [{"for": f"You are {asker},", **step} for asker in CONVERSATIONS for step in steps(format, asker)]
            servers[format] = started(tmp_path_factory.mktemp(format), format, script)
        return servers[format]

    yield serve
    end()


def asked(server: AgentServer, client: Client, said: list[Said]) -> Seen:
    headers = {"authorization": "Bearer none", "x-api-key": ""}
    body = {"model": server.model, **client.body(said)}
    with (
        httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE_S, headers=headers) as http,
        http.stream("POST", client.path, json=body) as response,
    ):
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return client.read(response.iter_lines())


def asked_aside(server: AgentServer, path: str, body: dict[str, Any]) -> None:
    body = {"model": server.model, **body}
    response = httpx.post(f"{server.url}/{path}", json=body, trust_env=False, timeout=PATIENCE_S)
    assert response.status_code == 200, response.text


def meant(step: Step) -> Seen:
    calls = [SeenCall("", each["name"], each["arguments"]) for each in step.get("calls", ())]
    return Seen(step.get("text", ""), step.get("thought", ""), calls)


def test_a_client_finds_the_model_in_the_list(serve: Callable[[str], AgentServer]) -> None:
    """Cline (refreshOpenAiModels.ts) and Continue (openai-adapters) read `data[].id`."""
    server = serve(next(iter(FORMATS)))
    listed = httpx.get(f"{server.url}/models", trust_env=False, headers={"authorization": "Bearer none"}).json()
    assert server.model in [model["id"] for model in listed["data"]]


def combinations() -> Iterator[Any]:
    """Every client in one format, every format with two clients or more; exhaustive: all of them."""
    for number, format in enumerate(FORMATS):
        for place, client in enumerate(CLIENTS):
            is_tried = number == place % len(FORMATS)
            yield pytest.param(format, client, marks=() if is_tried else pytest.mark.exhaustive)


@pytest.mark.parametrize(("format", "name"), list(combinations()))
def test_a_client_sees_what_the_model_said_turn_after_turn(
    format: str, name: str, serve: Callable[[str], AgentServer]
) -> None:
    server, client = serve(format), CLIENTS[name]
    said: list[Said] = [TASK]
    for turn, step in enumerate(steps(format, client.name)):
        for path, body in CLAUDE_ASIDE if name == "claude-code" else ():
            aside = httpx.post(
                f"{server.url}/{path}", json={"model": server.model, **body}, trust_env=False, timeout=60
            )
            assert aside.status_code == 200, aside.text
        seen = asked(server, client, said)
        if name == "cline-xml" and step["text"].endswith(INVENTED):  # the connection is closed before the end
            seen.text = seen.text[: seen.text.rindex(">") + 1]
            step = {**step, "text": step["text"].removesuffix(INVENTED)}
        else:
            assert seen.finish in (None, "tool_calls" if step.get("calls") else "stop")
            assert seen.usage["prompt_tokens"] > LARGE
            if turn:
                assert seen.usage["prompt_tokens_details"]["cached_tokens"] >= 0.95 * seen.usage["prompt_tokens"], turn
        if name == "zed-responses":  # which has thoughts as they are, and Zed reads summaries
            step = {**step, "thought": ""}
        assert told(seen) == meant(step)
        assert len({each.id for each in seen.calls}) == len(seen.calls)
        said.append(seen)
        if seen.calls:
            said.append(Results([f"The file {number} says hello." for number in range(len(seen.calls))]))
        elif name == "cline-xml" and turn < 2:
            said.append(Results(["1 | hello"]))
        else:
            said.append(QUESTION)
