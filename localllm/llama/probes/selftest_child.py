"""`python -m localllm.llama.probes.selftest_child`: a request on stdin, an answer on stdout, or a crash.

Surveys the CPU backends, or decodes the bundled file with one of them. Leaves the comparison of its tokens to the
parent, since a backend that miscalculates cannot be trusted with it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import LoadFailed, LocalLLMError
from localllm.llama import library
from localllm.llama.lacking import lacking
from localllm.llama.library import CpuChoice, Library
from localllm.llama.runtimes import installed
from localllm.measuring import probe

MEASURE_S = 0.1
"""Per kind of batch: some 60 batches of 65 tokens. Two of these for each candidate are hardly noticeable."""

EVERY_LAYER = 999


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to do; without a choice: a survey."""

    choice: CpuChoice | None = None
    library: str = ""
    """The library to survey, as in `Runtime.library`."""
    model_path: str = ""
    prompt: tuple[int, ...] = ()
    """Decoded as one batch."""
    singles: tuple[int, ...] = ()
    """Decoded after it, one at a time."""
    measure: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result."""

    error: str | None = None
    linked_in: bool = False
    variants: tuple[tuple[str, int], ...] = ()
    """Name and score, best first."""
    greedy: tuple[int, ...] = ()
    """The token with the largest logit after each token of prompt and singles."""
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    absent: tuple[str, ...] = ()
    """Why device backends do not load here, one sentence each."""
    lacks: tuple[str, ...] = ()
    """As in `lacking`."""
    build: str = ""
    """The `Build.version` of the library."""


def reply(request: Request, send: probe.Send) -> None:
    """Answers the one request."""
    try:
        send(survey(request.library) if request.choice is None else decode(request, request.choice))
    except LocalLLMError as error:
        send(Answer(error=error.message))


def survey(path: str) -> Answer:
    """The library's CPU backends, and their own ratings for this CPU."""
    files = installed.find(path)
    scored = library.variants(files)
    return Answer(linked_in=library.has_linked_in_cpu(files), variants=tuple((v.name, v.score) for v in scored))


def decode(request: Request, choice: CpuChoice) -> Answer:
    """Greedy tokens of the recorded path, and the speed if requested."""
    loaded = library.load(choice)
    with _Context(loaded, Path(request.model_path)) as context:
        answer = Answer(
            greedy=context.greedy(request.prompt, request.singles),
            absent=tuple(map(str, loaded.absent)),
            lacks=lacking(loaded),
            build=loaded.known.version,
        )
        if not request.measure:
            return answer
        return msgspec.structs.replace(
            answer,
            prefill_tokens_per_s=context.measure(request.prompt, 0),
            decode_tokens_per_s=context.measure(request.singles[:1], len(request.prompt)),
        )


def greedy_tokens(
    loaded: Library, path: Path, prompt: tuple[int, ...], singles: tuple[int, ...], devices: Sequence[str]
) -> tuple[int, ...]:
    """As `Answer.greedy`, with all layers on these devices."""
    with _Context(loaded, path, devices) as context:
        return context.greedy(prompt, singles)


class _Context:
    """The self-test's model in one sequence, on one thread: compares kernels, not core counts. Without `devices` the
    CPU computes, with them all layers are there."""

    def __init__(self, loaded: Library, path: Path, devices: Sequence[str] = ()) -> None:
        self._api: Any = loaded.api
        mark = loaded.log.mark()
        self._model = self._load(loaded, path, devices)
        params = self._api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = 256, 128, 128, 1
        params.n_threads = params.n_threads_batch = 1
        params.op_offload = params.offload_kqv = bool(devices)
        self._context = self._api.llama_init_from_model(self._model, params)
        if not self._context:
            raise LoadFailed(f"the self-test's context cannot be made: {loaded.log.errors_since(mark)}")
        self._num_vocabulary = self._api.llama_vocab_n_tokens(self._api.llama_model_get_vocab(self._model))
        self._batch = self._api.llama_batch_init(128, 0, 1)

    def _load(self, loaded: Library, path: Path, devices: Sequence[str]) -> Any:
        params = self._api.llama_model_default_params()
        handles = loaded.device_handles(devices)
        params.devices = ctypes.cast(handles, ctypes.c_void_p)
        params.n_gpu_layers = EVERY_LAYER if devices else 0
        params.use_extra_bufts = loaded.choice.extra_bufts
        mark = loaded.log.mark()
        model = self._api.llama_model_load_from_file(str(path).encode(), params)
        if not model:
            raise LoadFailed(f"the self-test's file does not load: {loaded.log.errors_since(mark)}")
        return model

    def __enter__(self) -> _Context:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.llama_batch_free(self._batch)
        self._api.llama_free(self._context)
        self._api.llama_model_free(self._model)

    def greedy(self, prompt: tuple[int, ...], singles: tuple[int, ...]) -> tuple[int, ...]:
        """The greedy token after each token of both: the prompt in one batch, then one at a time."""
        found = self.decode(prompt, 0)
        for index, token in enumerate(singles, start=len(prompt)):
            found += self.decode((token,), index)
        return tuple(found)

    def decode(self, tokens: tuple[int, ...], start: int) -> list[int]:
        """One batch at positions `start`...; the greedy token after each of its tokens."""
        self._decode(tokens, start)
        return [self._greedy(row) for row in range(len(tokens))]

    def measure(self, tokens: tuple[int, ...], start: int) -> float:
        """Tokens per second of a repeated batch: those of its fastest repetition, which noise disturbs least."""
        memory = self._api.llama_get_memory(self._context)
        best = float("inf")
        until = time.perf_counter() + MEASURE_S
        while (began := time.perf_counter()) < until:
            self._api.llama_memory_seq_rm(memory, 0, start, -1)
            self._decode(tokens, start)
            best = min(best, time.perf_counter() - began)
        return len(tokens) / best

    def _decode(self, tokens: tuple[int, ...], start: int) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row], batch.pos[row], batch.logits[row] = token, start + row, 1
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, 0
        if status := self._api.llama_decode(self._context, batch):
            raise LoadFailed(f"llama_decode returned {status}")

    def _greedy(self, row: int) -> int:
        logits = self._api.llama_get_logits_ith(self._context, row)[: self._num_vocabulary]
        return int(max(range(len(logits)), key=logits.__getitem__))


if __name__ == "__main__":
    probe.serve(Request, reply)
