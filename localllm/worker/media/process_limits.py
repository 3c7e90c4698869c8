"""What bounds the processes that decode and encode media, as users set it. Knows no setting's name."""

from __future__ import annotations

from typing import NamedTuple


class DecodingLimits(NamedTuple):
    """Of one file."""

    cpu_s: float = 20.0
    """A picture of 64 megapixels takes 2 s, an hour of MP3 10."""
    memory_mb: int = 1536
    """64 megapixels in two copies of 4 bytes, the pixels that are returned, and what Python and its libraries map."""


DEFAULT_LIMITS = DecodingLimits()


class EncodingLimits(NamedTuple):
    """As users set them."""

    idle_s: float = 600.0
    """The process ends after so long without work."""
    call_s: float = 2.0
    """Expected time of the longest call with several tiles."""
    timeout_s: float = 900.0
    """Wall clock of one call."""
    refused_s: float = 600.0
    """How long a medium that ended the process is refused."""
