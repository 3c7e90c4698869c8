"""The page of a server that another application has mounted under a path: everything it asks is asked there."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

from tests.e2e.test_guide_mount import KEY, Application
from tests.ui.conftest import answered, press, write


def test_the_page_chats_under_the_path_of_its_mount(page: Page, tmp_path: Path, home: Path) -> None:
    application = Application(tmp_path, home)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(f"{application.url}/llm")
        page.fill("dialog input", KEY)
        press(page, "Continue")
        write(page, "What can you do?")
        assert len(answered(page).split()) > 3
        assert len(asked) > 5
        assert all(url.startswith(f"{application.url}/llm") for url in asked)
    finally:
        application.stop()
