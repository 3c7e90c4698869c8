"""Every function of the page with the keyboard alone: nothing here points, clicks or sets the focus."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from localllm.types import CallDelta, Delta
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH, HANG
from tests.ui.conftest import answered

LAST = ".message.assistant:last-child"
NAME = """
() => {
    const node = document.activeElement;
    return node.getAttribute("aria-label") || node.labels?.[0]?.textContent || node.placeholder || node.textContent;
}
"""


def go(page: Page, name: str) -> None:
    """Press Tab until what has this name has the focus."""
    seen = []
    for _ in range(90):
        page.keyboard.press("Tab")
        seen.append(str(page.evaluate(NAME)).strip())
        if seen[-1].startswith(name):
            return
    raise AssertionError(f"Tab never comes to {name}: {seen}")


def press(page: Page, name: str) -> None:
    go(page, name)
    page.keyboard.press("Enter")


def out_of_the_field(page: Page) -> None:
    page.keyboard.press("Escape")


def script(served: Served, *texts: str) -> None:
    served.runtime.script = [*(Delta(text, 1) for text in texts), Delta("", 1, FINISH)]


def ask(page: Page, text: str) -> None:
    page.keyboard.press("m")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_a_conversation(page: Page, served: Served, tmp_path: Path) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    script(served, "First\n\n```py\nx = 1\n```")
    ask(page, "Question")
    answered(page)
    out_of_the_field(page)
    script(served, "Second")
    page.keyboard.press("r")
    expect(page.locator(f"{LAST} .body")).to_have_text("Second")
    answered(page)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(f"{LAST} .body")).to_contain_text("First")
    press(page, "Copy")  # of the code
    expect(page.locator(f"{LAST} .code button.small")).to_have_text("Copied")
    served.runtime.script = [Delta("Half", 1), HANG]
    page.keyboard.press("r")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    page.keyboard.press("Escape")
    expect(page.locator(f"{LAST} .status")).to_have_text("Stopped.")
    script(served, " and whole")
    page.keyboard.press("c")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half and whole")
    answered(page)
    script(served, "Other")
    page.keyboard.press("e")
    page.keyboard.type(" in other words")
    page.keyboard.press("Control+Enter")
    expect(page.locator(f"{LAST} .body")).to_have_text("Other")
    page.keyboard.press("k")
    expect(page.locator(LAST)).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator(".message.user")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(LAST)).to_be_focused()
    note = tmp_path / "note.txt"
    note.write_text("Words")
    page.keyboard.press("m")
    with page.expect_file_chooser() as chooser:
        press(page, "Attach files")
    chooser.value.set_files(note)
    expect(page.locator(".chip .name")).to_have_text("note.txt")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Delete")
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator("#field")).to_be_focused()


def test_settings_thoughts_tools_and_json(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.keyboard.press("s")
    go(page, "System message")
    page.keyboard.type("Be brief.")
    go(page, "Temperature")
    page.keyboard.type("0.5")
    go(page, "JSON schema")
    page.keyboard.type('{"type": "object"}')
    go(page, "Tools (JSON)")
    page.keyboard.type('[{"name": "weather"}]')
    press(page, "OK")
    call = CallDelta(0, "{}", "weather", "call_1")
    served.runtime.script = [Delta("", 1, thought="Hmm."), Delta("", 1, calls=(call,)), Delta("", 1, FINISH)]
    ask(page, "How warm is it?")
    expect(page.locator(f"{LAST} .call")).to_contain_text("weather")
    out_of_the_field(page)
    page.keyboard.press("k")
    press(page, "Thought for")
    expect(page.locator(f"{LAST} .thought")).to_be_visible()
    go(page, "Result of the call")
    page.keyboard.type("12 C")
    script(served, '{"warm": 12}')
    press(page, "Submit result")
    expect(page.locator(f"{LAST} .json .number")).to_have_text("12")
    assert served.runtime.requests[-1].params.temperature == 0.5
    press(page, "As text")
    expect(page.locator(f"{LAST} .body")).to_have_text('{"warm": 12}')
    page.keyboard.press("Enter")
    expect(page.locator(f"{LAST} .json .number")).to_have_text("12")


def test_the_end_of_an_answer_leaves_the_focus_where_it_is(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    served.runtime.script = [Delta("Half", 1), HANG]
    ask(page, "Question")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    go(page, "Copy")
    page.keyboard.press("Escape")
    expect(page.locator(f"{LAST} .status")).to_have_text("Stopped.")
    assert page.evaluate(NAME) == "Copy"
    script(served, " and whole")
    press(page, "Continue")
    answered(page)
    expect(page.locator(LAST)).to_be_focused()  # the button is gone


def test_the_list_of_conversations(page: Page, served: Served, tmp_path: Path) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    for question in ("About whales", "About stones"):
        ask(page, question)
        answered(page)
        out_of_the_field(page)
        page.keyboard.press("n")
        out_of_the_field(page)
    page.keyboard.press("/")
    page.keyboard.type("whales")
    expect(page.locator(".chats li")).to_have_count(1)
    go(page, "About whales")
    page.evaluate("document.querySelector('.chats li').setAttribute('data-old', '')")
    page.evaluate("document.querySelector('#search').dispatchEvent(new Event('input'))")
    expect(page.locator(".chats li[data-old]")).to_have_count(0)
    assert str(page.evaluate(NAME)).strip().startswith("About whales"), "the list is drawn anew, and the focus stays"
    page.locator("#search").focus()
    press(page, "About whales")
    expect(page.locator(".message.user")).to_contain_text("About whales")
    page.keyboard.press("/")
    press(page, "More: About whales")
    page.keyboard.press("Control+a")
    page.keyboard.type("Whales")
    page.keyboard.press("Enter")
    expect(page.locator(".chats .title")).to_have_text("Whales")
    page.keyboard.press("/")
    with page.expect_download() as download:
        press(page, "Export all")
    saved = tmp_path / "all.json"
    download.value.save_as(saved)
    assert len(json.loads(saved.read_text())["conversations"]) == 2
    page.keyboard.press("/")
    press(page, "More: Whales")
    press(page, "Delete")
    press(page, "Delete")
    expect(page.locator(".chats li")).to_have_count(0)
    page.keyboard.press("/")
    with page.expect_file_chooser() as chooser:
        press(page, "Import")
    chooser.value.set_files(saved)
    expect(page.locator(".chats li")).to_have_count(1)


def test_models_machine_and_themes(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.keyboard.press("2")
    other = page.locator("[data-model='other:1b']")
    expect(other).to_contain_text("not loaded")
    for name, shown in (("Load", "memory"), ("Unload", "not loaded")):
        for _ in range(90):
            page.keyboard.press("Tab")
            if page.evaluate(NAME) == name and page.evaluate(
                "document.activeElement.closest('[data-model]')?.dataset.model === 'other:1b'"
            ):
                break
        page.keyboard.press("Enter")
        expect(other).to_contain_text(shown)
    page.keyboard.press("3")
    expect(page.get_by_role("button", name="Measure")).to_be_enabled()
    press(page, "Measure")
    expect(page.locator("#bench tbody tr")).to_have_count(3)
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
