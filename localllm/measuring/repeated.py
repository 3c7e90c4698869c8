"""Measurements that are repeated at later occasions while they are noisy, because something else used the CPU.

Knows nothing of what is measured.
"""

from __future__ import annotations

from typing import ClassVar, Self

import msgspec

MAX_ATTEMPTS = 3
"""Measurements in all."""


class Repeated(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement, or the best of several."""

    NOISY_SPREAD: ClassVar[float]
    """Equal passes that differ by more mean that something else used the CPU meanwhile."""

    spread: float = 0.0
    """Relative difference between equal passes."""
    attempts: int = 1
    """Measurements made so far, including this one."""

    @property
    def is_noisy(self) -> bool:
        return self.spread > self.NOISY_SPREAD

    @property
    def is_final(self) -> bool:
        """Whether repeating it would gain nothing."""
        return not self.is_noisy or self.attempts >= MAX_ATTEMPTS

    def clearer(self, before: Self) -> Self:
        """The less noisy of the two."""
        return self if self.spread <= before.spread else before

    def with_attempts_of(self, *measurements: Repeated) -> Self:
        """The same figures, counting the attempts of all these."""
        return msgspec.structs.replace(self, attempts=sum(each.attempts for each in measurements))
