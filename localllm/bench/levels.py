"""What to measure, and when a level is complete. Pure; knows no network and no clock."""

from __future__ import annotations

import msgspec

from localllm.errors import InvalidParameter

DEFAULT_LEVELS = (1, 2, 4, 8, 16, 32)
MAX_CONCURRENCY = 1024
MAX_LEVELS = 32
ROUNDS = 2
"""Minimum requests per connection in a level, unless the number of requests is given."""
LEVEL_S = 5.0
"""Time for which a level keeps starting requests, if `ROUNDS` take less."""
LEVEL_LIMIT_S = 60.0
"""Time after which a level starts no request in any case, so that measuring a slow model ends too."""
WARMUP_TOKENS = 8
"""Length of the answers to warm-up requests, which only open connections and load models."""
GIVE_UP_FAILURES = 8
"""Failures in a row, beyond one per connection, after which a level is abandoned."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and limits of one measurement. Raises `InvalidParameter` for invalid ones."""

    levels: tuple[int, ...] = DEFAULT_LEVELS
    """Numbers of concurrent requests, measured one after the other."""
    num_requests: int | None = None
    """For each level; None: as many as the time allows, and at least `ROUNDS` per connection."""
    duration_s: float | None = None
    """Time after which a level starts no request; None: `LEVEL_S`, or no limit if `num_requests` is given."""
    prompt_tokens: int = 64
    shared_prefix_tokens: int = 0
    max_tokens: int = 64
    seed: int = 0
    num_warmup: int | None = None
    """Warm-up requests before each level; None: one per connection."""
    timeout_s: float = 300.0
    """Limit for one whole answer."""
    ignore_eos: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise InvalidParameter(f"concurrency takes 1 to {MAX_LEVELS} levels", param="concurrency")
        for level in self.levels:
            _check("concurrency", level, 1, MAX_CONCURRENCY)
        _check("requests", self.num_requests, 1, 10_000_000)
        _check("duration_s", self.duration_s, 0.001, 1e6)
        _check("prompt_tokens", self.prompt_tokens, 1, 10_000_000)
        _check("shared_prefix_tokens", self.shared_prefix_tokens, 0, 10_000_000)
        _check("max_tokens", self.max_tokens, 1, 10_000_000)
        _check("warmup", self.num_warmup, 0, 100_000)
        _check("timeout_s", self.timeout_s, 0.001, 1e6)
        if self.num_requests is not None and self.num_requests < max(self.levels):
            raise InvalidParameter(
                f"{self.num_requests} requests cannot run {max(self.levels)} at a time; "
                "raise --requests, or lower --concurrency",
                param="requests",
            )

    def warmup(self, level: int) -> int:
        return level if self.num_warmup is None else self.num_warmup

    def may_start(self, level: int, num_started: int, elapsed_s: float, failures_in_a_row: int) -> bool:
        """Whether a free connection of this level takes another request."""
        if failures_in_a_row >= level + GIVE_UP_FAILURES:
            return False
        if self.num_requests is not None:
            return num_started < self.num_requests and (self.duration_s is None or elapsed_s < self.duration_s)
        if self.duration_s is not None:
            return elapsed_s < self.duration_s
        return elapsed_s < (LEVEL_LIMIT_S if num_started < ROUNDS * level else LEVEL_S)


def parse_levels(text: str) -> tuple[int, ...]:
    """The distinct numbers of `1,2,4`, in ascending order. Raises `InvalidParameter`."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise InvalidParameter(
            f"--concurrency takes comma-separated numbers, such as 1,4,16; got {text!r}", param="concurrency"
        ) from error


def _check(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        option = f"--{name.replace('_', '-')}"
        raise InvalidParameter(f"{option} must be from {low:g} to {high:,g}, got {value:g}", param=name)
