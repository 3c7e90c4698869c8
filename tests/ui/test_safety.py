"""Whatever a model writes is text; the key is asked for and kept for the tab; the policy stands."""

from __future__ import annotations

import httpx
from playwright.sync_api import BrowserContext, Page, expect

from localllm.server.ui.files import files
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH
from tests.ui.conftest import answered, press, write

HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 1">

[click](javascript:window.hacked=1) [data](data:text/html,<script>1</script>) ![pixel](https://evil.example/pixel.png)

# <svg onload=window.hacked=1>

`<b>` and ``` <i> ```

| <u> | b |
|---|---|
| <iframe src=javascript:1> | [x](JaVaScRiPt:window.hacked=1) |

```html
<script>window.hacked = 1</script> \u202e gnp.exe
```

[ok](https://example.com/a_(b)) <https://example.org>
"""


def test_nothing_that_a_model_writes_becomes_html_or_leaves_the_machine(page: Page, served: Served) -> None:
    pieces = [HOSTILE[at : at + 7] for at in range(0, len(HOSTILE), 7)]
    served.runtime.script = [*(Delta(piece, 1) for piece in pieces), Delta("", 1, FINISH)]
    page.goto(served.url)
    write(page, HOSTILE)
    answered(page)
    assert page.evaluate("window.hacked") is None
    for selector in ("script:not([src])", "img", "iframe", ".message .body svg:not(.icon)", ".message b", ".message u"):
        assert page.locator(f"body {selector}").count() == 0, selector
    links = page.eval_on_selector_all(".message.assistant a", "links => links.map(link => [link.href, link.rel])")
    assert [href for href, _ in links] == [
        "https://evil.example/pixel.png", "https://example.com/a_(b)", "https://example.org/",
    ]  # fmt: skip
    assert all("noopener" in rel and "noreferrer" in rel for _, rel in links)
    assert "⟦U+202E⟧" in page.inner_text(".message.assistant .code pre")


def test_a_line_of_a_megabyte_and_one_of_marks_alone_are_shown_in_time(page: Page, served: Served) -> None:
    long = "x" * 1_000_000
    served.runtime.script = [
        *(Delta(long[at : at + 50_000], 1) for at in range(0, len(long), 50_000)),
        Delta("\n\n" + "**_`[(<" * 2500 + "\n\n" + "> " * 3000, 1),
        Delta("", 1, FINISH),
    ]
    page.goto(served.url)
    write(page, "Go")
    page.wait_for_selector(".message.assistant:last-child[aria-busy=false] .foot button")
    assert len(str(page.text_content(".message.assistant .body"))) >= 1_000_000
    write(page, "Still there?")
    expect(page.locator(".message.user")).to_have_count(2)


def test_a_key_is_asked_for_refused_if_wrong_and_gone_with_the_tab(context: BrowserContext, page: Page) -> None:
    with running(Settings(port=0, grace_s=0.1, api_keys="sesame")) as guarded:
        page.goto(guarded.url)
        page.fill("dialog input", "wrong")
        press(page, "Continue")
        expect(page.locator("dialog .error")).to_contain_text("does not accept this key")
        page.fill("dialog input", "sesame")
        press(page, "Continue")
        expect(page.locator("select option")).to_have_text(["tiny", "other:1b"])
        write(page, "Hi")
        assert "lo" in answered(page)
        assert page.evaluate("JSON.stringify(localStorage)").find("sesame") < 0
        other = context.new_page()
        other.goto(guarded.url)
        expect(other.locator("dialog input")).to_be_visible()
        other.close()


def test_the_page_is_small_needs_no_key_is_asked_for_once_and_can_be_left_out() -> None:
    # The documentation has a style of its own, which the page does not load.
    assert sum(len(each.content) for name, each in files().items() if name != "docs.css") < 250_000
    html = {"accept": "text/html"}
    with running(Settings(port=0, grace_s=0.1, api_keys="sesame")) as guarded:
        response = guarded.http.get("/", headers=html)
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        again = guarded.http.get("/", headers=html | {"if-none-match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert guarded.http.get("/").text == "Ollama is running"
        assert guarded.http.get("/ui/main.js").headers["content-type"].startswith("text/javascript")
        for path in ("/ui/handlers.py", "/ui/..%2ffiles.py", "/ui/", "/ui/none.js"):
            assert guarded.http.get(path).status_code == 404, path
        assert guarded.http.get("/localllm/watch").status_code == 401
    with running(Settings(port=0, grace_s=0.1, ui=False)) as bare:
        assert bare.http.get("/", headers=html).text == "Ollama is running"
        assert bare.http.get("/ui/main.js").status_code == 404


def test_another_site_can_neither_show_the_page_nor_ask_in_its_name(served: Served) -> None:
    cross = {"accept": "text/html", "sec-fetch-site": "cross-site", "origin": "https://evil.example"}
    assert served.http.get("/", headers=cross).status_code == 403
    assert (
        "frame-ancestors 'none'"
        in served.http.get("/", headers={"accept": "text/html"}).headers["content-security-policy"]
    )
    rebound = httpx.get(f"{served.url}/", headers={"accept": "text/html", "host": "evil.example"}, trust_env=False)
    assert rebound.status_code == 403
