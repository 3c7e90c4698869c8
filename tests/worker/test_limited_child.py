"""A child process that is bounded in time: what its deadline ends, and what it must not end."""

from __future__ import annotations

import threading

import pytest

from localllm.chat.request import RenderRequest
from localllm.types import Message
from localllm.worker.prompts.template_child import TemplateChild
from localllm.worker.watchdog import Watchdog
from tests.waiting import until

TEMPLATE = "{{ messages[0].content }}"


def at_the_deadline(watchdog: Watchdog) -> bool:
    """Time runs out in the moment in which the work ends."""
    watchdog._overrun()
    return True


def test_an_answer_at_the_deadline_counts_and_the_next_request_gets_a_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = TemplateChild()
    try:
        assert child.render(RenderRequest(TEMPLATE, (Message("user", "one"),))).text == "one"
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(Watchdog, "end", at_the_deadline)
                assert child.render(RenderRequest(TEMPLATE, (Message("user", "two"),))).text == "two"
            assert child.render(RenderRequest(TEMPLATE, (Message("user", "three"),))).text == "three"
    finally:
        child.close()


def test_one_thread_watches_one_deadline_after_the_other_and_ends_when_there_is_none() -> None:
    overran = threading.Event()
    watchdog = Watchdog(overran.set)
    others = set(threading.enumerate())

    def watching() -> set[threading.Thread]:
        return set(threading.enumerate()) - others

    watchdog.begin(60)
    (first,) = watching()
    assert not watchdog.end()
    watchdog.begin(0.2)  # earlier than it meant to look
    assert watching() == {first}
    assert overran.wait(10)
    first.join(10)
    assert watchdog.end()
    assert not watching()
    watchdog.begin(60)
    assert watching()
    assert not watchdog.end()
    watchdog.begin(0.01)
    until(lambda: not watching())
