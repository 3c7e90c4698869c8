"""Renders conversations, small ones beside large ones: each kind has its own thread and template child.

A template may take a second of CPU, and later requests must not wait for many of those: short conversations go first,
and waiting eventually brings a long one's turn. Knows nothing of tokens.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Sequence

from localllm.chat.request import RenderedText, RenderRequest
from localllm.system.threads import start_thread
from localllm.types import Message, Rendering
from localllm.worker.prompts.template_child import TemplateChild

SMALL_CHARACTERS = 64 * 1024
"""Conversations up to this size never wait for larger ones."""
MESSAGE_CHARACTERS = 50
"""Size that a message counts for besides its content."""
MEDIA_CHARACTERS = 100
"""Size of the mark that stands for a picture or sound."""
CHARACTERS_PER_S = 100_000
"""A conversation that is longer by this much yields to one that arrives up to a second later."""

NO_RENDERING = Rendering()

Render = Callable[[RenderRequest], RenderedText]
Work = Callable[[Render], None]


class Renderer:
    """`add` may be called on any thread."""

    def __init__(
        self,
        child: TemplateChild,
        start_child: Callable[[], TemplateChild] = TemplateChild,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`child` renders small conversations; another is started for the first large one."""
        self._clock = clock
        self._small = _Lane("render-small", lambda: child)
        self._large = _Lane("render-large", start_child)

    def add(
        self,
        messages: Sequence[Message],
        work: Work,
        is_wanted: Callable[[], bool],
        rendering: Rendering = NO_RENDERING,
    ) -> None:
        """Call `work` on a thread where it may render, unless it is no longer wanted. It must not raise."""
        size = sum(map(_size, messages)) + sum(map(len, (rendering.variables, rendering.tools, rendering.documents)))
        lane = self._small if size <= SMALL_CHARACTERS else self._large
        lane.put(self._clock() + size / CHARACTERS_PER_S, work, is_wanted)


def _size(message: Message) -> int:
    calls = sum(len(call.arguments) + MESSAGE_CHARACTERS for call in message.tool_calls)
    media = MEDIA_CHARACTERS * len(message.media)
    return len(message.content) + len(message.thought) + media + calls + MESSAGE_CHARACTERS


class _Lane:
    def __init__(self, name: str, start_child: Callable[[], TemplateChild]) -> None:
        self._start_child = start_child
        self._child: TemplateChild | None = None
        self._numbers = itertools.count()
        self._queue: queue.PriorityQueue[tuple[float, int, Work, Callable[[], bool]]] = queue.PriorityQueue()
        start_thread(self._run, name)

    def put(self, order: float, work: Work, is_wanted: Callable[[], bool]) -> None:
        self._queue.put((order, next(self._numbers), work, is_wanted))

    def _run(self) -> None:
        while True:
            _, _, work, is_wanted = self._queue.get()
            if is_wanted():
                work(self._render)

    def _render(self, request: RenderRequest) -> RenderedText:
        """Starts the child if needed: one that cannot be started fails this request and not the thread."""
        self._child = self._child or self._start_child()
        return self._child.render(request)
