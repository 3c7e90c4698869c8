"""What goes into the engine's thread and what comes out: requests, cancels, calls; deltas and failures of a step.

Knows nothing of what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from localllm.engine.sequence import Sequence
from localllm.errors import LocalLLMError
from localllm.states import EngineStatus
from localllm.types import Delta


class StepOutput(NamedTuple):
    """All that one step made: (request id, delta or error)."""

    step: int
    deltas: list[tuple[int, Delta]]
    failures: list[tuple[int, LocalLLMError]]


class Cancel(NamedTuple):
    id: int


class Inspect(NamedTuple):
    tell: Callable[[EngineStatus], None]


class Call(NamedTuple):
    work: Callable[[], None]


class Stop(NamedTuple):
    pass


Item = Sequence | Cancel | Inspect | Call | Stop
