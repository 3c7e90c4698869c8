"""The chat in a real browser: streaming, versions, stopping, a reload, tools, settings, files in and out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Page, expect

from localllm.errors import ContextLengthExceeded
from localllm.types import CallDelta, Delta, Finish, FinishReason, Timings, TokenLogprob, Usage
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH, HANG
from tests.ui.conftest import answered, press, write

LAST = ".message.assistant:last-child"


def script(served: Served, *texts: str) -> None:
    served.runtime.script = [*(Delta(text, 1) for text in texts), Delta("", 1, FINISH)]


def asked(served: Served) -> list[tuple[str, str]]:
    """The messages of the last request, as the model gets them."""
    messages = served.runtime.requests[-1].messages
    assert messages is not None
    return [(message.role, str(message.content)) for message in messages]


def test_the_demo_model_answers_and_its_second_turn_starts_from_the_cache(page: Page, demo_url: str) -> None:
    page.goto(demo_url)
    write(page, "Write a short story about a fox.")
    assert "fox" in answered(page)
    assert "tokens/s" in (page.text_content(f"{LAST} .figures") or "")
    write(page, "Tell me more.")
    answered(page)
    figures = page.text_content(f"{LAST} .figures") or ""
    cached = int(figures.split(" · ")[-1].split(" ")[0])
    assert cached > 100, figures
    expect(page.locator(".context")).to_contain_text("of 2,048 tokens")


def test_code_is_wrapped_and_downloaded_and_an_answer_read_aloud(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.evaluate("() => { speechSynthesis.speak = (said) => { window.said = said.text; }; }")
    script(served, "So:\n\n```python\nprint(1)\n```\n")
    write(page, "Code")
    answered(page)
    page.click(f"{LAST} .code button[title='Wrap lines']")
    expect(page.locator(f"{LAST} .code pre")).to_have_class("wrapped")
    with page.expect_download() as download:
        page.click(f"{LAST} .code button[title=Download]")
    assert download.value.suggested_filename == "code.py"
    assert Path(download.value.path()).read_text() == "print(1)"
    page.click(f"{LAST} button[title='Read aloud']")
    assert "print(1)" in page.evaluate("window.said")


def test_an_answer_is_shown_as_it_comes(page: Page, served: Served) -> None:
    served.runtime.script = [Delta("One **two", 1), HANG]
    page.goto(served.url)
    write(page, "Hi")
    expect(page.locator(f"{LAST} .body")).to_contain_text("One **two")
    assert page.get_attribute(LAST, "aria-busy") == "true"
    page.click("#send")


def test_stop_frees_the_slot_and_keeps_what_came(page: Page, served: Served) -> None:
    served.runtime.script = [Delta("Half", 1), HANG]
    page.goto(served.url)
    write(page, "Hi")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    page.press("#field", "Escape")
    assert served.runtime.answers[0].closed.wait(10)
    expect(page.locator(f"{LAST} .status")).to_have_text("Stopped.")
    script(served, " and whole")
    page.click(f"{LAST} >> button[title=Continue]")
    answered(page)
    assert page.inner_text(f"{LAST} .body") == "Half and whole"
    assert asked(served)[-1] == ("assistant", "Half")


def test_other_answers_and_edits_are_versions_that_one_goes_back_to(page: Page, served: Served) -> None:
    page.goto(served.url)
    script(served, "First")
    write(page, "Question")
    answered(page)
    script(served, "Second")
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .body")).to_have_text("Second")
    expect(page.locator(f"{LAST} .versions")).to_contain_text("2/2")
    page.click(f"{LAST} [aria-label='Previous version']")
    expect(page.locator(f"{LAST} .body")).to_have_text("First")
    script(served, "To the other question")
    page.click(".message.user >> button[title=Edit]")
    page.fill(".message.user textarea", "Other question")
    page.click("text=Send again")
    expect(page.locator(f"{LAST} .body")).to_have_text("To the other question")
    assert asked(served) == [("user", "Other question")]
    page.click(".message.user [aria-label='Previous version']")
    expect(page.locator(f"{LAST} .body")).to_have_text("Second")  # the newest behind it


def test_a_reload_in_the_middle_finds_what_had_come_and_goes_on_with_it(page: Page, served: Served) -> None:
    served.runtime.script = [Delta("Once upon", 1), HANG]
    page.goto(served.url)
    write(page, "A story")
    expect(page.locator(f"{LAST} .body")).to_have_text("Once upon")
    script(served, " a time")
    page.reload()
    expect(page.locator(f"{LAST} .body")).to_have_text("Once upon a time")
    assert served.runtime.answers[0].closed.wait(10)
    assert asked(served) == [("user", "A story"), ("assistant", "Once upon")]


def test_thoughts_are_folded_with_their_time(page: Page, served: Served) -> None:
    served.runtime.script = [
        Delta("", 1, thought="Hmm, "),
        Delta("", 1, thought="so."),
        Delta("Yes", 1),
        Delta("", 1, FINISH),
    ]
    page.goto(served.url)
    write(page, "Why?")
    assert answered(page) == "Yes"
    summary = page.locator(f"{LAST} > details summary")
    expect(summary).to_contain_text("Thought for")
    expect(page.locator(f"{LAST} .thought")).to_be_hidden()
    summary.click()
    expect(page.locator(f"{LAST} .thought")).to_have_text("Hmm, so.")


def test_a_call_is_shown_and_the_answer_goes_on_with_its_result(page: Page, served: Served) -> None:
    finish = Finish("stop", Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2), Timings(0.1, 0.2, 0.3))
    call = CallDelta(0, '{"city": "Oslo"}', "weather", "call_1")
    served.runtime.script = [Delta("", 1, calls=(call,)), Delta("", 1, finish)]
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    settings(page, {"Tools (JSON)": '[{"name": "weather", "parameters": {"type": "object"}}]'})
    write(page, "How warm is it?")
    expect(page.locator(f"{LAST} .call")).to_contain_text("Calls weather")
    expect(page.locator(f"{LAST} .call")).to_contain_text("Oslo")
    script(served, "12 degrees")
    page.fill(f"{LAST} .call textarea", "12 C")
    page.click("text=Submit result")
    expect(page.locator(f"{LAST} .body")).to_have_text("12 degrees")
    assert asked(served)[-1] == ("tool", "12 C")
    assert "weather" in str(served.runtime.requests[-1].rendering.tools)


def settings(page: Page, fields: dict[str, str]) -> None:
    page.click("#settings")
    for label, value in fields.items():
        page.get_by_label(label, exact=True).fill(value)
    press(page, "OK")


def test_what_a_chat_is_set_to_is_asked_for(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    fields = {"System message": "Be brief.", "Temperature": "0.25", "Seed": "7", "Maximum tokens": "99"}
    settings(page, fields | {"JSON schema of the answer": json.dumps(schema)})
    script(served, '{"name": "Mira"}')
    write(page, "Who?")
    answered(page)
    request = served.runtime.requests[-1]
    assert (request.params.temperature, request.params.seed, request.params.max_tokens) == (0.25, 7, 99)
    assert request.structure is not None
    assert asked(served)[0] == ("system", "Be brief.")
    expect(page.locator(f"{LAST} .json .string")).to_have_text('"Mira"')
    expect(page.locator(f"{LAST} .json")).to_contain_text("Matches the schema")
    page.click(f"{LAST} >> button[title='As text']")
    expect(page.locator(f"{LAST} .body")).to_have_text('{"name": "Mira"}')
    script(served, '{"name": 7}')
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .json .leaf .error")).to_contain_text('type: "string"')


def test_settings_that_are_no_json_are_said_and_presets_come_back(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.click("#settings")
    for label, value, said in (
        ("Tools (JSON)", "{}", "Tools are a JSON list"),
        ("JSON schema of the answer", "{", "not valid JSON: "),
    ):
        field = page.get_by_label(label, exact=True)
        field.fill(value)
        press(page, "OK")
        expect(page.locator("dialog .complaint")).to_contain_text(said)
        expect(page.locator("dialog .complaint")).to_be_in_viewport(ratio=0.9)
        expect(field).to_be_focused()
        expect(field).to_have_accessible_description(re.compile(said))
        field.fill("")
    page.get_by_label("Temperature").fill("0.5")
    drop = page.get_by_role("button", name="Delete preset")
    expect(drop).to_be_disabled()
    page.get_by_label("Preset name").fill("Mine")
    page.click("text=Save preset")
    page.get_by_label("Temperature").fill("")
    page.locator("dialog select").first.select_option("own Mine")
    assert page.get_by_label("Temperature").input_value() == "0.5"
    drop.click()
    expect(drop).to_be_disabled()
    press(page, "Cancel")


def test_a_new_chat_shows_what_it_takes_over_and_can_begin_without(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    shown = page.locator(".set")
    expect(shown).to_be_hidden()
    settings(page, {"System message": "Be brief.", "Tools (JSON)": '[{"name": "a"}, {"name": "b"}]'})
    expect(shown).to_contain_text("Set for this chat: system message “Be brief.”, 2 tools.")
    script(served, "Hello")
    write(page, "Hi")
    answered(page)
    page.click("#new")
    expect(shown).to_contain_text("Taken over from the chat before: system message “Be brief.”, 2 tools.")
    shown.get_by_role("button", name="Use defaults").click()
    expect(shown).to_be_hidden()
    write(page, "Hi")
    answered(page)
    assert asked(served)[0] == ("user", "Hi")
    page.click(".chats li:last-child .title")
    expect(shown).to_contain_text("Set for this chat")


def test_how_likely_each_token_was_is_shown_as_shades(page: Page, demo_url: str) -> None:
    page.goto(demo_url)
    page.wait_for_selector("select:not([hidden])")
    page.click("#settings")
    page.get_by_label("Show token probabilities").check()
    press(page, "OK")
    write(page, "Hi")
    answered(page)
    tokens = page.locator(f"{LAST} .likely span")
    assert tokens.count() > 2
    tokens.nth(1).hover()
    others = page.locator(f"{LAST} .others")
    expect(others.locator("b")).to_contain_text("%")
    assert others.locator("span").count() >= 4
    second = others.inner_text()
    page.focus(f"{LAST} .likely")
    page.keyboard.press("ArrowRight")
    expect(others).not_to_have_text(second)
    expect(page.locator(f"{LAST} .likely .chosen")).to_have_count(1)


def likely(*tokens: str) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token.encode(), -0.1, ((token.encode(), -0.1), (b"x", -3.0))) for token in tokens)


def test_only_the_text_of_an_answer_is_shaded_and_all_of_it(page: Page, served: Served) -> None:
    """Thoughts, calls, tags and split characters have tokens, too; what was continued without them has none."""
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.click("#settings")
    page.get_by_label("Show token probabilities").check()
    press(page, "OK")
    face = "\N{GRINNING FACE}".encode()
    halves = tuple(TokenLogprob(half, -2.5, ((half, -2.5),)) for half in (face[:2], face[2:]))
    served.runtime.script = [
        Delta("", 2, thought="A cat", logprobs=likely("A", " cat")),
        Delta("", 1, logprobs=likely("</think>")),
        Delta("A cat", 3, logprobs=likely("\n", "A", " cat")),
        Delta("", 1, logprobs=halves[:1]),
        Delta("\N{GRINNING FACE}", 1, logprobs=halves[1:]),
        Delta("", 1, logprobs=likely("<tool_call>")),
        Delta("", 1, Finish("length", Usage(7, 9), Timings(0.1, 0.2, 0.3))),
    ]
    write(page, "Hi")
    answered(page)
    shaded = page.locator(f"{LAST} .likely span")
    assert [text for text in shaded.all_inner_texts() if text] == ["A", " cat", "\N{GRINNING FACE}"]
    expect(page.locator(f"{LAST} .thought")).to_have_text("A cat")
    page.click("#settings")
    page.get_by_label("Show token probabilities").uncheck()
    press(page, "OK")
    script(served, " sleeps")
    page.click(f"{LAST} >> button[title=Continue]")
    expect(page.locator(f"{LAST} .markdown")).to_contain_text("sleeps")
    page.click("#settings")
    page.get_by_label("Show token probabilities").check()
    press(page, "OK")
    expect(page.locator(f"{LAST} .likely")).to_have_text("A cat\N{GRINNING FACE} sleeps")
    calls = (CallDelta(0, "{}", "purr", "1"),)
    served.runtime.script = [
        Delta("Well", 3, logprobs=likely("Well", "<tool_call>", "{}"), calls=calls),
        Delta("", 1, Finish("length", Usage(7, 9), Timings(0.1, 0.2, 0.3))),
    ]
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .call")).to_be_visible()
    expect(page.locator(f"{LAST} .likely")).to_have_text("Well")
    expect(page.locator(f"{LAST} >> button[title=Continue]")).to_have_count(0)


def test_what_ended_an_answer_is_named_and_a_full_context_is_not_continued_in(page: Page, served: Served) -> None:
    spent = Usage(prompt_tokens=4000, completion_tokens=96)
    finish = Finish("length", spent, Timings(0.1, 0.2, 0.3), is_context_full=True)
    served.runtime.script = [Delta("Once", 1), Delta("", 1, finish)]
    page.goto(served.url)
    write(page, "A story")
    answered(page)
    status, go_on = page.locator(f"{LAST} .status"), page.locator(f"{LAST} >> button[title=Continue]")
    expect(status).to_contain_text("The context is full (4,096 tokens). Start a new chat")
    expect(page.locator("#live")).to_contain_text("The context is full")
    expect(go_on).to_have_count(0)
    served.runtime.refusal = ContextLengthExceeded("too long", prompt_tokens=5000, context_length=512)
    write(page, "More")
    expect(status).to_contain_text("The conversation does not fit into the context of")
    served.runtime.refusal = None
    for reason, text in (("length", "The limit of 7 tokens from the chat settings"), ("timeout", "time limit")):
        page.click("#new")
        settings(page, {"Maximum tokens": "7"})
        served.runtime.script = [
            Delta("Once", 1),
            Delta("", 1, Finish(cast(FinishReason, reason), spent, Timings(0.1, 0.2, 0.3))),
        ]
        write(page, "A story")
        expect(status).to_contain_text(text)
        expect(go_on).to_be_visible()


def test_a_search_finds_what_stands_in_any_branch_and_opens_that_branch(page: Page, served: Served) -> None:
    page.goto(served.url)
    script(served, "A heron stands in the reeds")
    write(page, "Name a bird")
    answered(page)
    script(served, "A crow")
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .body")).to_have_text("A crow")
    page.click("#new")
    page.fill("#search", "HERON bird")
    expect(page.locator(".chats small")).to_have_text("A heron stands in the reeds")
    page.click(".chats .title")
    expect(page.locator(f"{LAST} .body")).to_have_text("A heron stands in the reeds")
    expect(page.locator(f"{LAST} .versions")).to_contain_text("1/2")
    expect(page.locator(LAST)).to_be_focused()
    assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == ["heron"]
    page.keyboard.press("ArrowRight")
    expect(page.locator(f"{LAST} .body")).to_have_text("A crow")
    expect(page.locator("#live")).to_have_text("Version 2 of 2")


def test_conversations_are_searched_renamed_exported_imported_and_deleted(
    page: Page, served: Served, tmp_path: Path
) -> None:
    page.goto(served.url)
    for question, answer in (("About whales", "They sing"), ("About stones", "They lie")):
        page.click("#new")
        script(served, answer)
        write(page, question)
        answered(page)
    titles = page.locator(".chats .title")
    expect(titles).to_have_text(["About stones", "About whales"])
    page.fill("#search", "sing")
    expect(titles).to_have_text(["About whales"])
    titles.first.click()
    expect(page.locator(f"{LAST} .body")).to_have_text("They sing")
    page.click(".chats .sign")
    page.fill("dialog input", "Whales")
    press(page, "OK")
    expect(titles).to_have_text(["Whales"])
    page.fill("#search", "")
    first = page.locator(".chats li").first
    for press_, heading in (("Pin", "Pinned"), ("Unpin", "Today")):
        page.click(".chats li:has-text('About stones') .sign")
        press(page, press_)
        expect(first).to_have_attribute("data-when", heading)
    page.click(".chats li:has-text('About stones') .sign")
    press(page, "Pin")
    expect(titles).to_have_text(["About stones", "Whales"])
    with page.expect_download() as download:
        page.click("text=Export all")
    path = tmp_path / "all.json"
    download.value.save_as(path)
    whole: dict[str, Any] = json.loads(path.read_text())
    assert sorted(each["title"] for each in whole["conversations"]) == ["About stones", "Whales"]
    page.click(".chats li:has-text('Whales') .sign")
    with page.expect_download() as download:
        page.click("text=Export as Markdown")
    assert "## You\n\nAbout whales" in Path(download.value.path()).read_text()
    for title in ("Whales", "About stones"):
        page.click(f".chats li:has-text('{title}') .sign")
        press(page, "Delete")
        page.click("dialog .danger")
        expect(page.locator(f".chats li:has-text('{title}')")).to_have_count(0)
    with page.expect_file_chooser() as chooser:
        page.click("text=Import")
    chooser.value.set_files(path)
    expect(titles).to_have_count(2)
    page.click(".chats .title >> text=Whales")
    expect(page.locator(f"{LAST} .body")).to_have_text("They sing")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_conversation_that_is_deleted_while_it_is_answered_does_not_come_back(
    page: Page, served: Served, is_open: bool
) -> None:
    served.runtime.script = [Delta("Half", 1), HANG]
    page.goto(served.url)
    write(page, "Hi")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    if not is_open:
        page.click("#new")
    page.click(".chats li:has-text('Hi') .sign")
    press(page, "Delete")
    page.click("dialog .danger")
    assert served.runtime.answers[0].closed.wait(10), "its answer is stopped"
    script(served, "Hello")
    write(page, "Another")
    answered(page)
    expect(page.locator(".chats .title")).to_have_text(["Another"])
    page.reload()
    expect(page.locator(".chats .title")).to_have_text(["Another"])


def test_a_text_file_is_attached_and_what_no_model_reads_is_said(page: Page, served: Served, tmp_path: Path) -> None:
    page.goto(served.url)
    (tmp_path / "notes.md").write_text("Buy milk")
    (tmp_path / "program.bin").write_bytes(b"\x7fELF\x00\xff")
    for name in ("notes.md", "program.bin"):
        with page.expect_file_chooser() as chooser:
            page.click("[aria-label='Attach files']")
        chooser.value.set_files(tmp_path / name)
    expect(page.locator(".composer .error")).to_contain_text("program.bin is neither a text nor")
    expect(page.locator(".chip")).to_have_count(1)
    script(served, "Milk")
    write(page, "What shall I buy?")
    answered(page)
    assert asked(served)[-1][1] == "notes.md:\n```\nBuy milk\n```\n\nWhat shall I buy?"


def test_what_the_server_refuses_is_said_and_can_be_asked_again(page: Page, served: Served) -> None:
    from localllm.errors import QueueFull

    page.goto(served.url)
    served.runtime.refusal = QueueFull("256 requests wait already; try again later")
    write(page, "Hi")
    expect(page.locator(f"{LAST} .status")).to_contain_text("256 requests wait already")
    served.runtime.refusal = None
    script(served, "Now")
    page.click(f"{LAST} >> button[title=Regenerate]")
    expect(page.locator(f"{LAST} .body")).to_have_text("Now")


def test_what_is_typed_in_a_message_outlives_the_end_of_an_answer(page: Page, served: Served) -> None:
    served.runtime.script = [Delta("Half", 1), HANG]
    page.goto(served.url)
    write(page, "Question")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    page.get_by_role("button", name="Edit", exact=True).click()
    field = page.locator(".message.user textarea")
    field.fill("In other words")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(f"{LAST} .status")).to_have_text("Stopped.")
    expect(field).to_have_value("In other words")
    field.blur()
    page.keyboard.press("e")
    expect(field).to_be_focused()
    expect(field).to_have_value("In other words")
    script(served, "Other")
    field.press("Control+Enter")
    expect(page.locator(f"{LAST} .body")).to_have_text("Other")
    assert answered(page) == "Other"
    assert asked(served) == [("user", "In other words")]


def test_an_answer_in_progress_is_found_again_when_another_of_its_conversation_ends(page: Page, served: Served) -> None:
    served.runtime.script = [Delta("Half", 1), HANG]
    page.goto(served.url)
    write(page, "Question")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    script(served, "Other")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.locator(".message.user textarea").press("Control+Enter")
    assert answered(page) == "Other"
    page.click("#new")
    page.click(".chats .title >> text=Question")
    page.click(".message.user [aria-label='Previous version']")
    expect(page.locator(f"{LAST} .body")).to_have_text("Half")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(f"{LAST} .status")).to_have_text("Stopped.")


HOLD_THE_NEXT = """mode => {
  const begin = IDBDatabase.prototype.transaction;
  const released = new Promise((resolve) => { window.release = resolve; });
  window.held = new Promise((holding) => {
    IDBDatabase.prototype.transaction = function (stores, wanted) {
      const transaction = begin.call(this, stores, wanted);
      if (wanted === mode && stores.includes("messages")) {
        IDBDatabase.prototype.transaction = begin;
        Object.defineProperty(transaction, "oncomplete", {
          set(done) { transaction.addEventListener("complete", () => { holding(); released.then(done); }); },
        });
      }
      return transaction;
    };
  });
}"""
"""The page hears of its next access to the messages only after `release()`; `held` resolves when that is complete."""

WAIT_FOR_ENDS = """count => import("./ui/session.js").then(({ session }) => {
  window.ended = new Promise((resolve) => session.addEventListener("ended", () => { if (!--count) resolve(); }));
})"""
"""`ended` resolves when so many answers have ended, whether they are shown or not."""


def begin_two(page: Page, served: Served) -> None:
    """Two answered conversations, "About stones" shown, "About whales" not."""
    page.goto(served.url)
    for question, answer in (("About whales", "They sing"), ("About stones", "They lie")):
        page.click("#new")
        script(served, answer)
        write(page, question)
        answered(page)


def test_of_two_conversations_opened_in_quick_succession_the_last_is_shown(page: Page, served: Served) -> None:
    begin_two(page, served)
    page.click("#new")
    page.evaluate(HOLD_THE_NEXT, "readonly")
    page.click(".chats .title >> text=whales")
    page.evaluate("held")
    page.click(".chats .title >> text=stones")
    expect(page.locator(f"{LAST} .body")).to_have_text("They lie")
    page.evaluate("() => { release(); return new Promise((resolve) => setTimeout(resolve)); }")
    expect(page.locator(f"{LAST} .body")).to_have_text("They lie")
    expect(page.locator(".chats .open .title")).to_have_text("About stones")


def test_a_message_is_answered_in_its_own_conversation_even_if_another_is_opened_at_once(
    page: Page, served: Served
) -> None:
    begin_two(page, served)
    page.evaluate(WAIT_FOR_ENDS, 1)
    page.evaluate(HOLD_THE_NEXT, "readwrite")
    script(served, "As old as the earth")
    page.fill("#field", "How old?")
    page.press("#field", "Enter")
    page.evaluate("held")
    page.click(".chats .title >> text=whales")
    expect(page.locator(f"{LAST} .body")).to_have_text("They sing")
    page.evaluate("release()")
    page.evaluate("ended")
    expect(page.locator(f"{LAST} .body")).to_have_text("They sing")
    page.click(".chats .title >> text=stones")
    expect(page.locator(f"{LAST} .body")).to_have_text("As old as the earth")
    assert asked(served)[0] == ("user", "About stones")
    page.reload()
    expect(page.locator(f"{LAST} .body")).to_have_text("As old as the earth")


def test_an_import_leaves_the_open_conversation_as_it_is(page: Page, served: Served, tmp_path: Path) -> None:
    begin_two(page, served)
    (tmp_path / "none.json").write_text('{"format": "localllm-conversations", "version": 1, "conversations": []}')
    with page.expect_file_chooser() as chooser:
        page.click("text=Import")
    chooser.value.set_files(tmp_path / "none.json")
    expect(page.locator(".sidebar .note")).to_contain_text("0")
    write(page, "More")
    answered(page)
    expect(page.locator(".chats .title")).to_have_text(["About stones", "About whales"])


def test_what_fails_unexpectedly_is_shown(page: Page, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("select:not([hidden])")
    page.evaluate("""dispatchEvent(new PromiseRejectionEvent("unhandledrejection", {
      promise: Promise.resolve(), reason: new RangeError("Something odd"),
    }))""")
    expect(page.get_by_role("alert")).to_contain_text("Something odd")


FULL = """
IDBObjectStore.prototype.put = () => { throw new DOMException("The disk is full", "QuotaExceededError"); };
"""
BLOCKED = """
IDBFactory.prototype.open = () => { throw new DOMException("Storage is blocked", "SecurityError"); };
"""


@pytest.mark.parametrize(("fault", "reason"), [(FULL, "The disk is full"), (BLOCKED, "Storage is blocked")])
def test_a_chat_works_without_the_database_and_says_what_is_not_stored(
    page: Page, served: Served, fault: str, reason: str
) -> None:
    page.add_init_script(fault)
    page.goto(served.url)
    for question, answer in (("Hi", "Hello"), ("Again", "Once more")):
        script(served, answer)
        write(page, question)
        assert answered(page) == answer
    expect(page.get_by_role("alert")).to_contain_text("does not store conversations")
    expect(page.get_by_role("alert")).to_contain_text(reason)
    assert asked(served) == [("user", "Hi"), ("assistant", "Hello"), ("user", "Again")]
    page.click("#new")
    page.click(".chats .title >> text=Hi")
    expect(page.locator(f"{LAST} .body")).to_have_text("Once more")
    page.click("#new")
    with page.expect_download() as download:
        page.click("text=Export all")
    [exported] = json.loads(Path(download.value.path()).read_text())["conversations"]
    assert [message["content"] for message in exported["messages"]] == ["Hi", "Hello", "Again", "Once more"]


def test_the_result_of_a_call_that_is_being_typed_outlives_that_of_another(page: Page, served: Served) -> None:
    calls = tuple(CallDelta(number, "{}", name, name) for number, name in enumerate(("wind", "rain")))
    served.runtime.script = [Delta("", 1, calls=calls), Delta("", 1, FINISH)]
    page.goto(served.url)
    write(page, "How is the weather?")
    answered(page)
    first, second = (page.locator(f"{LAST} .call").nth(number) for number in range(2))
    second.locator("textarea").fill("none")
    first.locator("textarea").fill("strong")
    first.get_by_role("button").last.click()
    expect(page.locator(".message.tool .body")).to_have_text("strong")
    field = page.locator(".message.assistant .call").nth(1).locator("textarea")
    expect(field).to_have_value("none")
    field.press("Tab")
    script(served, "Windy")
    page.keyboard.press("Enter")
    expect(page.locator(f"{LAST} .body")).to_have_text("Windy")
