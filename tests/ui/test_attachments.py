"""Pictures, sounds and documents in a real browser: attached in every way, kept with their chat, shown, sent, freed."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, Request, expect

from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.homes import share_findings
from tests.models.media import write_media_model
from tests.pictures import png, wav
from tests.server.conftest import Served, running, serving
from tests.server.fake_runtime import FINISH, HANG, tiny_model
from tests.ui.conftest import answered, press, write
from tests.ui.seeing import READS, give, seeing_model

LAST = ".message.assistant:last-child"
MODEL = ".chat > .bar select"
RED = png(np.full((40, 60, 3), (255, 0, 0), np.uint8))
BLUE = png(np.full((30, 30, 3), (0, 0, 255), np.uint8))
SOUND = wav(np.zeros(1600, np.int16))
STORED = "import('./ui/store.js').then(({ fileBytes }) => fileBytes())"


def script(served: Served, *texts: str) -> None:
    served.runtime.script = [*(Delta(text, 1) for text in texts), Delta("", 1, FINISH)]


def open_page(page: Page, served: Served) -> None:
    """With a model that sees and hears, chosen, and one that does not."""
    served.runtime.models = [seeing_model(), tiny_model()]
    served.runtime.reads = READS
    page.goto(served.url)
    page.select_option(MODEL, "seeing")


def sent(served: Served) -> list[bytes]:
    """The files of the last request, in the order of its messages."""
    request = served.runtime.requests[-1]
    contents = {file.digest: file.data for file in request.media}
    return [contents[medium.digest] for message in request.messages or () for medium in message.media]


def test_files_are_picked_pasted_and_dropped_and_removed_by_key(page: Page, served: Served, tmp_path: Path) -> None:
    open_page(page, served)
    picked = tmp_path / "red.png"
    picked.write_bytes(RED)
    with page.expect_file_chooser() as chooser:
        page.click("[aria-label='Attach files']")
    chooser.value.set_files(picked)
    chips = page.locator(".composer .chip")
    expect(chips).to_have_count(1)
    assert give(page, "paste", ("blue.png", "image/png", BLUE))
    expect(chips).to_have_count(2)
    assert give(page, "drop", ("voice.wav", "", SOUND), ("notes.md", "", b"Buy milk"), ("blue.png", "", BLUE))
    expect(chips).to_have_count(5)
    expect(page.locator(".composer .thumb img")).to_have_count(3)
    expect(chips.first).to_have_text("red.png" + f"{len(RED)} B · 60 × 40")
    page.get_by_role("button", name="Remove: blue.png").first.focus()
    page.keyboard.press("Delete")
    expect(page.get_by_role("button", name="Remove: voice.wav")).to_be_focused()
    script(served, "Red")
    write(page, "What is this?")
    answered(page)
    expect(chips).to_have_count(0)
    assert sent(served) == [RED, SOUND, BLUE]
    messages = served.runtime.requests[-1].messages
    assert messages is not None
    assert messages[0].content == "notes.md:\n```\nBuy milk\n```\n\nWhat is this?"
    page.get_by_title("Open red.png").click()
    large = page.locator("dialog img")
    expect(large).to_have_attribute("alt", "red.png")
    assert large.evaluate("picture => picture.naturalWidth") == 60
    page.keyboard.press("Escape")
    expect(page.get_by_title("Open red.png")).to_be_focused()


def test_a_reload_while_a_picture_is_read_asks_again_with_it(page: Page, served: Served) -> None:
    open_page(page, served)
    served.runtime.script = [HANG]
    give(page, "drop", ("red.png", "image/png", RED))
    expect(page.locator(".chip")).to_be_visible()
    write(page, "What is this?")
    expect(page.locator(f"{LAST} .status")).to_have_text("Reading the picture …")
    assert served.runtime.answered.wait(10)
    script(served, "Red")
    page.reload()
    expect(page.locator(f"{LAST} .body")).to_have_text("Red")
    assert served.runtime.answers[0].closed.wait(10)
    assert sent(served) == [RED]
    expect(page.locator(".message.user .thumb img")).to_be_visible()


def test_a_file_is_sent_once_and_again_only_when_the_server_has_lost_it(page: Page) -> None:
    noise = png(np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8))
    with running(Settings(port=0, grace_s=0.1, max_blobs=1)) as served:
        open_page(page, served)
        asked: dict[str, list[Request]] = {}
        page.on("request", lambda request: asked.setdefault(httpx.URL(request.url).path, []).append(request))

        def sizes(path: str) -> list[int]:
            return [int(request.all_headers().get("content-length", 0)) for request in asked.pop(path, [])]

        def ask(question: str, *files: bytes) -> None:
            script(served, "Noise")
            write(page, question)
            answered(page)
            assert sent(served) == [*files]

        give(page, "drop", ("noise.png", "image/png", noise))
        expect(page.locator(".chip")).to_be_visible()
        for question in ("What is this?", "And now?", "And then?"):
            ask(question, noise)
        assert sizes("/localllm/blobs") == [len(noise)]
        assert max(sizes("/v1/chat/completions") + sizes("/v1/chat/completions/input_tokens")) < 2000

        page.reload()  # it forgets what it has sent; the server has it
        page.wait_for_selector("select:not([hidden])")
        ask("After a reload?", noise)
        assert sizes("/localllm/blobs") == []

        served.http.post("/localllm/blobs", content=RED)  # in its place
        ask("Is it still there?", noise)
        assert sizes("/localllm/blobs") == [len(noise)]

        give(page, "drop", ("blue.png", "image/png", BLUE))  # for both there is no room
        expect(page.locator(".composer .chip")).to_be_visible()
        ask("And both?", noise, BLUE)
        assert sizes("/v1/chat/completions")[-1] > len(noise) * 4 / 3
        assert page.locator(".error:visible").count() == 0


def test_edits_versions_tabs_exports_and_imports_keep_files_and_deletion_frees_them(
    page: Page, served: Served, tmp_path: Path
) -> None:
    open_page(page, served)
    give(page, "drop", ("red.png", "image/png", RED), ("blue.png", "image/png", BLUE))
    expect(page.locator(".chip")).to_have_count(2)
    script(served, "Two colors")
    write(page, "What are these?")
    answered(page)
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .versions")).to_contain_text("2/2")
    answered(page)
    assert sent(served) == [RED, BLUE]
    page.click(".message.user >> button[title=Edit]")
    page.get_by_role("button", name="Remove: red.png").click()
    script(served, "One")
    page.click("text=Send again")
    expect(page.locator(f"{LAST} .body")).to_have_text("One")
    assert sent(served) == [BLUE]
    page.click(".message.user [aria-label='Previous version']")
    expect(page.locator(".message.user .thumb img")).to_have_count(2)
    assert page.evaluate(STORED) == len(RED) + len(BLUE), "each content once"
    other = page.context.new_page()
    other.goto(served.url)
    other.click(".chats .title")
    expect(other.locator(".message.user .thumb img")).to_have_count(2)
    other.close()
    with page.expect_download() as download:
        page.click("text=Export all")
    path = tmp_path / "all.json"
    download.value.save_as(path)
    (exported,) = json.loads(path.read_text())["conversations"]
    assert {base64.b64decode(url.split(",")[1]) for url in exported["files"].values()} == {RED, BLUE}
    page.click(".chats .sign")
    press(page, "Delete")
    page.click("dialog .danger")
    expect(page.locator(".chats li")).to_have_count(0)
    assert page.evaluate(STORED) == 0
    with page.expect_file_chooser() as chooser:
        page.click("text=Import")
    chooser.value.set_files(path)
    page.click(".chats .title")
    script(served, "As before")
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .body")).to_have_text("As before")
    assert sent(served)[-1] == BLUE


def test_what_the_chosen_model_does_not_read_is_said_and_nothing_is_lost(page: Page, served: Served) -> None:
    open_page(page, served)
    camera = page.get_by_role("button", name="Take a picture")
    expect(camera).to_be_visible()
    page.select_option(MODEL, "tiny")
    expect(camera).to_be_hidden()
    give(page, "drop", ("red.png", "image/png", RED))
    refusal = page.locator(".composer .chip .error")
    expect(refusal).to_have_text("tiny cannot see pictures. Remove it or choose seeing.")
    page.fill("#field", "What is this?")
    page.press("#field", "Enter")
    page.select_option(MODEL, "seeing")
    expect(refusal).to_have_count(0)
    expect(page.locator("#field")).to_have_value("What is this?")
    script(served, "Red")
    page.press("#field", "Enter")
    answered(page)
    (request,) = served.runtime.requests
    assert request.media
    page.select_option(MODEL, "tiny")
    expect(page.get_by_text("tiny cannot see pictures: of those of earlier messages it gets a note.")).to_be_visible()
    served.runtime.reads = frozenset()
    write(page, "And now?")
    answered(page)
    assert "messages[0].content[0]: image omitted: the model cannot see images" in served.runtime.requests[-1].notes


def test_what_the_server_refuses_is_said_beside_the_file(page: Page, served: Served) -> None:
    open_page(page, served)
    give(page, "drop", ("red.png", "image/png", RED), ("blue.png", "image/png", BLUE))
    expect(page.locator(".chip")).to_have_count(2)
    at = "messages[0].content[1]"
    served.runtime.refusal = InvalidParameter(f"{at} cannot be read: it is damaged", param=at)
    write(page, "What are these?")
    refused = page.locator(".message.user .chip.refused")
    expect(refused).to_contain_text("blue.png cannot be read: it is damaged")
    expect(page.locator(f"{LAST} .status")).to_have_text(
        "blue.png was refused. Edit the message to remove or replace it."
    )
    served.runtime.refusal = None
    script(served, "Red")
    page.click(".message.user >> button[title=Edit]")
    page.get_by_role("button", name="Remove: blue.png").click()
    page.click("text=Send again")
    expect(page.locator(f"{LAST} .body")).to_have_text("Red")
    assert sent(served) == [RED]


def test_only_what_is_larger_than_the_server_reads_is_scaled_down_and_old_files_make_room(
    page: Page, served: Served
) -> None:
    open_page(page, served)
    noise = png(np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8))
    limits = "limits => import('./ui/session.js').then(({ session }) => Object.assign(session.limits, limits))"
    page.wait_for_load_state("networkidle")  # the server's limits have come
    page.evaluate(limits, {"pixels": 15_000})
    give(page, "drop", ("noise.png", "image/png", noise), ("red.png", "image/png", RED))
    first = page.locator(".composer .chip").first
    expect(first).to_contain_text("150 × 100 · scaled down from 300 × 200, 180 kB to the server’s limits")
    expect(page.locator(".chip")).to_have_count(2)
    page.evaluate(limits, {"requestBytes": len(RED) + 10})
    write(page, "What are these?")
    answered(page)
    assert sent(served) == [RED]
    messages = served.runtime.requests[-1].messages
    assert messages is not None
    assert "[image omitted: noise.png]" in messages[0].content
    expect(page.get_by_text("The oldest 1 attachment is no longer sent")).to_be_visible()


def test_camera_and_microphone_are_off_when_their_dialogs_are(page: Page, served: Served) -> None:
    open_page(page, served)
    page.evaluate("""() => {
      const get = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
      window.streams = [];
      navigator.mediaDevices.getUserMedia = async (what) => {
        streams.push(await get(what));
        return streams.at(-1);
      };
    }""")
    page.get_by_role("button", name="Take a picture").click()
    page.wait_for_selector("dialog video")
    page.locator("dialog video").evaluate("video => new Promise(resolve => video.requestVideoFrameCallback(resolve))")
    press(page, "Take it")
    expect(page.locator(".composer .thumb img")).to_be_visible()
    page.get_by_role("button", name="Record sound").click()
    expect(page.locator("dialog .recording")).to_contain_text("0:01")
    press(page, "Attach it")
    expect(page.locator(".composer .chip")).to_have_count(2)
    on = "streams.flatMap(each => each.getTracks()).filter(each => each.readyState === 'live').length"
    assert page.evaluate(on) == 0
    write(page, "What is this?")
    answered(page)
    picture, sound = sent(served)
    assert picture[:3] == b"\xff\xd8\xff"
    assert (sound[:4], sound[8:12]) == (b"RIFF", b"WAVE")
    assert int.from_bytes(sound[24:28], "little") == 16_000
    assert len(sound) > 16_000, "at least half a second"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_attachments(page: Page, served: Served, scheme: Any) -> None:
    axe = Path(os.environ.get("NODE_PATH", "none")) / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("NODE_PATH names no folder with axe-core")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 320, "height": 700})
    open_page(page, served)
    files = [("red.png", "image/png", RED), ("a-very-long-name-" * 6 + ".wav", "audio/wav", SOUND)]
    give(page, "drop", *files)
    expect(page.locator(".chip")).to_have_count(2)
    write(page, "What are these?")
    answered(page)
    page.select_option(MODEL, "tiny")
    give(page, "drop", *files)
    expect(page.locator(".composer .chip.refused")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.evaluate(axe.read_text())
    page.get_by_title("Open red.png").first.click()
    expect(page.locator("dialog img")).to_be_visible()
    for _ in range(2):  # with the dialog, then without
        found = page.evaluate("axe.run()")["violations"]
        serious = [
            (each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")
        ]
        assert not serious
        page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def seeing_url(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a tiny model that really sees."""
    folder = tmp_path_factory.mktemp("seeing")
    share_findings(home, folder)
    made = write_media_model("mlp", folder)
    with serving(Settings(home=folder, port=0, ctx=1024, mmproj=str(made.projector)), model=str(made.model)) as url:
        yield url


def test_a_model_sees_what_is_pasted_and_its_rows_are_counted(page: Page, seeing_url: str) -> None:
    page.goto(seeing_url)
    page.wait_for_selector("select:not([hidden])")
    give(page, "paste", ("red.png", "image/png", RED))
    expect(page.locator(".context")).to_contain_text("of them for attachments")
    give(page, "drop", ("broken.png", "image/png", RED[:40]))
    expect(page.locator(".composer .chip.refused .error")).to_contain_text("of no format that is read here")
    page.get_by_role("button", name="Remove: broken.png").click()
    write(page, "What is this?")
    assert answered(page) == "red"
    expect(page.locator(f"{LAST} .figures")).to_contain_text("16 tokens of attachments")
    give(page, "drop", ("broken.png", "image/png", RED[:40]))
    write(page, "And this?")
    expect(page.locator(".message.user .chip.refused .error").last).to_contain_text("of no format")
