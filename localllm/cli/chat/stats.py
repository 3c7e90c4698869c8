"""What answers cost, as text: tokens, waiting time, speed. Knows no terminal."""

from __future__ import annotations

from localllm.types import Finish


class Totals:
    """Totals over all answers of a chat."""

    def __init__(self) -> None:
        self.num_answers = 0
        self.num_tokens = 0
        self.decode_s = 0.0
        self.num_guesses = self.num_right_guesses = 0
        self.num_decoded = 0
        self.context_tokens = 0
        """Prompt and answer of the last one: how much of the context the conversation takes."""
        self.last: str | None = None

    def add(self, finish: Finish, first_token_s: float | None, ctx: int | None) -> None:
        """Count an answer. `first_token_s`: the time to first token."""
        usage = finish.usage
        self.num_answers += 1
        self.num_tokens += usage.completion_tokens
        self.num_decoded += max(0, usage.completion_tokens - 1)
        self.decode_s += finish.timings.decode_s
        self.num_guesses += usage.accepted_guesses + usage.rejected_guesses
        self.num_right_guesses += usage.accepted_guesses
        self.context_tokens = usage.total_tokens
        self.last = stats_line(finish, first_token_s, ctx)

    def lines(self, model_id: str, ctx: int | None) -> list[str]:
        """For /stats."""
        if self.last is None:
            return [f"model    {model_id}" + (f", context of {ctx} tokens" if ctx else ""), "no answer yet"]
        used = f"{self.context_tokens} tokens"
        if ctx:
            used = f"{self.context_tokens} of {ctx} tokens ({self.context_tokens / ctx:.0%})"
        guesses = f"{self.num_right_guesses} of {self.num_guesses} guessed tokens accepted"
        return [
            f"model    {model_id}",
            f"last     {self.last}",
            f"all      {_answers(self.num_answers)}, {self.num_tokens} tokens{_speed(self.num_decoded, self.decode_s)}",
            *([f"guesses  {guesses}"] if self.num_guesses else []),
            f"context  {used}, after the last answer",
        ]


def stats_line(finish: Finish, first_token_s: float | None, ctx: int | None = None) -> str:
    """One answer's figures, in one line."""
    usage = finish.usage
    thought = f" ({usage.reasoning_tokens} of thinking)" if usage.reasoning_tokens else ""
    parts = [f"{usage.completion_tokens} tokens{thought}{_speed(usage.completion_tokens - 1, finish.timings.decode_s)}"]
    if first_token_s is not None:
        parts.append(f"first after {first_token_s:.2f} s")
    if num_guesses := usage.accepted_guesses + usage.rejected_guesses:
        parts.append(f"guessed {usage.accepted_guesses} of {num_guesses}")
    parts.append(f"prompt {usage.prompt_tokens} ({usage.cached_tokens} cached)")
    if ctx:
        parts.append(f"context {usage.total_tokens} of {ctx}")
    return f"[{finish.reason}] " + "; ".join(parts)


def describe(finish: Finish) -> str:
    """One answer's timings, in one line; prefill produces the first token."""
    usage, timings = finish.usage, finish.timings
    computed = usage.prompt_tokens - usage.cached_tokens
    return (
        f"[{finish.reason}] prompt {usage.prompt_tokens} tokens ({usage.cached_tokens} cached), "
        f"{_rate(computed, timings.prefill_s)}; answer {usage.completion_tokens} tokens, "
        f"{_rate(usage.completion_tokens - 1, timings.decode_s)}; waited {timings.queue_s * 1000:.0f} ms"
    )


def _rate(tokens: int, seconds: float) -> str:
    return f"{seconds:.2f} s, {tokens / seconds:.1f} tokens/s" if seconds > 0 and tokens > 0 else f"{seconds:.2f} s"


def _speed(tokens: int, seconds: float) -> str:
    return f", {tokens / seconds:.1f} tokens/s" if seconds > 0 and tokens > 0 else ""


def _answers(count: int) -> str:
    return "1 answer" if count == 1 else f"{count} answers"
