"""Models found, judged, pulled, set and removed in a real browser, from a look-alike of the hub on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from localllm.settings.config import load
from localllm.system import memory
from tests.homes import measured_once
from tests.models.maker import write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer, Asked, ranged
from tests.server.conftest import serving
from tests.ui.conftest import press

REPO = "ann/words-GGUF"
NAME = f"hf.co/{REPO}:Q8_0"
HUGE = 900 * 10**9
PROBE_MS = 60_000
"""For the probe that measures this machine, once for all of these tests."""


class WordsHub(HubServer):
    """Remembers from which byte of the file each request wanted it."""

    def __init__(self, content: bytes) -> None:
        files: dict[str, bytes | int] = {"words-Q8_0.gguf": content, "words-Q4_K_M.gguf": HUGE}
        secret = Repo({"s-Q8_0.gguf": content}, gated="manual", downloads=5)
        words = Repo(files, card={"license": "apache-2.0"}, downloads=1234)
        super().__init__({REPO: words, "bob/words-secret": secret})
        self.content = content
        self.wanted: list[tuple[int, int]] = []
        """First byte and last byte."""

    def answer(self, asked: Asked) -> Answer:
        if not asked.path.endswith("words-Q8_0.gguf"):
            return super().answer(asked)
        first, _, last = asked.headers.get("range", "bytes=0-")[6:].partition("-")
        self.wanted.append((int(first), int(last or len(self.content) - 1)))
        return ranged(self.content, asked)

    def downloads(self) -> list[int]:
        """The first bytes of those requests that wanted more than a header."""
        return [first for first, last in self.wanted if last == len(self.content) - 1]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """As large as to come in several pieces."""
    path = tmp_path_factory.mktemp("words") / "words-Q8_0.gguf"
    write_llama(path, vocab=60_000, n_layer=2)
    return path.read_bytes()


@pytest.fixture
def hub(content: bytes) -> Iterator[WordsHub]:
    with WordsHub(content) as server:
        yield server


@pytest.fixture
def url(request: pytest.FixtureRequest, home: Path, tmp_path: Path, hub: WordsHub) -> Iterator[str]:
    """A server with a home of its own; by parameter, of at most so many kilobytes a second."""
    given: dict[str, Any] = {"home": tmp_path, "hub_endpoint": hub.url, "device": "cpu", "port": 0, "grace_s": 0.1}
    given |= {"max_download_kb_per_s": request.param} if hasattr(request, "param") else {}
    settings = load({**given, "download_connections": 1, "ctx": 512})
    with measured_once(home, tmp_path), serving(settings) as url:
        yield url


def found(page: Page, url: str, words: str) -> None:
    """Search, from the keyboard alone."""
    page.goto(url)
    page.wait_for_selector("nav")
    page.locator("body").press("f")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type(words)
    page.keyboard.press("Enter")


def test_the_catalog_that_comes_late_does_not_replace_what_was_found(page: Page, url: str) -> None:
    held: list[Route] = []
    page.route(lambda url: "/localllm/catalog" in url, lambda route: held.append(route))
    page.goto(url)
    page.wait_for_selector("nav")
    with page.expect_request(lambda request: "/localllm/catalog" in request.url):
        page.locator("body").press("f")
    page.keyboard.type("words")
    page.keyboard.press("Enter")
    expect(page.locator(f"[data-found='hf.co/{REPO}']")).to_be_visible()
    with page.expect_response(lambda response: "/localllm/catalog" in response.url):
        held[0].continue_()
    page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    expect(page.locator("[data-found='qwen3:8b']")).to_have_count(0)
    expect(page.locator(f"[data-found='hf.co/{REPO}']")).to_be_visible()


def test_a_search_shows_each_quantization_with_memory_and_speed_and_what_is_recommended(page: Page, url: str) -> None:
    found(page, url, "words")
    card = page.locator(f"[data-found='hf.co/{REPO}']")
    expect(card).to_contain_text("1,234 downloads a month · apache-2.0 · changed 2025-05-01")
    expect(page.locator("[data-found='hf.co/bob/words-secret']")).to_contain_text("accept its terms")
    card.get_by_role("button", name="Quantizations").focus()
    page.keyboard.press("Enter")
    fits, huge = card.locator("[data-quant='Q8_0']"), card.locator("[data-quant='Q4_K_M']")
    expect(fits).to_contain_text("recommended", timeout=PROBE_MS)
    expect(fits.locator("td").nth(2)).to_have_text("yes")
    expect(fits.locator("td").nth(3)).to_contain_text(" ± ")
    expect(fits.locator("td").nth(4)).to_contain_text(" ± ")
    expect(huge.locator("td").nth(0)).to_have_text("900.0 GB")
    expect(huge.locator("td").nth(2)).to_have_text("no")
    expect(huge.locator("td").nth(3)).to_have_text("–")
    expect(card).to_contain_text("of memory are free")
    secret = page.locator("[data-found='hf.co/bob/words-secret']")
    secret.get_by_role("button", name="Quantizations").click()
    expect(secret.get_by_role("alert")).to_contain_text("is gated")


def test_where_the_hub_is_not_asked_that_is_said_beside_the_catalog(
    page: Page, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found(page, url, "qwen3")
    expect(page.locator(".page")).to_contain_text("Hugging Face could not be searched: HF_HUB_OFFLINE is set")
    expect(page.locator("#found h3").first).to_contain_text("qwen3")


@pytest.mark.parametrize("url", [6000], indirect=True)
def test_a_stopped_pull_goes_on_where_it_was_also_after_a_reload_and_the_model_loads(
    page: Page, url: str, hub: WordsHub
) -> None:
    found(page, url, "words")
    card = page.locator(f"[data-found='hf.co/{REPO}']")
    card.get_by_role("button", name="Quantizations").click()
    expect(card.locator("[data-quant='Q8_0']")).to_be_visible(timeout=PROBE_MS)
    card.get_by_role("button", name="Download Q8_0").click()
    here = page.locator(f"[data-model='{NAME}']")
    expect(here).to_contain_text("downloading")
    page.wait_for_function("() => document.querySelector('#here progress')?.value > 0.1")
    here.get_by_role("button", name="Stop").click()
    expect(here).to_contain_text("Download stopped")
    page.reload()
    expect(here).to_contain_text("Download stopped")
    held = len(hub.downloads())
    here.get_by_role("button", name="Resume").click()
    expect(here.get_by_role("button", name="Load", exact=True)).to_be_visible()
    assert hub.downloads()[held:]
    assert min(hub.downloads()[held:]) > len(hub.content) // 20, "what had come was not fetched again"
    expect(card.or_(page.locator("#here"))).not_to_contain_text("Resume")
    assert page.evaluate("localStorage.getItem('localllm.pulls')") == "[]"
    here.get_by_role("button", name="Load", exact=True).click()
    expect(here).to_contain_text("loaded · memory")
    expect(here).to_contain_text("512 tokens of context")


def test_what_does_not_fit_is_asked_about_and_nothing_is_fetched_unless_it_is_wanted(
    page: Page, url: str, hub: WordsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    found(page, url, f"hf.co/{REPO}")
    page.locator("form").get_by_role("button", name="Download").click()
    expect(page.locator("dialog")).to_contain_text("more than is free on this machine", timeout=PROBE_MS)
    asked = len(hub.downloads())
    press(page, "Cancel")
    expect(page.locator(f"[data-model='hf.co/{REPO}']")).to_have_count(0)
    assert len(hub.downloads()) == asked
    page.locator("form").get_by_role("button", name="Download").click()
    press(page, "Download")
    expect(page.locator(f"[data-model='hf.co/{REPO}']").get_by_role("button", name="Load", exact=True)).to_be_visible()


def test_a_removal_says_what_goes_and_is_cancelled_or_done(page: Page, url: str, content: bytes) -> None:
    page.goto(f"{url}#models")
    page.fill("#find", NAME)
    page.locator("form").get_by_role("button", name="Download").click()
    here = page.locator(f"[data-model='{NAME}']")
    here.get_by_role("button", name="Remove").click()
    expect(page.locator("dialog")).to_contain_text(f"frees {round(len(content) / 1e6)} MB of disk space")
    press(page, "Cancel")
    expect(here).to_be_visible()
    here.get_by_role("button", name="Remove").click()
    press(page, "Remove")
    expect(here).to_have_count(0)
    expect(page.locator("[data-model='demo']").get_by_role("button", name="Remove")).to_have_count(0)


def test_a_models_settings_are_kept_checked_and_hold_after_a_reload_that_is_offered(
    page: Page, url: str, tmp_path: Path
) -> None:
    page.goto(f"{url}#models")
    demo = page.locator("[data-model='demo']")
    demo.get_by_role("button", name="Load", exact=True).click()
    expect(demo).to_contain_text("512 tokens of context")
    demo.get_by_role("button", name="Settings").click()
    dialog = page.locator("dialog")
    expect(dialog.locator("[name=ctx]")).to_have_attribute("placeholder", "512")
    expect(dialog.locator("[name=ctx]")).to_be_disabled()  # the server was started with --ctx
    dialog.locator("[name=temperature]").fill("hot")
    press(page, "Save")
    expect(dialog.get_by_role("alert")).to_contain_text("'hot' is not a valid temperature")
    expect(dialog.locator("[name=temperature]")).to_have_attribute("aria-invalid", "true")
    dialog.locator("[name=temperature]").fill("0.5")
    dialog.locator("[name=slots]").fill("2")
    dialog.locator("summary").click()
    dialog.locator("[name=kv_type]").select_option("q8_0")
    press(page, "Save")
    expect(dialog).to_contain_text("Reload the model?")
    press(page, "Reload now")
    expect(page.locator("#live")).to_have_text("demo: done")
    expect(demo).to_contain_text("loaded · memory")
    text = (tmp_path / "config.toml").read_text()
    assert text == '[models.demo]\nslots = 2\nkv_type = "q8_0"\ntemperature = 0.5\n'
    assert page.request.get(f"{url}/localllm/ps").json()["models"][0]["slots"] == 2
    demo.get_by_role("button", name="Settings").click()
    expect(dialog.locator("[name=slots]")).to_have_value("2")
    for name in ("slots", "temperature"):
        dialog.locator(f"[name={name}]").fill("")
    dialog.locator("summary").click()
    dialog.locator("[name=kv_type]").select_option("")
    press(page, "Save")
    press(page, "Later")
    assert (tmp_path / "config.toml").read_text() == ""


def test_a_model_is_loaded_with_options_of_its_own_and_what_others_load_is_seen(page: Page, url: str) -> None:
    page.goto(f"{url}#models")
    demo = page.locator("[data-model='demo']")
    demo.get_by_role("button", name="Load with").click()
    page.fill("dialog [name=ctx]", "1024")
    page.fill("dialog [name=slots]", "1")
    page.check("dialog [name=stays]")
    press(page, "Load")
    expect(demo).to_contain_text("1,024 tokens of context · stays loaded")
    expect(demo).to_contain_text("chat")  # what it can do
    page.request.post(f"{url}/localllm/unload", data={"model": "demo"})
    expect(demo).to_contain_text("not loaded")
    page.request.post(f"{url}/localllm/load", data={"model": "demo", "stream": False})
    expect(demo).to_contain_text("loaded · memory")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_offers_and_the_settings(page: Page, url: str, scheme: Any) -> None:
    axe = Path(os.environ.get("NODE_PATH", "none")) / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("NODE_PATH names no folder with axe-core")
    page.emulate_media(color_scheme=scheme)
    found(page, url, "words")
    page.locator("#hub").get_by_role("button", name="Quantizations").first.click()
    expect(page.locator("[data-quant='Q8_0']")).to_be_visible(timeout=PROBE_MS)
    page.evaluate(axe.read_text())
    assert serious(page) == []
    page.locator("[data-model='demo']").get_by_role("button", name="Settings").click()
    page.locator("dialog summary").click()
    assert serious(page) == []


def serious(page: Page) -> list[tuple[str, str]]:
    return [
        (each["id"], each["nodes"][0]["html"][:200])
        for each in page.evaluate("axe.run()")["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_a_narrow_page_shows_the_table_without_growing_wider(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    found(page, url, "words")
    page.locator("#hub").get_by_role("button", name="Quantizations").first.click()
    expect(page.locator("[data-quant='Q8_0']")).to_be_visible(timeout=PROBE_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
