"""The cost of layers on an RPC server: none, half and all of them over loopback, in turns, with the same text.

    python -m benchmarks.rpc MODEL PLUGINS [--rounds N] [--tokens N]

PLUGINS is a folder with llama.cpp's RPC backend, such as that of `localllm runtime build rpc`. Both ends compute on the
same cores, so this shows the cost of the protocol and the processes, not the gain of a second machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import text
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import Finish, GenerationRequest, GpuLayers, SamplingParams
from localllm.types.load_options import LoadOptions

PROMPT_WORDS = 400


class Round(NamedTuple):
    """One load and one answer."""

    load_s: float
    prompt_tokens_per_s: float
    answer_tokens_per_s: float
    text: str


@contextlib.contextmanager
def server(plugins: Path, home: Path) -> Iterator[str]:
    """Run `localllm worker` on a free port; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "localllm", "worker", "--rpc", endpoint]
    with subprocess.Popen(
        [*command, "--plugin-dir", str(plugins), "--home", str(home)], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "on the other machine" in line)
        try:
            yield endpoint
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


async def measure(runtime: Runtime, model: Path, layers: GpuLayers, tokens: int) -> Round:
    """Load, answer, unload."""
    loaded = await runtime.load(model, LoadOptions(gpu_layers=layers, slots=1, ctx=2048))
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    words, finish = "", None
    try:
        (answer,) = await runtime.submit(loaded.id, [GenerationRequest(prompt=text(PROMPT_WORDS, 1), params=params)])
        async for delta in answer:
            words += delta.text
            finish = delta.finish or finish
    finally:
        await runtime.unload(loaded.id)
    assert isinstance(finish, Finish)
    timings, usage = finish.timings, finish.usage
    return Round(loaded.load_s, usage.prompt_tokens / timings.prefill_s, (tokens - 1) / timings.decode_s, words)


async def main() -> None:
    """Print a line for each number of layers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("plugins", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, server(arguments.plugins, Path(name)) as endpoint:
        settings = load({"plugin_dir": arguments.plugins, "rpc": endpoint, "home": Path(name)}, environ={})
        runtime = Runtime(settings)
        try:
            whole = await runtime.load(arguments.model, LoadOptions(gpu_layers=0, slots=1))
            await runtime.unload(whole.id)
            choices: dict[str, GpuLayers] = {"none": 0, "half": (whole.info.num_layers + 1) // 2, "all": "all"}
            rounds: dict[str, list[Round]] = {each: [] for each in choices}
            for number in range(arguments.rounds + 1):
                for each, layers in choices.items():
                    found = await measure(runtime, arguments.model, layers, arguments.tokens)
                    if number:  # the first one fills caches
                        rounds[each].append(found)
        finally:
            await runtime.aclose()
    same = len({found.text for each in rounds.values() for found in each}) == 1
    print(f"{arguments.rounds} rounds, medians; the same text everywhere: {'yes' if same else 'NO'}")
    for each, several in rounds.items():
        load_s = statistics.median(found.load_s for found in several)
        prompt = statistics.median(found.prompt_tokens_per_s for found in several)
        answer = statistics.median(found.answer_tokens_per_s for found in several)
        print(f"{each:>5} layers there: load {load_s:5.2f} s, prompt {prompt:6.0f}/s, answer {answer:5.1f}/s")


if __name__ == "__main__":
    asyncio.run(main())
