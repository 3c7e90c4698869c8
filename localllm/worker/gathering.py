"""Gathers the deltas of several steps into one message, so that fast models do not cost the parent a wake-up a token.

The first token of an answer, what comes before it, and its end are never held back, nor is a delta after a pause: a
message leaves at most `interval_s` after the first delta in it. Reads no clock.
"""

from __future__ import annotations

from localllm.worker.messages import Deltas, Rejected, Up


class Gathering:
    """Messages go in one by one and come out in the same order."""

    def __init__(self) -> None:
        self._interval_s = 0.0
        self._held: list[Deltas] = []
        self._sent_s = float("-inf")
        """When deltas were sent last."""
        self._begun: set[int] = set()
        """Requests of whose answers a token was sent, until they end."""

    def every(self, interval_s: float) -> None:
        """The shortest time from now on between two messages with deltas alone; 0: each leaves at once."""
        self._interval_s = interval_s

    def put(self, message: Up, now_s: float) -> list[Up]:
        """What is to be sent now."""
        if not isinstance(message, Deltas):
            if isinstance(message, Rejected):
                self._begun.discard(message.id)
            return [*self.take(now_s), message]
        self._held.append(message)
        return self.take(now_s) if self._is_urgent(message) or self.wait_s(now_s) == 0 else []

    def wait_s(self, now_s: float) -> float | None:
        """How long until `take`; None if nothing is held."""
        return max(0.0, self._sent_s + self._interval_s - now_s) if self._held else None

    def take(self, now_s: float) -> list[Up]:
        """All that is held, as one message."""
        if not self._held:
            return []
        held, self._held, self._sent_s = self._held, [], now_s
        return [held[0] if len(held) == 1 else Deltas(held[-1].step, tuple(item for one in held for item in one.items))]

    def _is_urgent(self, message: Deltas) -> bool:
        is_urgent = False
        for id, delta in message.items:
            is_urgent = is_urgent or delta.finish is not None or id not in self._begun
            if delta.finish is not None:
                self._begun.discard(id)
            elif delta.num_tokens:  # progress of the prompt comes before
                self._begun.add(id)
        return is_urgent
