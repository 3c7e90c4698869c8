"""The CPU time of threads that do not compute is read from their clocks."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from localllm.worker.cpu_clocks import helpers_cpu_s

SPENT_S = 0.05


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show a thread's clock")
def test_what_other_threads_used_counts_and_what_the_caller_used_does_not() -> None:
    may_end, is_done = threading.Event(), threading.Event()

    def spend() -> None:
        until_s = time.thread_time() + SPENT_S
        while time.thread_time() < until_s:
            pass

    def help_out() -> None:
        spend()
        is_done.set()
        may_end.wait()

    before_s = helpers_cpu_s()
    spend()
    assert helpers_cpu_s() - before_s < SPENT_S
    helper = threading.Thread(target=help_out)
    helper.start()
    assert is_done.wait(10)
    assert helpers_cpu_s() - before_s >= SPENT_S
    may_end.set()
    helper.join()
