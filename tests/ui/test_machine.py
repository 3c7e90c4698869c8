"""The machine view in a real browser: what runs, what doctor says, and how fast it answers."""

from __future__ import annotations

import os
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from localllm.server.ui import doctor
from localllm.settings.config import Settings
from tests.server.conftest import Served, running
from tests.server.fake_runtime import HANG


def test_doctor_says_on_the_page_what_it_says_in_a_terminal(page: Page, demo_url: str) -> None:
    page.goto(f"{demo_url}#machine")
    page.get_by_role("button", name="Examine this machine").click()
    expect(page.locator("#doctor")).to_contain_text("Models can be loaded here.", timeout=120_000)
    expect(page.locator("#doctor")).to_contain_text("Self-test")


def test_only_an_admin_learns_what_doctor_says() -> None:
    keys = "boss(admin)=boss-secret,guest=guest-secret"
    with running(Settings(port=0, grace_s=0.1, api_keys=keys)) as guarded:
        assert guarded.http.get("/localllm/doctor").status_code == 401
        guest = {"authorization": "Bearer guest-secret"}
        refused = guarded.http.get("/localllm/doctor", headers=guest)
        assert refused.status_code == 403
        assert "admin" in refused.text


def test_doctor_ends_with_the_client_that_asked(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = f"import signal; file = open({str(pipe)!r}, 'w'); print('begun', file=file, flush=True); signal.pause()"
    monkeypatch.setattr(doctor, "command", lambda _: [sys.executable, "-c", code])
    page.goto(f"{served.url}#machine")
    page.get_by_role("button", name="Examine this machine").click()
    with pipe.open() as told:
        assert told.readline() == "begun\n"
        page.reload()
        assert told.read() == "", "its end of the pipe closes when the process is gone"


def test_a_server_uses_its_own_folders_and_libraries_in_the_examination(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", plugin_dir=tmp_path / "plugins", runtime="wheel")
    options = doctor.command(settings)[4:]
    assert options == [
        "doctor",
        f"--home={tmp_path / 'home'}",
        f"--plugin-dir={tmp_path / 'plugins'}",
        "--runtime=wheel",
    ]


def test_a_short_bench_is_drawn_and_still_there_after_a_reload(page: Page, demo_url: str) -> None:
    page.goto(f"{demo_url}#machine")
    page.get_by_role("button", name="Measure").click()
    rows = page.locator("#bench tbody tr")
    expect(rows).to_have_count(3, timeout=60_000)
    expect(page.get_by_role("button", name="Measure")).to_be_enabled()
    assert [row.split()[0] for row in rows.all_inner_texts()] == ["1", "2", "4"]
    assert page.locator("#bench svg circle").count() == 3
    assert all(float(row.split()[1].replace(",", "")) > 1 for row in rows.all_inner_texts())
    page.reload()
    expect(page.locator("#bench svg circle")).to_have_count(3)
    expect(page.locator("#bench")).to_contain_text("demo")


def test_a_bench_that_is_stopped_keeps_nothing(page: Page, served: Served) -> None:
    served.runtime.script = [HANG]
    page.goto(f"{served.url}#machine")
    page.get_by_role("button", name="Measure").click()
    assert served.runtime.answered.wait(10)
    page.locator("#bench").get_by_role("button", name="Stop").click()
    assert served.runtime.answers[0].closed.wait(10)
    expect(page.locator("#bench tbody tr")).to_have_count(0)


def test_the_plots_say_since_when_they_know_and_leave_out_what_they_do_not(page: Page, served: Served) -> None:
    page.clock.install(time=datetime(2026, 11, 28, 14, 3))
    page.goto(f"{served.url}#machine")
    heading = page.locator("main h2").first
    expect(heading).to_have_text(re.compile("Since 2:03"))
    expect(page.locator(".plot .line").last).to_have_attribute("d", re.compile("M"))
    hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); "
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", True)
    page.clock.run_for(299_000)
    page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange')); }", False)
    expect(page.locator(".plot .line").last).to_have_attribute("d", re.compile("M.*M"))
    page.clock.run_for(2_000)
    served.runtime.models = []
    expect(heading).to_have_text("The last five minutes")


def test_the_plots_go_on_while_another_view_is_shown(page: Page, served: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{served.url}#machine")
    expect(page.locator(".slots li").first).to_be_visible()
    page.keyboard.press("1")
    served.runtime.models = []
    page.keyboard.press("3")
    expect(page.locator("main")).to_contain_text("No model is loaded")
    assert len([url for url in asked if url.endswith("/localllm/watch")]) == 1
