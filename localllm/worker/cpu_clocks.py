"""CPU time of this process, of its threads that do not compute, and of the whole machine, for `engine.threads.team`."""

from __future__ import annotations

import os
import threading
import time

from localllm.engine.threads.governor import Governor
from localllm.engine.threads.team import Clocks, Reading, Team
from localllm.system import cpu
from localllm.worker.siblings import ENCODER, Siblings


def make_team(
    threads: int,
    threads_batch: int,
    *,
    layers_per_device: dict[str, int],
    has_cpu_tensors: bool = False,
    since: Reading | None = None,
) -> Team:
    """A team of at most `threads` threads, `threads_batch` for prompts; `since`: see `Team`.

    `has_cpu_tensors`: the CPU computes parts of layers that are on devices.
    """
    on_cpu = sum(count for device, count in layers_per_device.items() if device.startswith("CPU"))
    is_offloaded = on_cpu < sum(layers_per_device.values())
    num_cpus = None if cpu.busy_cpu_s() is None else cpu.num_usable_cpus()
    first = 1 if is_offloaded and on_cpu == 0 and not has_cpu_tensors else None
    governor = Governor(threads, most_batch=threads_batch, num_cpus=num_cpus, first=first)
    return Team(governor, CLOCKS, since=since, is_offloaded=is_offloaded)


def helpers_cpu_s() -> float:
    """CPU time of all Python threads except the calling one; 0 if the system shows no other thread's clock."""
    caller = threading.current_thread()
    return sum(_thread_cpu_s(each.native_id) for each in threading.enumerate() if each is not caller)


def _thread_cpu_s(native_id: int | None) -> float:
    clock = getattr(time, "clock_gettime", None)
    if clock is None or native_id is None or not hasattr(time, "pthread_getcpuclockid"):
        return 0.0  # without that function such a number may be another clock's
    try:
        # Linux's number of that clock. The function needs a thread that has not ended; its file takes thirty times as
        # long.
        return float(clock(~native_id << 3 | 6))
    except (OSError, OverflowError):
        return 0.0


def num_runnable() -> int | None:
    """Threads of the whole system that are running or runnable, including the caller; None if the system has no such
    file."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return None


CLOCKS = Clocks(
    helpers=helpers_cpu_s,
    machine=cpu.busy_cpu_s,
    runnable=num_runnable,
    siblings=Siblings().cpu_s,
    borrowers=Siblings(parent=os.getpid, module=ENCODER).cpu_s,
)
