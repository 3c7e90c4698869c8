"""`python -m localllm.llama.probes.speed_probe_child`: a `ProbeQuestion` in, a `ProbeAnswer` out, or a crash.

Measurements are remembered in the data directory by library, CPU, version and number of threads.
"""

from __future__ import annotations

import time
from pathlib import Path

from localllm.errors import LocalLLMError
from localllm.llama import library
from localllm.llama.probes import selftest, speed_probe
from localllm.llama.probes.speed_graph import TYPES, Cpu
from localllm.measuring import probe
from localllm.measuring.conditions import conditions_here
from localllm.measuring.result_store import ResultStore
from localllm.planning.speeds import MachineSpeed, ProbeAnswer, ProbeQuestion, tensor_type

FILE_NAME = "speed.json"
MAX_REMEMBERED = 16


def reply(question: ProbeQuestion, send: probe.Send) -> None:
    """Answers the one question."""
    try:
        send(speed_of(question))
    except LocalLLMError as error:
        send(ProbeAnswer(error=error.message))


def speed_of(question: ProbeQuestion) -> ProbeAnswer:
    """The remembered speeds, with what is missing measured if it may be. Raises `LoadFailed`."""
    data_dir = Path(question.data_dir)
    loaded = library.load(selftest.choose(data_dir, runtime=question.runtime).choice)
    memory = ResultStore(data_dir / FILE_NAME, MachineSpeed, most=MAX_REMEMBERED, subject="this machine's speed")
    here = conditions_here(library=loaded.build.fingerprint, backend=loaded.choice.label())
    name = here.key(str(question.threads))
    known = memory.get(name)
    kernels = [kernel for kernel in question.kernels if tensor_type(kernel) in TYPES and not _is_known(known, kernel)]
    heads = [size for size in question.heads if known is None or str(size) not in known.attention]
    if known is not None and not kernels and not heads:
        return ProbeAnswer(speed=known)
    if not question.may_measure:
        if known is None:
            return ProbeAnswer(error="this machine's speed is measured while no model is answering")
        return ProbeAnswer(speed=known)
    began = time.perf_counter()
    cpu = Cpu(loaded, question.threads)
    found = speed_probe.measure(cpu, known, question.threads, kernels, heads)
    cpu.close()
    memory.put(name, found)
    return ProbeAnswer(speed=found, took_s=round(time.perf_counter() - began, 3))


def _is_known(known: MachineSpeed | None, kernel: str) -> bool:
    return known is not None and kernel in known.kernels and known.kernels[kernel].is_final


if __name__ == "__main__":
    probe.serve(ProbeQuestion, reply)
