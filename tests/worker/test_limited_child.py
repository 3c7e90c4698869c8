"""A child process that is bounded in time: what its deadline ends, and what it must not end."""

from __future__ import annotations

import threading

import pytest

from localllm.chat.request import RenderRequest
from localllm.types import Message
from localllm.worker.prompts.template_child import TemplateChild

TEMPLATE = "{{ messages[0].content }}"


class AtTheDeadline(threading.Timer):
    """Runs out in the moment in which it is cancelled."""

    def cancel(self) -> None:
        self.function(*self.args, **self.kwargs)
        super().cancel()


def test_an_answer_at_the_deadline_counts_and_the_next_request_gets_a_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = TemplateChild()
    try:
        assert child.render(RenderRequest(TEMPLATE, (Message("user", "one"),))).text == "one"
        for _ in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(threading, "Timer", AtTheDeadline)
                assert child.render(RenderRequest(TEMPLATE, (Message("user", "two"),))).text == "two"
            assert child.render(RenderRequest(TEMPLATE, (Message("user", "three"),))).text == "three"
    finally:
        child.close()
