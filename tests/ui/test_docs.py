"""The way from the page to the documentation, in a browser: no script, no violation of the policy."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.server.conftest import Served


def test_the_pages_help_leads_to_the_documentation_and_its_search(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.locator(".top").wait_for()
    page.keyboard.press("?")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Documentation").click()
    docs = opened.value
    docs.get_by_role("searchbox").fill("system prompt")
    docs.keyboard.press("Enter")
    expect(docs.get_by_role("heading", level=1)).to_have_text("system prompt")
    docs.get_by_role("link", name="A system prompt").click()
    expect(docs.get_by_role("heading", name="A system prompt")).to_be_in_viewport()
