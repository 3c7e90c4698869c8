"""A real browser before real servers on loopback; every test ends with no violation of the policy and no error said."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from localllm.settings.config import Settings
from tests.homes import share_findings
from tests.server.conftest import Served, running, serving

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]  # fmt: skip
WITNESS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""
TIMEOUT_MS = 60_000
expect.set_options(timeout=TIMEOUT_MS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the page showed goes into the report of a test that failed."""
    report = yield
    page = item.funcargs.get("page")
    if report.failed and call.when == "call" and isinstance(page, Page):
        try:
            focused = page.evaluate("document.activeElement.outerHTML")
            report.sections.append(("the page", f"{page.url}, focused: {focused}\n{page.inner_html('body')}"))
        except Error as error:
            report.sections.append(("the page", str(error)))
    return report


def chromium() -> str | None:
    """The program, if it is on this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def scripted() -> Iterator[Served]:
    """A server whose answers a test writes."""
    with running(Settings(port=0, grace_s=0.1)) as served:
        yield served


@pytest.fixture
def served(scripted: Served) -> Served:
    scripted.runtime.reset()
    return scripted


@pytest.fixture(scope="package")
def demo_url(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the demo model."""
    folder = tmp_path_factory.mktemp("home")
    share_findings(home, folder)
    settings = Settings(home=folder, port=0, ctx=2048)
    with serving(settings, model="demo") as url:
        yield url


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(WITNESS)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert not said
    assert page.evaluate("window.violations") == []
    hosts = {httpx.URL(url).host for url in asked if not url.startswith(("blob:", "data:"))}
    assert hosts <= {"127.0.0.1", "localhost"}, "everything is this server's own"


def write(page: Page, text: str) -> None:
    """Send a message, and see it and its answer begun."""
    before = page.locator(".message").count()
    page.fill("#field", text)
    page.press("#field", "Enter")
    page.wait_for_function("before => document.querySelectorAll('.message').length >= before + 2", arg=before)


def answered(page: Page) -> str:
    """The last answer, once it is complete."""
    page.wait_for_selector(".message.assistant:last-child[aria-busy=false] .foot button")
    return page.inner_text(".message.assistant:last-child .body")


def press(page: Page, name: str) -> None:
    """A button of the dialog that is open."""
    page.locator("dialog[open]").last.get_by_role("button", name=name, exact=True).click()


def cpu_time_of(page: Page) -> Callable[[], float]:
    """Tells the milliseconds that the page's thread has computed, which do not depend on what else the machine does."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_ms() -> float:
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return next(1000 * float(each["value"]) for each in metrics if each["name"] == "TaskDuration")

    return cpu_ms
