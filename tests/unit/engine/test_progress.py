"""What an engine shows of itself to those who watch it: busy while it computes, and further at every step."""

from __future__ import annotations

import threading
from collections.abc import Sequence as Many

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.embedding.encoder import EncoderEngine
from localllm.engine.engine import StepOutput
from localllm.engine.progress import Progress
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.types import ResolvedSampling
from tests.fakes import FakeBackend

TIMEOUT_S = 20
GREEDY = ResolvedSampling(temperature=0)


class Watched(FakeBackend):
    """Notes what shows during each step."""

    def __init__(self) -> None:
        super().__init__()
        self.progress: Progress | None = None
        self.seen: list[tuple[bool, int]] = []
        self.rests: list[int] = []

    def decode(self, segments: Many[Segment], *, within_s: float | None = None) -> bool:
        assert self.progress is not None
        self.seen.append((self.progress.is_busy, self.progress.num_advances))
        self.rests.append(self.num_rests)
        return super().decode(segments, within_s=within_s)


def test_an_engine_is_busy_while_it_computes_gets_on_at_every_step_and_rests_when_it_is_done() -> None:
    backend, ended, rested = Watched(), threading.Event(), threading.Event()

    def emit(output: StepOutput) -> None:
        if any(delta.finish is not None for _, delta in output.deltas):
            ended.set()

    engine = build_engine(backend, emit)
    backend.progress = engine.progress
    assert not engine.progress.is_busy, "what happens before the first step is the load"
    thread = threading.Thread(target=engine.run)
    thread.start()
    engine.submit(Sequence(Request(1, [1, 2, 3], sampling=GREEDY, max_tokens=5)))
    assert ended.wait(TIMEOUT_S)
    # `rest` comes before it waits for this.
    engine.call_soon(rested.set)
    assert rested.wait(TIMEOUT_S)
    engine.stop()
    thread.join(TIMEOUT_S)
    assert all(is_busy for is_busy, _ in backend.seen)
    numbers = [number for _, number in backend.seen]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 5
    assert len(set(backend.rests)) == 1, "the backend rests between steps"
    assert backend.num_rests > backend.rests[-1], "the backend does not rest after the last"


def test_an_encoders_loop_shows_the_same() -> None:
    class Nothing:
        has_work = False

        def step(self) -> None:
            pass

    engine = EncoderEngine(Nothing())  # type: ignore[arg-type]
    seen: list[tuple[bool, int]] = []
    for _ in range(3):
        engine.call_soon(lambda: seen.append((engine.progress.is_busy, engine.progress.num_advances)))
        engine.stop()
        engine._stopping = False
        engine.run()
    assert [number for _, number in seen[1:]] == [1, 2]
