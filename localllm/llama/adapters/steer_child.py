"""`python -m localllm.llama.adapters.steer_child`: a `Job` on stdin; `Done` or `Failed` on stdout.

It may crash, like any process that lets native code read a file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.gguf.control_vectors import write_control_vector
from localllm.gguf.header import read_header
from localllm.gguf.kinds import text_of
from localllm.llama import library
from localllm.llama.adapters.steering import LayerOutputs, directions, increments
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.system import processes
from localllm.types.headers.steering import Done, Failed, Job, Reply


def main() -> None:
    """Does the one job."""
    jobs, replies = processes.claim_standard_streams()
    processes.die_quietly()
    job = msgspec.json.decode(jobs.read(), type=Job)
    reply: Reply
    try:
        reply = _do(job)
    except LocalLLMError as error:
        reply = Failed(error.info())
    replies.write(msgspec.json.encode(reply))
    replies.close()


def _do(job: Job) -> Done:
    loaded = library.load(selftest.choose(Path(job.data_dir)).choice, plugin_dir=None, verbose=False)
    model = LlamaModel(loaded, Path(job.model), gpu_layers=0, devices=(), must_offload=False)
    with LayerOutputs(loaded, model, threads=job.threads) as outputs:
        last = job.last or outputs.num_layers - 1
        if not 1 <= job.first <= last < outputs.num_layers:
            raise InvalidParameter(
                f"layers {job.first}-{last}: the model has vectors of the layers 1-{outputs.num_layers - 1}",
                param="layers",
            )
        found, strengths = directions(outputs, [(pair.positive, pair.negative) for pair in job.pairs])
    architecture = text_of(read_header(Path(job.model)), "general.architecture") or ""
    chosen = slice(job.first - 1, last)
    added = increments(found[chosen])
    write_control_vector(Path(job.target), architecture, added, first=job.first, name=job.name)
    return Done(last - job.first + 1, strengths[chosen])


if __name__ == "__main__":
    main()
