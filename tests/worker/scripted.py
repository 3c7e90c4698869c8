"""A worker's preparer and engine over a real model file, in which only the draw of tokens is a script.

Vocabulary, template, rendering, KV cache and arithmetic are real; what a model "says" is what the test wants.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.constraint.constraint import Constraint
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.sampling.parameters import Mask
from localllm.engine.sampling.sampler import SampledToken, SamplerParams
from localllm.engine.sampling.selection import Row
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab
from localllm.types import ChatFormat, Finish, GenerationRequest, LoadedModel
from localllm.types.structures import Preface, Structure
from localllm.worker.grammars.constraints import Grammars
from localllm.worker.messages import Accepted, Rejected, Submit, Up
from localllm.worker.prompts.preparer import Preparer
from localllm.worker.prompts.rendering import Renderer
from localllm.worker.prompts.template_child import TemplateChild
from tests.worker.conftest import INFO

TIMEOUT_S = 60


class Script:
    """Implements `Sampler`: the tokens of the answer that is being made, one after the other."""

    def __init__(self) -> None:
        self.tokens: Sequence[int] = ()

    def sample(
        self,
        rows: Sequence[Row],  # noqa: ARG002  the protocol
        params: Sequence[SamplerParams],
        *,
        threads: int | None = None,  # noqa: ARG002  the protocol
    ) -> list[SampledToken]:
        return [SampledToken(self.tokens[each.draw]) for each in params]


class Anything:
    """Implements `Constraint`: answers are scripts, not what a grammar would have of them."""

    param = "tools"
    notes = ()
    cost_s = 0.0
    is_complete = ends_forced = is_cut = False
    end_reason: Literal["stop", "length"] = "stop"
    forced = ()

    def __init__(self, vocab: Vocab) -> None:
        self.end_tokens = vocab.end_tokens
        self._mask = np.full(-(-vocab.size // 32), 2**32 - 1, np.uint32)

    def take(self, token: int) -> None:
        pass

    def is_settled(self, token: int, num_left: int) -> bool:  # noqa: ARG002  the protocol has them
        return True

    def look(self, token: int, num_left: int) -> None:
        pass

    def in_time(self, token: int, num_left: int) -> int:  # noqa: ARG002  the protocol has it
        return token

    def allows(self, token: int, num_behind: int) -> bool:  # noqa: ARG002  the protocol has them
        return True

    def num_allowed(self, tokens: Sequence[int]) -> int:
        return len(tokens)

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:  # noqa: ARG002  as above
        return [self._mask] * num_rows


class NoGrammars(Grammars):
    """Holds no answer to anything."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def add(
        self,
        structure: Structure,  # noqa: ARG002  it has these
        preface: Preface | None,  # noqa: ARG002
        done: Callable[[Any], None],
        is_wanted: Callable[[], bool],  # noqa: ARG002
    ) -> None:
        anything: Constraint = Anything(self._vocab)  # compared with the protocol by mypy
        done(anything)


class ScriptedWorker:
    """One request at a time."""

    def __init__(self, model: LoadedModel, backend: LlamaBackend, child: TemplateChild) -> None:
        self.vocab: Vocab = backend.vocab
        self.script = Script()
        self.sequences: dict[int, Running] = {}
        self._ids = itertools.count(1)
        self._said: queue.SimpleQueue[Accepted | Rejected | Finish | BaseException] = queue.SimpleQueue()
        self.engine = build_engine(backend, self._emit, sampler=self.script, tiers=Tiers(2**26))
        take = self.engine.submit

        def submit(sequence: Running) -> None:
            self.sequences[sequence.id] = sequence
            take(sequence)

        self.engine.submit = submit  # type: ignore[method-assign]
        self.preparer = Preparer(
            model, self.vocab, Renderer(child), self.engine, self._hear, grammars=NoGrammars(self.vocab)
        )

    def run(self) -> None:
        """The engine's thread. What ends it is said to who waits for an answer, and raised as well."""
        try:
            self.engine.run()
        except BaseException as e:
            self._said.put(e)
            raise

    def _hear(self, message: Up) -> None:
        if isinstance(message, Accepted | Rejected):
            self._said.put(message)

    def _emit(self, output: StepOutput) -> None:
        self.preparer.remembered.take(output)
        assert not output.failures
        for _, delta in output.deltas:
            if delta.finish is not None:
                self._said.put(delta.finish)

    def answer(self, request: GenerationRequest, tokens: Sequence[int], *, ends: bool = True) -> tuple[Running, Finish]:
        """The request is answered with these tokens, and ends with an end token, unless its limit ends it."""
        self.script.tokens = [*tokens, *([self.vocab.end_tokens[-1]] * ends)]
        id = next(self._ids)
        self.preparer.submit(Submit(id, request))
        accepted = self._said.get(timeout=TIMEOUT_S)
        assert isinstance(accepted, Accepted), accepted
        finish = self._said.get(timeout=TIMEOUT_S)
        assert isinstance(finish, Finish), finish
        return self.sequences[id], finish

    def spelled(self, tokens: Sequence[int]) -> str:
        """What tokens stand for, control tokens among them."""
        return b"".join(self.vocab.piece(token, special=True) for token in tokens).decode()

    def cut_anyhow(self, text: str, seed: int) -> list[int]:
        """Tokens of the text that are not those of one call: a model draws others now and then."""
        places = sorted(int(each) for each in np.random.default_rng(seed).integers(0, len(text) + 1, len(text) // 3))
        pieces = [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]
        return [token for piece in pieces for token in self._plain(piece)]

    def _plain(self, text: str) -> list[int]:
        """Control tokens in it are text, but for those of a format."""
        return self.vocab.tokenize(text, add_special=False, parse_special=False)


@contextmanager
def scripted_worker(
    library: Library, path: Path, *, template: str, format: ChatFormat, ctx: int
) -> Iterator[ScriptedWorker]:
    model = LlamaModel(library, path, gpu_layers=0, devices=(), must_offload=False)
    child = TemplateChild()
    try:
        backend = open_backend(library, model, KvMemory(ctx, 1), Batching(512), threads=2)
        info = {name: getattr(INFO, name) for name in INFO.__struct_fields__}
        loaded = LoadedModel(
            id="m", path=str(path), info=type(INFO)(**{**info, "chat_templates": {"default": template}}), ctx=ctx,
            slots=1, memory=backend.cells.memory_kind, format=format, threads=2, layers_per_device={}, backend="",
            load_s=0.0, created_unix_s=0,
        )  # fmt: skip
        worker = ScriptedWorker(loaded, backend, child)
        thread = threading.Thread(target=worker.run, name="engine")
        thread.start()
        try:
            yield worker
        finally:
            worker.engine.stop()
            thread.join(TIMEOUT_S)
        backend.free()
    finally:
        child.close()
        model.close()
