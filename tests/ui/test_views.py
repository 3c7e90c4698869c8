"""Models and machine in a real browser, keyboard alone, and what axe-core finds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from localllm.errors import PullFailed
from localllm.types import Delta
from localllm.types.states import AvailableModel, PullState
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH, HANG
from tests.ui.conftest import answered, press, write

MB = 10**6


def test_a_model_is_loaded_pinned_unloaded_and_removed(page: Page, served: Served) -> None:
    page.goto(f"{served.url}#models")
    other = page.locator("[data-model='other:1b']")
    expect(other).to_contain_text("not loaded")
    other.get_by_role("button", name="Load", exact=True).click()
    expect(other).to_contain_text("loaded · memory")
    other.get_by_role("button", name="Unload").click()
    expect(other).to_contain_text("not loaded")
    other.get_by_role("button", name="Remove").click()
    press(page, "Remove")
    expect(other).to_have_count(0)


def test_names_of_models_under_adapters_are_chosen_like_models_and_have_their_bases_settings(
    page: Page, served: Served
) -> None:
    served.runtime.others = [
        *served.runtime.others,
        AvailableModel(id="pirate", size_bytes=MB, created_unix_s=1, base="tiny", source="style.gguf"),
        AvailableModel(id="captain", size_bytes=MB, created_unix_s=1, base="tiny", source="config.toml"),
    ]
    page.goto(f"{served.url}#models")
    pirate, captain = (page.locator(f"[data-model='{name}']") for name in ("pirate", "captain"))
    expect(pirate).to_contain_text("tiny under adapters · 1 MB")
    expect(pirate.get_by_role("button", name="Settings")).to_have_count(0)
    expect(pirate.get_by_role("button", name="Remove")).to_have_count(1)
    expect(captain.get_by_role("button", name="Remove")).to_have_count(0)
    page.goto(f"{served.url}#")
    page.reload()
    expect(page.locator("option", has_text="pirate")).to_have_count(1)


def test_a_pull_shows_how_far_it_is_stops_and_goes_on(page: Page, served: Served) -> None:
    state = PullState(phase="downloading", id="new:1b", done_bytes=40 * MB, total_bytes=100 * MB, bytes_per_s=5e6)
    served.runtime.pull_script = [state]
    page.goto(f"{served.url}#models")
    page.fill("#find", "new:1b")
    page.locator("form").get_by_role("button", name="Download").click()
    card = page.locator("[data-model='new:1b']")
    expect(card).to_contain_text("40 MB / 100 MB · 5 MB/s")
    card.get_by_role("button", name="Stop").click()
    assert served.runtime.pull_stopped.wait(10)
    expect(card).to_contain_text("Download stopped")
    served.runtime.pull_script = [PullFailed("the hub is away")]
    card.get_by_role("button", name="Resume").click()
    expect(page.locator(".page [role=status]").first).to_contain_text("the hub is away")
    card.get_by_role("button", name="Dismiss").click()
    expect(card).to_have_count(0)


def test_the_catalog_is_searched(page: Page, served: Served) -> None:
    page.goto(f"{served.url}#models")
    page.fill("#find", "qwen3:0.6b")
    page.press("#find", "Enter")
    expect(page.locator("#found h3").first).to_have_text("qwen3:0.6b")
    expect(page.locator("#found .card").first).to_contain_text("fits")


def test_the_machine_shows_slots_and_speed_as_they_are(page: Page, demo_url: str) -> None:
    page.goto(demo_url)
    write(page, "Write a short story about a fox.")
    answered(page)
    page.keyboard.press("Escape")
    page.click("text=Machine")
    expect(page.locator(".slots li")).to_have_count(4)
    expect(page.locator(".plot").first).to_contain_text("Tokens per second")
    held = page.locator(".slots li span:last-child").all_inner_texts()
    assert any(not text.startswith("0 of") for text in held), held


def test_everything_is_reached_by_keys_alone(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("Regenerate")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("m")
    served.runtime.script = [Delta("One", 1), Delta("", 1, FINISH)]
    page.keyboard.type("Question")
    page.keyboard.press("Enter")
    assert answered(page) == "One"
    page.keyboard.press("Escape")
    served.runtime.script = [Delta("Two", 1), HANG]
    page.keyboard.press("r")
    expect(page.locator(".message.assistant .body")).to_have_text("Two")
    page.keyboard.press("Escape")
    expect(page.locator(".message.assistant .status")).to_have_text("Stopped.")
    page.keyboard.press("e")
    expect(page.locator(".message.user textarea")).to_be_focused()
    page.keyboard.press("Escape")
    for key, view in (("2", "models"), ("3", "machine"), ("1", "chat")):
        page.locator("body").press(key)
        assert page.evaluate("document.body.dataset.view") == view
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))
    assert {"new", "search", "field", "send", "settings"} <= seen, seen


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["chat", "models", "machine"])
def test_axe_finds_nothing_serious(page: Page, served: Served, view: str, scheme: Any) -> None:
    axe = Path(os.environ.get("NODE_PATH", "none")) / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("NODE_PATH names no folder with axe-core")
    page.emulate_media(color_scheme=scheme)
    served.runtime.script = [
        Delta("# Title\n\n- a\n\n```py\nx = 1  # y\n```\n\n| a |\n|---|\n| b |", 1),
        Delta("", 1, FINISH),
    ]
    page.goto(served.url)
    write(page, "Hi")
    answered(page)
    page.goto(f"{served.url}#{view}")
    page.locator({"chat": ".message", "models": ".card", "machine": ".slots"}[view]).first.wait_for()
    page.evaluate(axe.read_text())
    found = page.evaluate("axe.run()")
    serious = [
        (each["id"], each["nodes"][0]["html"][:200])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert not serious


def test_a_narrow_page_has_its_list_behind_a_button(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(served.url)
    expect(page.locator("#sidebar")).to_be_hidden()
    page.click(".menu")
    expect(page.locator("#sidebar")).to_be_visible()
    expect(page.locator(".menu")).to_have_attribute("aria-expanded", "true")
    page.click("#new")
    expect(page.locator("#sidebar")).to_be_hidden()
    table = (
        "| a | the column | c | d | e |\n|---|---|---|---|---|\n| incomparable | internationalization | c | d | "
        + "x" * 60
    )
    served.runtime.script = [Delta(f"{table} |", 1), Delta("", 1, FINISH)]
    write(page, "Hi")
    answered(page)
    page.set_viewport_size({"width": 320, "height": 700})
    for view in ("machine", "models", "chat"):
        page.evaluate("view => { location.hash = view; }", view)
        page.locator({"chat": "table", "models": ".card", "machine": ".slots"}[view]).first.wait_for()
        outside = "[...document.querySelectorAll('.top *, .card, .message *')].filter(each => !each.closest('table') "
        outside += "&& each.getBoundingClientRect().right > 320).map(each => each.outerHTML)"
        assert page.evaluate(outside) == []
    assert page.evaluate("document.querySelectorAll('td')[1].clientHeight") < 100, "no word of it is broken"
