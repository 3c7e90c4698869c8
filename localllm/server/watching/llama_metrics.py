"""Totals of all models under llama-server's metric names, for its dashboards.

Throughput gauges are means since the last scrape. Knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from localllm.types import Finish
from localllm.types.states import EngineStatus

CONTENT_TYPE = "text/plain; version=0.0.4"


class Rate:
    """Token throughput since the last read."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += seconds

    def read(self) -> float:
        """Tokens per second; resets."""
        rate = self.tokens / self.seconds if self.seconds else 0.0
        self.tokens, self.seconds = 0, 0.0
        return rate


class Totals:
    """The totals of one server across loads and unloads."""

    def __init__(self) -> None:
        self.started_unix_s = int(time.time())
        self.computed = 0
        """Tokens of prompts and embedded texts, without cached ones."""
        self.cached = 0
        self.made = 0
        self._guessed = self._accepted = 0
        """Guessed tokens that were checked, and accepted ones."""
        self._num_embedded = 0
        """Requests for embeddings."""
        self._prompt_s = 0.0
        self._made_s = 0.0
        self._longest = 0
        self._prompt_rate = Rate()
        self._made_rate = Rate()
        self._steps: dict[str, tuple[int, int]] = {}
        """Model -> batches of its earlier processes and of the current one."""

    def finished(self, finish: Finish) -> None:
        """Count a finished answer."""
        usage, timings = finish.usage, finish.timings
        computed = usage.prompt_tokens - usage.cached_tokens
        self.computed += computed
        self.cached += usage.cached_tokens
        self.made += usage.completion_tokens
        self._guessed += usage.accepted_guesses + usage.rejected_guesses
        self._accepted += usage.accepted_guesses
        self._prompt_s += timings.prefill_s
        self._made_s += timings.decode_s
        self._longest = max(self._longest, usage.total_tokens)
        self._prompt_rate.add(computed, timings.prefill_s)
        # The first token is part of the prompt's last batch.
        self._made_rate.add(max(0, usage.completion_tokens - 1), timings.decode_s)

    def embedded(self, num_tokens: Sequence[int], seconds: float) -> None:
        """Count texts embedded or ranked; `num_tokens`: of each."""
        self._num_embedded += 1
        self.computed += sum(num_tokens)
        self._prompt_s += seconds
        self._longest = max(self._longest, max(num_tokens, default=0))
        self._prompt_rate.add(sum(num_tokens), seconds)

    def render(self, statuses: Mapping[str, EngineStatus]) -> bytes:
        """The metrics text. `statuses`: of loaded models that respond."""
        for model, status in statuses.items():
            before, last = self._steps.get(model, (0, 0))
            self._steps[model] = (before + (last if status.num_steps < last else 0), status.num_steps)
        decodes = sum(before + last for before, last in self._steps.values()) + self._num_embedded
        running = sum(status.num_running for status in statuses.values())
        waiting = sum(status.num_without_slot for status in statuses.values())
        counters: list[tuple[str, str, float]] = [
            ("prompt_tokens_total", "Prompt tokens computed, without cached ones", self.computed),
            ("prompt_tokens_cached_total", "Prompt tokens found in the cache", self.cached),
            ("prompt_seconds_total", "Time spent processing prompts", self._prompt_s),
            ("tokens_predicted_total", "Tokens generated", self.made),
            ("tokens_predicted_seconds_total", "Time spent generating tokens", self._made_s),
            ("n_decode_total", "Batches computed; each embedding request counts as one", decodes),
            ("n_tokens_max", "Largest number of tokens of a prompt and its answer", self._longest),
            ("spec_decode_num_draft_tokens_total", "Guessed tokens checked, of all sources", self._guessed),
            ("spec_decode_num_accepted_tokens_total", "Guessed tokens accepted", self._accepted),
            ("spec_decode_num_drafts_total", "Steps that checked guesses; not counted here, always 0", 0),
        ]
        gauges: list[tuple[str, str, float]] = [
            ("prompt_tokens_seconds", "Prompt tokens per second since the last scrape", self._prompt_rate.read()),
            ("predicted_tokens_seconds", "Generated tokens per second since the last scrape", self._made_rate.read()),
            ("requests_processing", "Requests with a slot", running),
            ("requests_deferred", "Requests waiting for a slot", waiting),
            ("n_busy_slots_per_decode", "Average number of tokens per batch", self.made / max(decodes, 1)),
        ]
        lines = [*_lines("counter", counters), *_lines("gauge", gauges)]
        return "".join(lines).encode()


def _lines(kind: str, metrics: Sequence[tuple[str, str, float]]) -> list[str]:
    return [
        f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value:.10g}\n"
        for name, help, value in metrics
    ]
