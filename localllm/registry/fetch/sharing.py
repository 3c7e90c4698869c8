"""Load balancing between connections: an idle one takes over part of what another one has requested."""

from __future__ import annotations

from collections.abc import Sequence

from localllm.registry.fetch.flight import Flight
from localllm.registry.fetch.ranges import Range

MIN_STEAL_BYTES = 512 * 1024
SLOW_S = 2.0
"""An idle connection helps a flight that has taken this long and needs as long again."""
DEAD_S = 5.0
"""An idle connection replaces a flight that has received nothing for this long."""


def shorten(flights: Sequence[Flight], chunk_bytes: int) -> bool:
    """Cuts a flight that requested a whole gap to one chunk, leaving the rest to others. False if there is none."""
    for flight in flights:
        if flight.end is not None and flight.end - flight.pos > 2 * chunk_bytes and not flight.dropped:
            flight.end = flight.pos + chunk_bytes
            return True
    return False


def steal(flights: Sequence[Flight], now: float) -> Range | None:
    """The second half of what the slowest flight still has to fetch."""
    slowest, longest_s = None, SLOW_S
    for flight in flights:
        if flight.is_paused or flight.end is None:
            continue
        if now - flight.moved_at > DEAD_S:
            flight.dropped = True  # once its thread notices, the rest of its range is missing again
            return None
        rest, moved, seconds = flight.end - flight.pos, flight.pos - flight.start, now - flight.started_at
        rest_s = rest * seconds / moved if moved else seconds
        if seconds >= SLOW_S and rest >= 2 * MIN_STEAL_BYTES and rest_s > longest_s:
            slowest, longest_s = flight, rest_s
    if slowest is None or slowest.end is None:
        return None
    middle, end = slowest.pos + (slowest.end - slowest.pos) // 2, slowest.end
    slowest.end = middle
    return middle, end
