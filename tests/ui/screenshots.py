"""`python -m tests.ui.screenshots [FOLDER]`: makes the README's pictures of the page again; with a folder, every view.

The demo model answers in them. Nothing asserts what they show: they are there to be looked at.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from localllm.settings.config import Settings
from tests.server.conftest import serving
from tests.ui.conftest import ARGUMENTS, answered, chromium, write

README_FOLDER = Path(__file__).with_name("shots")
WIDE, NARROW = (1180, 760), (390, 780)


class Shot(NamedTuple):
    """One picture."""

    name: str
    prepare: Callable[[Page], None]
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    rtl: bool = False


def chat(page: Page) -> None:
    """A conversation with code in it."""
    for question in ("Write a Python function that adds two numbers.", "Write a short story about a fox."):
        write(page, question)
        answered(page)
    page.evaluate("document.querySelector('.messages').scrollTop = 0")


def machine(page: Page) -> None:
    """While three clients ask again and again."""
    page.locator("nav.tabs button").nth(2).click()
    page.locator(".slots").first.wait_for()
    page.evaluate(
        """(until) => {
            const ask = async (content, tokens) => {
                const messages = [{ role: "user", content }];
                const body = { model: "demo", messages, max_tokens: tokens, ignore_eos: true };
                const response = await fetch("/v1/chat/completions", { method: "POST",
                    headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
                await response.text();
            };
            const client = async (animal, tokens, from) => {
                while (Date.now() < until - 2000 * from) await ask(`Write a short story about a ${animal}.`, tokens);
            };
            ["fox", "whale", "crow"].forEach((animal, from) => client(animal, 500 + 400 * from, from));
        }""",
        time.time() * 1000 + 9000,
    )
    page.wait_for_timeout(7000)


def models(page: Page) -> None:
    """What is here, and what the catalog has."""
    page.locator("nav.tabs button").nth(1).click()
    page.fill("#find", "qwen3")
    page.press("#find", "Enter")
    page.locator("#found .card").first.wait_for()


README = (Shot("chat", chat), Shot("machine", machine, "dark"), Shot("models", models))
EVERY = tuple(
    Shot(f"{prepare.__name__}-{scheme}-{kind}", prepare, scheme, NARROW if kind == "narrow" else WIDE, kind == "rtl")
    for prepare in (chat, machine, models)
    for scheme, kind in (("light", "wide"), ("dark", "wide"), ("light", "narrow"), ("light", "rtl"))
)


def take(browser: Browser, url: str, shot: Shot, folder: Path) -> Path:
    """Into `folder`."""
    width, height = shot.size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=_scheme(shot.scheme))
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(url)
    if shot.rtl:
        page.evaluate("document.documentElement.dir = 'rtl'")
    page.locator(".bar select option").first.wait_for(state="attached")
    shot.prepare(page)
    path = folder / f"{shot.name}.png"
    page.screenshot(path=path)
    context.close()
    return path


def _scheme(name: str) -> Any:
    return name


def main(arguments: list[str]) -> None:
    """Takes those of the README, or all into the folder that was named."""
    folder = Path(arguments[0]) if arguments else README_FOLDER
    wanted = re.compile(arguments[1] if len(arguments) > 1 else "")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), port=0, ctx=2048)
        with serving(settings, model="demo") as url, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            for shot in EVERY if arguments else README:
                if wanted.search(shot.name):
                    path = take(browser, url, shot, folder)
                    print(f"{path}: {path.stat().st_size} bytes")
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
