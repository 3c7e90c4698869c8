"""Tools of the server's MCP servers, used from the page: chosen in a chat's settings, run with or without asking."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta
from tests.mcp.test_responses_mcp import TOOL_SERVER
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, HANG, Step
from tests.ui.conftest import press, write
from tests.ui.test_chat import WAIT_FOR_ENDS

LAST = ".message.assistant:last-child"


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    import localllm.mcp.server_pool  # noqa: F401  before a request waits for it

    file = tmp_path_factory.mktemp("mcp") / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"tools": TOOL_SERVER}}), "utf-8")
    with running(Settings(port=0, grace_s=0.1, mcp_servers=file)) as served:
        yield served


def calls(name: str, arguments: str) -> list[Step]:
    """An answer that calls."""
    return [Delta("", 1, calls=(CallDelta(0, arguments, name, f"call_{name}"),)), Delta("", 1, FINISH)]


def text(content: str) -> list[Step]:
    return [Delta(content, 1), Delta("", 1, FINISH)]


def choose(page: Page, served: Served, tool: str, *, every: bool = False) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.click("#settings")
    page.get_by_label(tool, exact=True).check()
    if every:
        page.get_by_label("without asking").check()
    press(page, "OK")


def test_a_call_that_may_change_something_waits_for_a_press(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.scripts = [calls("tools_add", '{"a": 2, "b": 3}'), text("It is 5")]
    choose(page, equipped, "tools_add")
    write(page, "What is 2 + 3?")
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_be_visible()
    assert len(equipped.runtime.requests) == 1
    assert "tools_add" in str(equipped.runtime.requests[0].rendering.tools)
    run.click()
    expect(page.locator(f"{LAST} .body")).to_have_text("It is 5")
    expect(page.locator(".message.tool .body")).to_have_text("5")
    messages = equipped.runtime.requests[1].messages
    assert messages is not None
    assert (messages[-1].role, str(messages[-1].content)) == ("tool", "5")


def test_a_chat_that_runs_all_asks_nobody_and_tells_the_model_what_failed(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.scripts = [calls("tools_fail", "{}"), text("It failed")]
    choose(page, equipped, "tools_fail", every=True)
    write(page, "Fail, please")
    expect(page.locator(f"{LAST} .body")).to_have_text("It failed")
    expect(page.locator(".message.tool .body")).to_contain_text("The tool failed:")


def test_a_tool_that_is_run_can_be_stopped(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.scripts = [calls("tools_wait", "{}")]
    choose(page, equipped, "tools_wait", every=True)
    write(page, "Wait")
    expect(page.locator(f"{LAST} .status")).to_have_text("Running tools …")
    page.press("#field", "Escape")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
    assert len(equipped.runtime.requests) == 1


def test_calls_go_on_while_another_conversation_is_shown(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.scripts = [
        [Delta("Let me add", 1), HANG, *calls("tools_add", '{"a": 2, "b": 3}')],
        text("It is 5"),
    ]
    choose(page, equipped, "tools_add", every=True)
    write(page, "What is 2 + 3?")
    expect(page.locator(f"{LAST} .body")).to_have_text("Let me add")
    page.click("#new")
    page.evaluate(WAIT_FOR_ENDS, 2)
    equipped.runtime.answers[0].go_on()
    page.evaluate("ended")
    expect(page.locator(".message")).to_have_count(0)
    page.click(".chats .title >> text=What is")
    expect(page.locator(f"{LAST} .body")).to_have_text("It is 5")
    expect(page.locator(".message.tool .body")).to_have_text("5")
    assert len(equipped.runtime.requests) == 2


def test_calls_go_on_in_their_own_version_while_another_is_shown(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    first = [Delta("Let me add", 1), HANG, *calls("tools_add", '{"a": 2, "b": 3}')]
    equipped.runtime.scripts = [text("I do not know"), first, text("It is 5")]
    choose(page, equipped, "tools_add", every=True)
    write(page, "What is 2 + 3?")
    page.get_by_role("button", name="Regenerate", exact=True).click()
    expect(page.locator(f"{LAST} .body")).to_have_text("Let me add")
    page.click(f"{LAST} [aria-label='Previous version']")
    page.evaluate(WAIT_FOR_ENDS, 2)
    equipped.runtime.answers[1].go_on()
    page.evaluate("ended")
    expect(page.locator(f"{LAST} .body")).to_have_text("I do not know")
    expect(page.locator(".message")).to_have_count(2)
    page.click(f"{LAST} [aria-label='Next version']")
    expect(page.locator(f"{LAST} .body")).to_have_text("It is 5")
    expect(page.locator(".message.tool .body")).to_have_text("5")


def test_a_picture_that_a_tool_returns_is_shown_and_sent_as_one(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.reads = frozenset({"image"})
    equipped.runtime.scripts = [calls("tools_picture", "{}"), text("A square"), text("Red")]
    choose(page, equipped, "tools_picture", every=True)
    write(page, "Look")
    expect(page.locator(f"{LAST} .body")).to_have_text("A square")
    expect(page.locator(".message.tool .body")).to_have_text("see")
    expect(page.locator(".message.tool .files")).to_contain_text("image")
    page.reload()
    write(page, "Which color?")
    expect(page.locator(f"{LAST} .body")).to_have_text("Red")
    for asked in equipped.runtime.requests[1:]:
        (result,) = (message for message in asked.messages or () if message.role == "tool")
        assert (len(result.media), result.tool_call_id, "see" in result.parts) == (1, "call_tools_picture", True)
        assert [file.data for file in asked.media] == [b"\x89PNG"]


def test_a_model_that_only_calls_comes_to_an_end(page: Page, equipped: Served) -> None:
    equipped.runtime.reset()
    equipped.runtime.script = calls("tools_add", '{"a": 1, "b": 1}')
    choose(page, equipped, "tools_add", every=True)
    write(page, "Go")
    expect(page.locator(".message.tool")).to_have_count(20)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_visible()
    assert len(equipped.runtime.requests) == 21


def test_without_servers_no_tools_are_offered(page: Page, served: Served) -> None:
    page.goto(served.url)
    with page.expect_response("**/tools") as refused:
        page.click("#settings")
    assert refused.value.status == 403
    expect(page.get_by_label("Tools (JSON)")).to_be_visible()
    expect(page.locator("fieldset.tools")).to_be_hidden()
    press(page, "Cancel")
