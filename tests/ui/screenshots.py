"""`python -m tests.ui.screenshots [FOLDER]`: makes the README's picture of the page again; with a folder, every view.

The demo model answers in them, or a script where code is shown. Nothing is asserted: they are there to be looked at.
"""

from __future__ import annotations

import base64
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

import localllm
from localllm.settings.config import Settings
from localllm.types import Delta, Finish, Timings, Usage
from tests.models.maker import write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.server.conftest import running, serving
from tests.server.fake_runtime import tiny_model
from tests.ui.conftest import ARGUMENTS, answered, chromium, write

README_FOLDER = Path(localllm.__file__).parent / "docs"
WEBP_QUALITY = 80
WIDE, NARROW = (1180, 760), (390, 780)


class Shot(NamedTuple):
    """One picture."""

    name: str
    prepare: Callable[[Page], None]
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    rtl: bool = False


CODE = """\
A running median needs no sorting each time: two heaps hold the **lower** and the **upper** half.

```python
import heapq

class RunningMedian:
    def __init__(self):
        self.lower, self.upper = [], []  # a max-heap by negation, and a min-heap

    def add(self, value: float) -> float:
        heapq.heappush(self.upper, -heapq.heappushpop(self.lower, -value))
        if len(self.upper) > len(self.lower):
            heapq.heappush(self.lower, -heapq.heappop(self.upper))
        return -self.lower[0]
```

| operation | cost |
|---|--:|
| `add` | O(log n) |
| median | O(1) |
"""
USAGE = Usage(prompt_tokens=412, completion_tokens=187, cached_tokens=396)


def start(page: Page) -> None:
    """A chat that has not begun."""
    page.wait_for_selector(".starters button")


def settings(page: Page) -> None:
    """The settings of a chat."""
    page.click("#settings")
    page.wait_for_selector("dialog")


def code(page: Page) -> None:
    """A conversation whose answers a script has written."""
    write(page, "How do I compute a running median in Python?")
    answered(page)
    page.get_by_role("button", name="Regenerate").click()
    page.wait_for_selector(".versions")
    answered(page)
    page.evaluate("document.querySelector('.messages').scrollTop = 0")


def chat(page: Page) -> None:
    """A conversation with the demo model."""
    for question in ("Write a Python function that adds two numbers.", "Write a short story about a fox."):
        write(page, question)
        answered(page)
    page.evaluate("document.querySelector('.messages').scrollTop = 0")


def page_of_readme(page: Page) -> None:
    """What the demo model can do."""
    for question in ("My name is Ada.", "What is my name?", "Give me JSON with name and age: Mira is 34 years old."):
        write(page, question)
        answered(page)
    page.locator("textarea").first.blur()


def bench(page: Page) -> None:
    """With a measurement and the diagnosis."""
    page.locator("nav.tabs button").nth(2).click()
    page.get_by_role("button", name="Measure").click()
    page.locator("#bench tbody tr").nth(2).wait_for()
    page.get_by_role("button", name="Examine").click()
    page.get_by_text("Models can be loaded").wait_for()
    page.locator("#bench").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#bench').scrollIntoView()")


def machine(page: Page) -> None:
    """While three clients ask again and again."""
    page.locator("nav.tabs button").nth(2).click()
    page.locator(".slots").first.wait_for()
    page.evaluate(
        """(until) => {
            const ask = async (content, tokens) => {
                const messages = [{ role: "user", content }];
                const body = { model: "demo", messages, max_tokens: tokens, ignore_eos: true };
                const response = await fetch("v1/chat/completions", { method: "POST",
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
    """What is here, and what a repository offers."""
    page.locator("nav.tabs button").nth(1).click()
    page.fill("#find", "words")
    page.press("#find", "Enter")
    page.locator("#hub").get_by_role("button", name="Quantizations").first.click()
    page.locator("[data-quant='Q8_0']").wait_for()
    page.locator("#find").blur()


README = Shot("page", page_of_readme)
EVERY = tuple(
    Shot(f"{prepare.__name__}-{scheme}-{kind}", prepare, scheme, NARROW if kind == "narrow" else WIDE, kind == "rtl")
    for prepare in (start, code, chat, machine, bench, models, settings)
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
    path = folder / f"{shot.name}.webp"
    taken = context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": WEBP_QUALITY})
    path.write_bytes(base64.b64decode(taken["data"]))
    context.close()
    return path


def hub(folder: Path) -> HubServer:
    """A repository with a small model, several times quantized."""
    files: dict[str, bytes | int] = {}
    for quant, num_layers in (("Q4_K_M", 4), ("Q6_K", 8), ("Q8_0", 14)):
        path = folder / "words.gguf"
        write_llama(path, vocab=32_000, n_layer=num_layers, n_embd=128, n_ff=1024, ctx=4096)
        files[f"words-{quant}.gguf"] = path.read_bytes()
    return HubServer({"ann/words-GGUF": Repo(files, card={"license": "apache-2.0"}, downloads=1234)})


def _scheme(name: str) -> Any:
    return name


def main(arguments: list[str]) -> None:
    """Takes the README's, or all into the folder that was named."""
    folder = Path(arguments[0]) if arguments else README_FOLDER
    wanted = re.compile(arguments[1] if len(arguments) > 1 else "")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, hub(Path(home)) as server:
        chosen = Settings(home=Path(home), port=0, ctx=2048, hub_endpoint=server.url)
        with serving(chosen, model="demo") as url, running(chosen) as served, sync_playwright() as driver:
            served.runtime.models = [tiny_model("example")]
            finish = Finish("stop", USAGE, Timings(0.0, 0.1, USAGE.completion_tokens / 61))
            served.runtime.script = [Delta(CODE, USAGE.completion_tokens), Delta("", 0, finish)]
            browser = driver.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            for shot in EVERY if arguments else (README,):
                if wanted.search(shot.name):
                    path = take(browser, served.url if shot.prepare is code else url, shot, folder)
                    print(f"{path}: {path.stat().st_size} bytes")
            browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
