"""What all models have done together, under llama-server's names and in its text, for dashboards that are made for it.

Its gauges of throughput are means since the last time that somebody asked. Knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from localllm.types import Finish
from localllm.types.states import EngineStatus

CONTENT_TYPE = "text/plain; version=0.0.4"


class Rate:
    """Of tokens, since the last time that it was read."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        self.tokens += tokens
        self.seconds += seconds

    def read(self) -> float:
        """Tokens a second; begins anew."""
        rate = self.tokens / self.seconds if self.seconds else 0.0
        self.tokens, self.seconds = 0, 0.0
        return rate


class Totals:
    """Of one server, whatever is loaded or unloaded."""

    def __init__(self) -> None:
        self.started_unix_s = int(time.time())
        self.computed = 0
        """Tokens of prompts and of texts to embed, without those that were cached."""
        self.cached = 0
        self.made = 0
        self._guessed = self._accepted = 0
        """Tokens that were computed before it was their turn, and those of them that came."""
        self._num_embedded = 0
        """Requests for embeddings."""
        self._prompt_s = 0.0
        self._made_s = 0.0
        self._longest = 0
        self._prompt_rate = Rate()
        self._made_rate = Rate()
        self._steps: dict[str, tuple[int, int]] = {}
        """Model -> batches of its earlier processes, and of the one that was asked last."""

    def finished(self, finish: Finish) -> None:
        """An answer came to its end."""
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
        # The first token comes of the prompt's last batch.
        self._made_rate.add(max(0, usage.completion_tokens - 1), timings.decode_s)

    def embedded(self, num_tokens: Sequence[int], seconds: float) -> None:
        """Texts were embedded or ranked; `num_tokens`: of each of them."""
        self._num_embedded += 1
        self.computed += sum(num_tokens)
        self._prompt_s += seconds
        self._longest = max(self._longest, max(num_tokens, default=0))
        self._prompt_rate.add(sum(num_tokens), seconds)

    def render(self, statuses: Mapping[str, EngineStatus]) -> bytes:
        """The text of all of them. `statuses`: of the models that are loaded and answer."""
        for model, status in statuses.items():
            before, last = self._steps.get(model, (0, 0))
            self._steps[model] = (before + (last if status.num_steps < last else 0), status.num_steps)
        decodes = sum(before + last for before, last in self._steps.values()) + self._num_embedded
        running = sum(slot.request is not None for status in statuses.values() for slot in status.slots)
        waiting = sum(status.num_waiting for status in statuses.values())
        counters: list[tuple[str, str, float]] = [
            ("prompt_tokens_total", "Prompt tokens that were computed, without cached ones", self.computed),
            ("prompt_tokens_cached_total", "Prompt tokens that were in the cache", self.cached),
            ("prompt_seconds_total", "Time spent on prompts", self._prompt_s),
            ("tokens_predicted_total", "Tokens made", self.made),
            ("tokens_predicted_seconds_total", "Time spent on making them", self._made_s),
            ("n_decode_total", "Batches computed, each request for embeddings counted as one", decodes),
            ("n_tokens_max", "Most tokens of one prompt and its answer", self._longest),
            ("spec_decode_num_draft_tokens_total", "Tokens that were guessed, by whomever, and checked", self._guessed),
            ("spec_decode_num_accepted_tokens_total", "Those of them that came", self._accepted),
            ("spec_decode_num_drafts_total", "Not counted here, and always 0: steps that checked guesses", 0),
        ]
        gauges: list[tuple[str, str, float]] = [
            ("prompt_tokens_seconds", "Prompt tokens a second, since the last scrape", self._prompt_rate.read()),
            ("predicted_tokens_seconds", "Tokens made a second, since the last scrape", self._made_rate.read()),
            ("requests_processing", "Requests that have a slot", running),
            ("requests_deferred", "Requests that wait for one", waiting),
            ("n_busy_slots_per_decode", "Tokens made for each batch, on average", self.made / max(decodes, 1)),
        ]
        lines = [*_lines("counter", counters), *_lines("gauge", gauges)]
        return "".join(lines).encode()


def _lines(kind: str, metrics: Sequence[tuple[str, str, float]]) -> list[str]:
    return [
        f"# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value:.10g}\n"
        for name, help, value in metrics
    ]
