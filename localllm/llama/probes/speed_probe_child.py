"""`python -m localllm.llama.probes.speed_probe_child`: a `ProbeQuestion` in, a `ProbeAnswer` out, or a crash.

Measurements are remembered in the data directory by library, CPU, version and number of threads.
"""

from __future__ import annotations

import faulthandler
import time
from pathlib import Path

import msgspec

from localllm import __version__
from localllm.errors import LocalLLMError
from localllm.llama import library
from localllm.llama.probes import selftest, speed_probe
from localllm.llama.probes.result_store import ResultStore, key
from localllm.llama.probes.speed_graph import TYPES, Cpu
from localllm.planning.speeds import MachineSpeed, ProbeAnswer, ProbeQuestion, tensor_type
from localllm.system import cpu as system_cpu
from localllm.system import processes

FILE_NAME = "speed.json"
MAX_REMEMBERED = 16
GIVE_UP_S = 60.0
"""The child ends itself after this time, in case its parent is gone."""


def main() -> None:
    """Answers the one question."""
    questions, answers = processes.claim_standard_streams()
    processes.die_quietly()
    question = msgspec.json.decode(questions.read(), type=ProbeQuestion)
    faulthandler.dump_traceback_later(GIVE_UP_S, exit=True)
    try:
        answer = probe(question)
    except LocalLLMError as error:
        answer = ProbeAnswer(error=error.message)
    answers.write(msgspec.json.encode(answer))
    answers.close()


def probe(question: ProbeQuestion) -> ProbeAnswer:
    """The remembered speeds, with what is missing measured if it may be. Raises `LoadFailed`."""
    data_dir = Path(question.data_dir)
    loaded = library.load(selftest.choose(data_dir, runtime=question.runtime).choice)
    memory = ResultStore(data_dir / FILE_NAME, MachineSpeed, most=MAX_REMEMBERED, subject="this machine's speed")
    name = key(
        loaded.build.fingerprint, loaded.choice.label(), system_cpu.cpu_model(), str(question.threads), __version__
    )  # fmt: skip
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
    return known is not None and kernel in known.kernels and speed_probe.is_final(known.kernels[kernel])


if __name__ == "__main__":
    main()
