"""Conversations beside large ones, with real template children: a slow one is held until the test lets it go."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from localllm.chat.request import RenderRequest
from localllm.types import Message
from localllm.worker.prompts.rendering import SMALL_CHARACTERS, Render, Renderer
from localllm.worker.prompts.template_child import TemplateChild

TIMEOUT_S = 20
SMALL = (Message("user", "hello"),)
LARGE = (Message("user", "x" * (SMALL_CHARACTERS + 1)),)
TEMPLATE = "{{ messages[0]['role'] }} {{ messages | length }}"


@pytest.fixture
def children() -> Iterator[list[TemplateChild]]:
    started = [TemplateChild()]
    yield started
    for child in started:
        child.close()


class Bench:
    def __init__(self, children: list[TemplateChild]) -> None:
        self.done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.children = children
        self.now_s = 0.0
        self.renderer = Renderer(children[0], self._start, lambda: self.now_s)

    def _start(self) -> TemplateChild:
        self.children.append(TemplateChild())
        return self.children[-1]

    def add(
        self, name: str, messages: tuple[Message, ...], *, wait: threading.Event | None = None, is_wanted: bool = True
    ) -> threading.Event:
        begun = threading.Event()

        def work(render: Render) -> None:
            begun.set()
            if wait is not None:
                wait.wait(TIMEOUT_S)
            text = render(RenderRequest(TEMPLATE, messages)).text
            self.done.put(f"{name}: {text}")

        self.renderer.add(messages, work, lambda: is_wanted)
        return begun

    def next(self) -> str:
        return self.done.get(timeout=TIMEOUT_S)


def test_a_small_conversation_is_rendered_while_a_large_one_takes_its_time(children: list[TemplateChild]) -> None:
    bench, wait = Bench(children), threading.Event()
    assert bench.add("large", LARGE, wait=wait).wait(TIMEOUT_S)
    for number in range(3):
        bench.add(f"small {number}", SMALL)
        assert bench.next() == f"small {number}: user 1"
    wait.set()
    assert bench.next() == "large: user 1"
    assert len(children) == 2


def test_no_second_child_is_started_while_all_conversations_are_small(children: list[TemplateChild]) -> None:
    bench = Bench(children)
    for number in range(3):
        bench.add(str(number), SMALL)
    assert [bench.next() for _ in range(3)] == [f"{number}: user 1" for number in range(3)]
    assert len(children) == 1


def test_shorter_ones_go_first_until_a_long_one_has_waited_enough(children: list[TemplateChild]) -> None:
    bench, wait = Bench(children), threading.Event()
    assert bench.add("first", LARGE, wait=wait).wait(TIMEOUT_S)
    bench.add("long", LARGE * 20)
    bench.add("shorter", LARGE * 2)
    bench.now_s += 60
    bench.add("too late", LARGE * 2)
    wait.set()
    assert [bench.next().split(":")[0] for _ in range(4)] == ["first", "shorter", "long", "too late"]


def test_a_conversation_that_nobody_waits_for_is_not_rendered(children: list[TemplateChild]) -> None:
    bench, wait = Bench(children), threading.Event()
    assert bench.add("first", LARGE, wait=wait).wait(TIMEOUT_S)
    bench.add("gone", LARGE, is_wanted=False)
    bench.add("last", LARGE)
    wait.set()
    assert [bench.next().split(":")[0] for _ in range(2)] == ["first", "last"]


def test_a_child_that_cannot_be_started_fails_one_conversation_and_the_next_tries_again(
    children: list[TemplateChild],
) -> None:
    bench, failures = Bench(children), [OSError(12, "Cannot allocate memory")]
    start = bench._start

    def start_child() -> TemplateChild:
        if failures:
            raise failures.pop()
        return start()

    def work(render: Render) -> None:
        try:
            bench.done.put(render(RenderRequest(TEMPLATE, LARGE)).text)
        except OSError as error:
            bench.done.put(str(error))

    renderer = Renderer(children[0], start_child)
    for _ in range(2):
        renderer.add(LARGE, work, lambda: True)
    assert bench.next() == "[Errno 12] Cannot allocate memory"
    assert bench.next() == "user 1"
