"""Steps of an engine until it has nothing to do, with its integrity checked after each."""

from __future__ import annotations

from localllm.engine.engine import Engine


def drain(engine: Engine, limit: int = 10_000) -> None:
    for _ in range(limit):
        engine.step()
        engine.check_integrity()
        if not engine.scheduler.has_work:
            return
    raise AssertionError("the engine never ran out of work")
