"""Measures a model's speed, loaded and run like in a worker: `benchmarks.prediction_child MODEL HOME [THREADS]`.

Prints JSON: seconds per prompt of 512 tokens, and per answer token after it. Knows nothing of predictions.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np

from localllm.engine.building import build_engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling import native
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.probes import selftest
from localllm.planning.plan import plan
from localllm.system import cpu
from localllm.types import ResolvedSampling
from localllm.types.load_options import LoadOptions
from localllm.worker.loading import load_model
from localllm.worker.messages import Load

PROMPT, ANSWER = 512, 32
LEAST_S = 3.0
"""Minimum time for all rounds."""


def main() -> None:
    path, home = Path(sys.argv[1]), Path(sys.argv[2])
    loaded = library.load(selftest.choose(home).choice)
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else cpu.num_physical_cores()
    options = LoadOptions(ctx=1024, slots=1, gpu_layers=0, threads=threads)
    info = read_model_info(path)
    placement = plan(info, options, loaded.devices())
    model = load_model(loaded, Load("it", str(path), info, options, placement), lambda _: None, home)
    assert model.backend is not None
    sampler = native.load(threads=threads, team=loaded.team)
    engine = build_engine(model.backend, lambda _: None, sampler=sampler)
    random = np.random.default_rng(0)
    # With one thread, CPU time is measured, which excludes the time of other processes.
    clock = time.process_time if threads == 1 else time.perf_counter
    prompts, answers = [], []
    until = time.perf_counter() + LEAST_S
    for id in range(1000):
        tokens = random.integers(0, info.vocabulary_size, PROMPT).tolist()
        sequence = Sequence(
            Request(
                id,
                tokens,
                sampling=ResolvedSampling(temperature=0),
                max_tokens=ANSWER + 1,
                ending=Ending(ignore_eos=True),
            )
        )
        began = clock()
        engine.submit(sequence)
        while not engine.scheduler.running or engine.scheduler.running[0].progress.num_pending > 1:
            engine.step()
        times = [clock()]
        while engine.scheduler.running:
            engine.step()
            times.append(clock())
        if id:  # the first allocates
            prompts.append(times[0] - began)
            answers += [later - earlier for earlier, later in itertools.pairwise(times[1:])]
        if id > 1 and time.perf_counter() > until:
            break
    print(json.dumps({"prompt_s": prompts, "answer_s": answers, "flash": model.backend.context.flash_attn}))


if __name__ == "__main__":
    main()
