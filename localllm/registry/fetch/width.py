"""Chooses the number of connections of a download by trial: as many as make it faster. Pure; its clock is passed in.

Starts with one connection. Twice as many are tried once a rate is known, and kept if they bring at least `GAIN` times
the rate, as with servers that limit each connection and over long distances, but not on a local network. Changes that
did not help are tried again later, to fewer connections as well as to more. Knows nothing of files or sockets.
"""

from __future__ import annotations

from dataclasses import dataclass

GAIN = 1.15
"""Twice as many connections must bring at least this many times the rate."""
LOSS = 0.95
"""Half as many connections are kept if they bring at least this share of the rate."""
WINDOW_S = 0.5
"""Duration of a rate measurement."""
SETTLE_S = 3.0
"""The longest wait for new connections to receive data, or for surplus ones to end."""
FIRST_HOLD_S = 10.0
"""Pause after a trial that did not help; doubled each time."""
MAX_HOLD_S = 160.0


@dataclass(frozen=True)
class _Trial:
    """The state before the number was changed."""

    connections: int
    rate: float


class Width:
    """The number of connections of one download."""

    def __init__(self, most: int, first: int = 1) -> None:
        self.most = most
        self.connections = first
        """Connections to use now."""
        self.bytes_per_s = 0.0
        """Last measured rate of all connections together."""
        self._trial: _Trial | None = None
        self._changed_at: float | None = None
        self._window: tuple[float, int] | None = None
        self._hold_s = FIRST_HOLD_S
        self._next_try: float | None = None
        self._tries_fewer = False

    def observe(self, now: float, num_bytes: int, num_moving: int, *, is_limited: bool = False) -> None:
        """Counts `num_bytes` received over `num_moving` connections; `is_limited`: something else slows them down."""
        if is_limited or not num_moving or (self._window is not None and num_bytes < self._window[1]):
            self._window = None
            return
        if self._window is None or not self._is_settled(now, num_moving):
            self._window = now, num_bytes
            return
        began, before = self._window
        if now - began < WINDOW_S:
            return
        self.bytes_per_s = (num_bytes - before) / (now - began)
        self._window = now, num_bytes
        self._decide(now)

    def _is_settled(self, now: float, num_moving: int) -> bool:
        if self._changed_at is None:
            return True
        if num_moving != self.connections and now - self._changed_at < SETTLE_S:
            return False
        self._changed_at = None
        return False  # a new window begins

    def _decide(self, now: float) -> None:
        trial, self._trial = self._trial, None
        if trial is None:
            if self._next_try is None or now >= self._next_try:
                self._try(now)
            return
        is_fewer = self.connections < trial.connections
        if self.bytes_per_s >= trial.rate * (LOSS if is_fewer else GAIN):
            self._hold_s = FIRST_HOLD_S
            self._tries_fewer = is_fewer
            self._try(now)
            return
        self._tries_fewer = not is_fewer
        self._change(now, trial.connections)
        self._next_try, self._hold_s = now + self._hold_s, min(2 * self._hold_s, MAX_HOLD_S)

    def _try(self, now: float) -> None:
        """Tries the next number in the current direction; at the limit, tries the other direction later."""
        wanted = max(1, self.connections // 2) if self._tries_fewer else min(self.most, 2 * self.connections)
        if wanted == self.connections:
            self._tries_fewer = not self._tries_fewer
            self._next_try = now + self._hold_s
            return
        self._trial = _Trial(self.connections, self.bytes_per_s)
        self._change(now, wanted)

    def _change(self, now: float, connections: int) -> None:
        self.connections, self._changed_at, self._window = connections, now, None
