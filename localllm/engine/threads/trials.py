"""Which number of threads computes a kind of step fastest: measured while running, by trials that cost little.

A trial is a few steps with another number of threads between steps with the present one, all equally large; one that is
clearly slower ends at once. After a trial without effect the next one comes twice as many steps later, and a change of
conditions that leaves the steps as they were repeats no trial of fewer threads. Fewer threads that are equally fast are
preferred, because they leave cores to others.

No child and no file: steps are timed as they are computed, for conditions that change within seconds. Knows nothing of
other work, clocks or llama.cpp.
"""

from __future__ import annotations

from localllm.measuring.paired import usual_s

COMPARED = 6
"""Number of steps on each side of a comparison."""
FIRST_AFTER, MOST_BETWEEN = 16, 4096
"""Number of steps until the first trial, and maximum number between trials."""
LOST_TRIAL_FACTOR = 1.1
"""Factor by which a trial may be slower before it ends, after one step or more."""
FEWER_MAX_TIME, MORE_MAX_TIME = 1.01, 0.95
"""Maximum share of the present time for which fewer threads are adopted, and for which more threads are."""
JUMP_FACTOR = 1.5
"""Factor between the duration of steps now and at the last trial that calls for a new trial."""
STEADY_FACTOR = 1.1
"""Factor within which steps count as unchanged since the last trial: what fewer threads lost then, they lose now."""
MOST_SHARE = 0.02
"""Maximum share of all time that trials may cost, after the first few."""


class Trials:
    """Finds the fastest number of threads for one kind of step. Call `threads` before each step, `observe` after it."""

    def __init__(self, best: int | None = None, pause: int = FIRST_AFTER) -> None:
        """`best`: a guess; `pause`: steps until it is tried, more if it is more certain."""
        self.best = best
        """The fastest number of threads so far; None: as many as there are."""
        self._trying: int | None = None
        """Number of threads of the current trial, until its steps are done."""
        self._tried: int | None = None
        """Number of threads that was faster than the steps before it; the steps after it must confirm that."""
        self._tried_s: list[float] = []
        self._present_s: list[float] = []
        """Durations of the last steps with the present number of threads, without other steps in between."""
        self._since = 0
        """Number of steps since the last trial."""
        self.pause = self._next_after = pause
        """Number of steps between trials, which grows with trials without effect; and until the next trial."""
        self._tries_more = False
        self._went_up: bool | None = None
        """Whether the last change was to more threads; None: there was none."""
        self._reference_s = 0.0
        """Duration of a step at the last trial."""
        self._total_s = self._cost_s = 0.0
        self._may_be_wrong = False
        """Whether conditions changed since the last trial; whether steps did, too, shows after enough of them."""
        self._lost_at: tuple[int, float] | None = None
        """Number of threads that was clearly faster than fewer at the last trial, and the duration of its steps."""
        self._skips = False
        """Whether the next step starts or wakes threads and so does not count."""

    def threads(self, most: int) -> int:
        """Number of threads for the next step; `most`: number of free cores."""
        if self._trying is not None and self._trying > most:
            self.interrupt()
        return self._present(most) if self._trying is None else self._trying

    def interrupt(self) -> None:
        """Record that earlier and later steps do not compare: something else was computed, or free cores changed."""
        if self._trying is not None or self._tried is not None:
            self._since = 0
        self._trying = self._tried = None
        self._present_s.clear()
        self._skips = True

    def retry(self) -> None:
        """Record that conditions changed, so that earlier results may be wrong."""
        self._may_be_wrong = True
        self._went_up = None

    def observe(self, threads: int, seconds: float, most: int) -> None:
        """Record that a step of this kind took `seconds` with the number of threads that `threads` returned."""
        self._total_s += seconds
        if self._skips:
            self._skips = False
        elif self._trying is not None:
            self._tried_s.append(seconds)
            self._judge(most)
        else:
            self._since += 1
            self._present_s.append(seconds)
            del self._present_s[:-COMPARED]
            if len(self._present_s) == COMPARED:
                self._confirm(most) if self._tried is not None else self._maybe_try(threads, most)

    def _present(self, most: int) -> int:
        return most if self.best is None else min(self.best, most)

    def _maybe_try(self, present: int, most: int) -> None:
        typical_s = usual_s(self._present_s)
        if self._may_be_wrong:
            self._may_be_wrong = False
            if present < most or not self._is_as_it_was(present, typical_s):
                self.pause = self._next_after = FIRST_AFTER
        has_jumped = not self._reference_s / JUMP_FACTOR <= typical_s <= self._reference_s * JUMP_FACTOR
        allowed_s = MOST_SHARE * self._total_s + COMPARED * typical_s
        if (
            self._since < (min(FIRST_AFTER, self._next_after) if has_jumped else self._next_after)
            or self._cost_s > allowed_s
        ):
            return
        self._reference_s = typical_s
        fewer, more = _next_fewer(present), _next_more(present, most)
        if fewer < 1 and more > most:
            self._since = 0
            return
        self._trying = more if fewer < 1 or (self._tries_more and more <= most) else fewer
        self._tried_s.clear()
        self._skips = self._trying > present

    def _is_as_it_was(self, present: int, typical_s: float) -> bool:
        """Whether steps are as fast as at the last trial, in which fewer threads were clearly slower."""
        if self._lost_at is None:
            return False
        threads, before_s = self._lost_at
        return threads == present and before_s / STEADY_FACTOR <= typical_s <= before_s * STEADY_FACTOR

    def _judge(self, most: int) -> None:
        """Decide, after a step of a trial, whether the trial continues, has failed, or needs confirmation."""
        count, trying = len(self._tried_s), self._trying
        assert trying is not None
        present_s, tried_s = usual_s(self._present_s), usual_s(self._tried_s)
        if count < COMPARED and tried_s < LOST_TRIAL_FACTOR * present_s:
            return
        self._cost_s += max(0.0, sum(self._tried_s) - count * present_s) * (count + 1) / count
        self.interrupt()
        present = self._present(most)
        is_lost = trying < present and tried_s >= LOST_TRIAL_FACTOR * present_s
        self._lost_at = (present, present_s) if is_lost else None
        if count == COMPARED and tried_s <= self._wanted(trying, most) * present_s:
            self._tried = trying
        else:
            self._failed()

    def _confirm(self, most: int) -> None:
        """Check, with the steps after a trial, whether its gain came from the number of threads."""
        tried, present_s = self._tried, usual_s(self._present_s)
        assert tried is not None
        if tried > most or usual_s(self._tried_s) > self._wanted(tried, most) * present_s:
            self._tried = None
            self._failed()
            return
        self.interrupt()
        goes_up = self._tries_more = tried > self._present(most)
        self.best = None if tried == most else tried
        if self._went_up in (None, goes_up):
            self._next_after = COMPARED  # the next number in this direction
        else:  # equally good numbers: alternating between them gains nothing
            self._wait_longer()
        self._went_up = goes_up
        self._reference_s = usual_s(self._tried_s)

    def _failed(self) -> None:
        self._since = 0
        self._tries_more = not self._tries_more
        self._wait_longer()

    def _wait_longer(self) -> None:
        self.pause = self._next_after = min(2 * self.pause, MOST_BETWEEN)

    def _wanted(self, tried: int, most: int) -> float:
        """Share of the present time below which this number of threads is the better one."""
        return FEWER_MAX_TIME if tried < self._present(most) else MORE_MAX_TIME


def _next_fewer(threads: int) -> int:
    return threads // 2 if threads < 8 or threads % 4 else 3 * threads // 4


def _next_more(threads: int, most: int) -> int:
    return most if threads < most <= 2 * threads else 2 * threads
