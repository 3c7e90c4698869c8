"""What the page costs: memory, its first paint, CPU time while an answer streams; and its words."""

from __future__ import annotations

import importlib.resources
import re

from playwright.sync_api import Browser, BrowserContext, Page, expect

from localllm.server.ui.files import INDEX, files
from localllm.types import Delta
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH
from tests.ui.conftest import answered, cpu_time_of, write

ASK = """
async (count) => {
    const { session } = await import("/ui/session.js");
    for (let number = 0; number < count; number++) {
        if (number % 25 === 0) session.fresh();
        await session.send(`Question ${number}`, []);
    }
    session.fresh();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}
"""
STREAMED = """
async () => {
    const { session } = await import("/ui/session.js");
    let count = 0, goes = true;
    const frame = () => { count++; if (goes) requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    await session.send("Go on", []);
    goes = false;
    return count;
}
"""
PAINT = """
() => {
    const [navigation] = performance.getEntriesByType("navigation");
    return performance.getEntriesByName("first-contentful-paint")[0]?.startTime - navigation.responseStart;
}
"""
MEGABYTE = 2**20


def test_a_hundred_answers_leave_the_memory_as_it_was(context: BrowserContext, page: Page, served: Served) -> None:
    """A leak of 6 KB an answer is found."""
    served.runtime.script = [Delta("# Title\n\nSome **words**\n\n```py\nx = 1\n```\n", 1), Delta("", 1, FINISH)]
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    session = context.new_cdp_session(page)

    def used() -> tuple[float, int]:
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"]
        return heap / MEGABYTE, session.send("Memory.getDOMCounters")["nodes"]

    page.evaluate(ASK, 30)
    before, nodes_before = used()
    page.evaluate(ASK, 100)
    after, nodes_after = used()
    print(f"heap {before:.2f} -> {after:.2f} MiB, DOM nodes {nodes_before} -> {nodes_after}")
    assert len(served.runtime.requests) == 130
    assert after < before + 0.6, (before, after)
    assert nodes_after < nodes_before + 8 * 12, "a line of the list for each of eight conversations, and nothing else"


def test_the_page_is_painted_soon_after_the_answer(browser: Browser, served: Served) -> None:
    """The aim is 200 ms, the bound that of a machine on which others compute: the best of ten."""
    times: list[float] = []
    while len(times) < 10 and min(times, default=200) >= 200:
        context = browser.new_context()  # with an empty cache
        page = context.new_page()
        page.goto(served.url)
        page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")
        times.append(page.evaluate(PAINT))
        context.close()
    print("first contentful paint after the response began:", [round(time) for time in sorted(times)], "ms")
    assert min(times) < 500, times


def test_every_script_is_fetched_at_once() -> None:
    """And not one after another, as each is found to be imported."""
    scripts = {name for name in files() if name.endswith(".js")}
    assert set(re.findall(r"\"ui/([a-z_]+\.js)", files()[INDEX].content.decode())) == scripts


def test_tokens_below_200_000_characters_cost_the_page_little_more_than_below_none(page: Page, served: Served) -> None:
    """In CPU time of the page's thread for each frame, whatever else the machine computes: with one long answer right
    above 17 to 31 times as much (Chromium walks its blocks), further down the same."""
    words = [Delta("word " if number % 30 else "end.\n\n", 1) for number in range(300)]
    page.goto(served.url)
    cpu_ms = cpu_time_of(page)

    def frame_ms() -> float:
        """Of an answer with two hundred tokens a second."""
        served.runtime.script = [each for word in words for each in (word, 0.005)] + [Delta("", 1, FINISH)]
        before = cpu_ms()
        num_frames = int(page.evaluate(STREAMED))
        return (cpu_ms() - before) / num_frames

    def answer(text: str) -> None:
        served.runtime.script = [Delta(text, 1), Delta("", 1, FINISH)]
        write(page, "Write a lot")
        answered(page)

    page.wait_for_selector("select:not([hidden])")
    frame_ms()  # which also compiles the scripts
    short = frame_ms()
    part = "Some **words** and `code`.\n\n- a\n- b\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    answer(part * (480_000 // len(part) + 1))
    assert len(str(page.locator(".message.assistant").last.text_content())) > 200_000
    near = frame_ms()
    answer("A paragraph.\n\n" * 300)
    far = frame_ms()
    print(f"CPU time of a frame: {short:.1f} ms, below a long answer {near:.1f}, further down {far:.1f}")
    assert near < 100 * short
    assert far < 5 * short


def with_words(script: str) -> str:
    """The script with `words.GROUP.` where it has a shorter name for a group."""
    for name, group in re.findall(r"^const (\w+) = words\.(\w+);$", script, re.MULTILINE):
        script = re.sub(rf"\b{name}([.\[])", rf"words.{group}\1", script)
    return script


def test_every_word_of_the_page_is_said_somewhere() -> None:
    sources = {
        entry.name: with_words(entry.read_text("utf-8"))
        for entry in importlib.resources.files("localllm.server.ui").iterdir()
        if entry.name.endswith(".js")
    }
    words = sources.pop("words.js")
    said = "\n".join(sources.values()) + words
    groups = set(re.findall(r"^  (\w+): \{$", words, re.MULTILINE)) | {"views", "theme", "presets", "thinkings"}
    unsaid = []
    for group in groups:
        body = re.search(rf"^  {group}: \{{\n(.*?)^  \}},$", words, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"^    (\w+):", body[1] if body else "", re.MULTILINE):
            if not re.search(rf"words\.{group}\.{name}\b|words\.{group}\[", said):
                unsaid.append(f"{group}.{name}")
    assert not unsaid


def test_a_page_from_right_to_left_is_a_mirror_and_nothing_is_wider_than_it(page: Page, served: Served) -> None:
    mirrored = "() => { document.documentElement.dir = 'rtl'; }"
    served.runtime.script = [Delta("سلام **دنيا** abc\n\n```py\nx = 1\n```", 1), Delta("", 1, FINISH)]
    page.goto(served.url)
    page.evaluate(mirrored)
    write(page, "سلام")
    answered(page)
    sidebar, main = page.locator("#sidebar").bounding_box(), page.locator("#main").bounding_box()
    assert sidebar is not None
    assert main is not None
    assert sidebar["x"] > main["x"]
    assert page.evaluate("getComputedStyle(document.querySelector('.message.assistant p')).direction") == "rtl"
    assert page.evaluate("getComputedStyle(document.querySelector('.message.assistant pre')).direction") == "ltr"
    for view in ("#models", "#machine", "#chat"):
        page.goto(f"{served.url}{view}")
        page.evaluate(mirrored)
        for width in (1200, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    expect(page.locator("#sidebar")).to_be_hidden()
