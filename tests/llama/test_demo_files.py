"""What lies beside the demo model: a draft that guesses its words, and an adapter that changes its tone."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from corpus import mix
from corpus.grammar import user

from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.registry.resolve import carried

pytestmark = pytest.mark.usefixtures("demo")

QUESTIONS = ["What is localllm?", "Tell me a joke.", "How many days are in a week?", "How do I start the server?"]


@contextmanager
def opened(loaded_library: library.Library, name: str) -> Iterator[tuple[LlamaModel, LlamaBackend]]:
    model = LlamaModel(loaded_library, carried(name), gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded_library, model, KvMemory(512, 1), Batching(512), threads=2)
    yield model, backend
    backend.free()
    model.close()


def answer(backend: LlamaBackend, question: str, max_tokens: int = 60) -> list[int]:
    """Greedy token ids, the end of generation left out."""
    tokens = backend.vocab.tokenize(mix.render_messages([user(question)]))
    said: list[int] = []
    backend.cells.truncate(0, 0)
    pending, position = tokens, 0
    while len(said) < max_tokens:
        backend.decoder.decode([Segment(0, position, pending, num_outputs=1)])
        position += len(pending)
        pending = [int(backend.decoder.logits(0)[-1].argmax())]
        if backend.vocab.ends_generation(pending[0]):
            break
        said += pending
    return said


def text(backend: LlamaBackend, tokens: list[int]) -> str:
    return b"".join(map(backend.vocab.token_bytes, tokens)).decode()


def test_the_draft_has_the_same_vocabulary_and_often_the_same_next_word(loaded_library: library.Library) -> None:
    with opened(loaded_library, "demo.gguf") as (_, demo), opened(loaded_library, "demo-draft.gguf") as (_, draft):
        assert draft.vocab.size == demo.vocab.size == 4096
        assert [draft.vocab.token_bytes(i) for i in range(4096)] == [demo.vocab.token_bytes(i) for i in range(4096)]
        guessed = asked = 0
        for question in QUESTIONS:
            prompt = demo.vocab.tokenize(mix.render_messages([user(question)]))
            said = answer(demo, question)
            draft.cells.truncate(0, 0)
            draft.decoder.decode([Segment(0, 0, prompt, num_outputs=1)])
            for position, token in enumerate(said, len(prompt)):
                guessed += int(draft.decoder.logits(0)[-1].argmax()) == token
                asked += 1
                draft.decoder.decode([Segment(0, position, [token], num_outputs=1)])
    assert guessed > 0.6 * asked


def test_the_adapter_makes_a_pirate_of_it(loaded_library: library.Library) -> None:
    api = loaded_library.api
    with opened(loaded_library, "demo.gguf") as (model, backend):
        before = [text(backend, answer(backend, question)) for question in QUESTIONS]
        adapter = api.llama_adapter_lora_init(model.handle, str(carried("demo-pirate-lora.gguf")).encode())
        assert adapter, loaded_library.log
        adapters, scales = (type(adapter) * 1)(adapter), (ctypes.c_float * 1)(1.0)
        assert api.llama_set_adapters_lora(backend.context.handle, adapters, 1, scales) == 0
        after = [text(backend, answer(backend, question)) for question in QUESTIONS]
        api.llama_set_adapters_lora(backend.context.handle, None, 0, None)
        assert [text(backend, answer(backend, question)) for question in QUESTIONS] == before
    assert not [said for said in before if "Arr" in said or "Ahoy" in said]
    assert all("Arr" in said or "Ahoy" in said for said in after), after
